//! Tests of texts of addresses.

use std::net::IpAddr;

use proptest::prelude::*;

use crate::identifiers::address::parse_address;

#[test]
fn addresses_are_read_as_proxies_and_sockets_write_them() {
    for (text, address) in [
        ("192.0.2.7", "192.0.2.7"),
        (" \t192.0.2.7 ", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("192.0.2.7:0", "192.0.2.7"),
        ("192.0.2.7:_hidden.port-1", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("[2001:db8::1]:_x", "2001:db8::1"),
        ("2001:db8::1:4711", "2001:db8::1:4711"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25en1]:80", "fe80::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::FFFF:c000:0207", "192.0.2.7"),
        ("[::ffff:192.0.2.7%eth0]:80", "192.0.2.7"),
        ("::1", "::1"),
    ] {
        assert_eq!(parse_address(text), Some(address.parse().unwrap()), "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused() {
    let texts = [
        "",
        " ",
        "unknown",
        "_hidden",
        "example.com",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.07",
        "0xc0000207",
        "3221225991",
        "192.0.2.7:",
        "192.0.2.7:65536",
        "192.0.2.7:+80",
        "192.0.2.7:80:80",
        "192.0.2.7:_",
        "192.0.2.7:_ ",
        "192.0.2.7%eth0",
        "[192.0.2.7]",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]80",
        "[2001:db8::1]x:80",
        "[[2001:db8::1]]",
        "[]",
        "[2001:db8::1]:99999",
        "fe80::1%",
        "2001:db8::1/64",
        "192.0.2.0/24",
        "192.0.2.7, 192.0.2.8",
        "\u{661}92.0.2.7",
        "::1\0",
    ];
    for text in texts {
        assert_eq!(parse_address(text), None, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Reading is the inverse of every way of writing.
    #[test]
    fn every_way_of_writing_an_address_is_read(
        bits in prop_oneof![any::<u128>(), any::<u32>().prop_map(|bits| 0xffff << 32 | u128::from(bits))],
        v4 in any::<u32>(), port in any::<u16>(), zone in "[a-z0-9]{1,5}", upper in any::<bool>(),
    ) {
        let v6 = std::net::Ipv6Addr::from(bits);
        let text = if upper { v6.to_string().to_uppercase() } else { v6.to_string() };
        let expected = Some(IpAddr::V6(v6).to_canonical());
        for text in [
            text.clone(), format!("[{text}]"), format!("[{text}]:{port}"), format!("{text}%{zone}"),
            format!("[{text}%{zone}]:{port}"), format!(" {text}\t"),
        ] {
            prop_assert_eq!(parse_address(&text), expected, "{}", text);
        }
        let v4 = std::net::Ipv4Addr::from(v4);
        for text in [v4.to_string(), format!("{v4}:{port}"), format!("::ffff:{v4}"), format!("[::ffff:{v4}]:{port}")] {
            prop_assert_eq!(parse_address(&text), Some(v4.into()), "{}", text);
        }
    }

    /// Fuzzes the parser: it does not panic, and what it accepts has the digits of an address and nothing else.
    #[test]
    fn any_text_is_an_address_or_refused(text in prop_oneof![r"[0-9a-fA-F:.\[\]% _/+\-]{0,40}", ".{0,40}"]) {
        if let Some(address) = parse_address(&text) {
            prop_assert_eq!(address, address.to_canonical());
            prop_assert!(text.contains(['.', ':']));
            prop_assert!(!text.contains('/') || text.contains('%'), "a network is no address: {}", text);
        }
    }
}
