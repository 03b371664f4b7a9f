//! Tests of the lists of hops in headers.

use std::net::IpAddr;

use proptest::prelude::*;

use crate::identifiers::forwarded::{forwarded_hops, x_forwarded_for_hops};

fn x_forwarded_for(line: &str) -> Vec<Option<IpAddr>> {
    x_forwarded_for_hops(line.as_bytes()).collect()
}

fn forwarded(line: &str) -> Vec<Option<IpAddr>> {
    forwarded_hops(line.as_bytes()).collect()
}

fn hops(texts: &[&str]) -> Vec<Option<IpAddr>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

#[test]
fn x_forwarded_for_is_read_from_the_right() {
    for (line, expected) in [
        ("", &[][..]),
        (" , ,", &[]),
        ("192.0.2.1", &["192.0.2.1"]),
        ("192.0.2.1, 192.0.2.2:80 ,[2001:db8::3]:80", &["2001:db8::3", "192.0.2.2", "192.0.2.1"]),
        (",,192.0.2.1,, ,192.0.2.2,", &["192.0.2.2", "192.0.2.1"]),
        ("unknown, 192.0.2.1, x y", &["none", "192.0.2.1", "none"]),
        ("\"192.0.2.1\"", &["none"]),
    ] {
        assert_eq!(x_forwarded_for(line), hops(expected), "{line}");
    }
    let not_utf8 = x_forwarded_for_hops(b"192.0.2.1, \xff192.0.2.2, 192.0.2.3").collect::<Vec<_>>();
    assert_eq!(not_utf8, hops(&["192.0.2.3", "none", "192.0.2.1"]));
}

#[test]
fn forwarded_is_read_from_the_right() {
    for (line, expected) in [
        ("", &[][..]),
        (", ,", &[]),
        ("for=192.0.2.43", &["192.0.2.43"]),
        ("for=192.0.2.43, for=198.51.100.17;by=203.0.113.60;proto=http", &["198.51.100.17", "192.0.2.43"]),
        ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
        ("by=203.0.113.43;FOR=\"192.0.2.43:47011\" ; proto=https", &["192.0.2.43"]),
        // Without the quotes that RFC 7239 demands.
        ("for=[2001:db8::1]:80;proto=http", &["2001:db8::1"]),
        ("for=2001:db8::1", &["2001:db8::1"]),
        // Commas, semicolons, quotes and backslashes in quotes.
        ("for=192.0.2.1;ext=\"a, for=6.6.6.6; b\", for=192.0.2.2", &["192.0.2.2", "192.0.2.1"]),
        (r#"for=192.0.2.1;ext="a\", for=6.6.6.6", for=192.0.2.2"#, &["192.0.2.2", "192.0.2.1"]),
        (r#"for=192.0.2.1;ext="a\\", for=192.0.2.2;ext="\\\"\\""#, &["192.0.2.2", "192.0.2.1"]),
        (r#"for="1\92.\0.2.\1""#, &["192.0.2.1"]),
        ("for=192.0.2.1;", &["192.0.2.1"]),
        // Obfuscated and unknown.
        ("for=unknown, for=_hidden, for=\"_SEVKISEK\"", &["none", "none", "none"]),
        // Says nothing about whom the proxy serves.
        ("proto=https;by=203.0.113.43", &["none"]),
        ("for=192.0.2.1;for=192.0.2.2", &["none"]),
        // Malformed.
        ("192.0.2.1", &["none"]),
        ("for=\"192.0.2.1", &["none"]),
        ("for=\"192.0.2.1\"x", &["none"]),
        ("for=192.0.2.1\"", &["none"]),
        ("for=192.0.2.1 for=192.0.2.2", &["none"]),
        ("for=192.0.2.1;proto", &["none"]),
        ("for=192.0.2.1 x;proto=http", &["none"]),
        (r#"for="192.0.2.1\"#, &["none"]),
        (r"for=192.0.2.1\", &["none"]),
    ] {
        assert_eq!(forwarded(line), hops(expected), "{line}");
    }
}

#[test]
fn quotes_of_a_client_do_not_reach_what_the_proxy_wrote() {
    for client in [
        "for=\"",
        "for=\"6.6.6.6",
        "x=\"\\",
        "\"",
        "\"\"\"",
        "for=6.6.6.6;x=\"",
        "\\",
        "\\\"",
        "for=6.6.6.6,\",",
    ] {
        for proxy in ["for=192.0.2.7", "for=\"192.0.2.7:80\"", "by=\"a,\\\"b\";for=192.0.2.7"] {
            let line = format!("{client}, {proxy}");
            assert_eq!(forwarded(&line)[0], "192.0.2.7".parse().ok(), "{line}");
        }
    }
}

/// Were the work more than linear, this would take minutes.
#[test]
fn long_lines_take_linear_work() {
    for piece in [
        "\"",
        "\\",
        "\\\"",
        ",",
        "\",",
        "=",
        "a=\"\";",
        ";",
        "for=1.1.1.1,",
        "for=\"\\1\",",
        "[",
        "%",
        ":",
        " ",
    ] {
        let line = piece.repeat(400_000 / piece.len());
        for line in [line.clone(), format!("for=\"{line}"), format!("{line}\""), format!("for=\"{line}\"")] {
            assert!(forwarded(&line).len() <= line.len());
            assert!(x_forwarded_for(&line).len() <= line.len());
        }
    }
}

/// Reads well-formed elements from the left, as RFC 7239 is usually read.
fn model_of_elements(line: &str) -> Vec<String> {
    let (mut elements, mut element, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ',' if !quoted => elements.push(std::mem::take(&mut element)),
            '\\' if quoted => element.extend([char].into_iter().chain(chars.next())),
            _ => {
                quoted ^= char == '"';
                element.push(char);
            }
        }
    }
    elements.push(element);
    elements
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Well-formed lists mean the same from both sides.
    #[test]
    fn well_formed_elements_are_split_as_from_the_left(
        parameters in proptest::collection::vec(
            (any::<u8>(), proptest::option::of(r#"([a-z,;= ]|\\["\\a]){0,6}"#), any::<bool>(), " {0,2}"), 0..6),
    ) {
        let elements = parameters.iter().map(|(last, ext, quoted, blanks)| {
            let address = if *quoted { format!("\"192.0.2.{last}:80\"") } else { format!("192.0.2.{last}") };
            let ext = ext.as_ref().map(|ext| format!(";ext=\"{ext}\"")).unwrap_or_default();
            format!("{blanks}for={address}{ext}{blanks}")
        });
        let line = elements.collect::<Vec<_>>().join(",");
        let expected = parameters.iter().rev().map(|(last, ..)| format!("192.0.2.{last}").parse().ok());
        prop_assert_eq!(forwarded(&line), expected.collect::<Vec<_>>(), "{}", line);
        let split = model_of_elements(&line).into_iter().rev().filter(|element| !element.trim().is_empty());
        let alone = split.map(|element| forwarded(&element)[0]);
        prop_assert_eq!(forwarded(&line), alone.collect::<Vec<_>>(), "{}", line);
    }

    /// Fuzzes the parsers: they do not panic, and there are no more hops than elements.
    #[test]
    fn any_bytes_are_hops(
        line in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..64),
            r#"(for=|FOR=|by=|"|\\|,|;|=| |192\.0\.2\.1|\[2001:db8::1\]|:80|_x|unknown|é){0,24}"#
                .prop_map(String::into_bytes),
        ],
    ) {
        let elements = line.split(|byte| *byte == b',').count();
        prop_assert!(forwarded_hops(&line).count() <= elements);
        prop_assert!(x_forwarded_for_hops(&line).count() <= elements);
    }
}
