//! The sorted set of names: a member is a name, a zero byte, and the version.

use super::revision::number;

/// How many names one script call returns: enough to make its overhead per name small, and few enough not to block the
/// server for more than a few milliseconds.
pub(super) const PAGE: usize = 2_000;

const SEPARATOR: u8 = 0;
/// After every byte of a text.
const AFTER_TEXTS: u8 = 0xff;

/// Returns where the names with a prefix start, as `ZRANGEBYLEX` reads it.
pub(super) fn start(prefix: &str) -> Vec<u8> {
    [b"[", prefix.as_bytes()].concat()
}

/// Returns where the names after `name` start, whatever its version is by now.
pub(super) fn after(name: &str) -> Vec<u8> {
    [b"(", name.as_bytes(), &[SEPARATOR, AFTER_TEXTS]].concat()
}

/// Returns where the names with a prefix end.
pub(super) fn end(prefix: &str) -> Vec<u8> {
    [b"(", prefix.as_bytes(), &[AFTER_TEXTS]].concat()
}

/// Decodes a member. `None` if it is malformed.
pub(super) fn decode(member: &[u8]) -> Option<(String, u64)> {
    let (name, version) = std::str::from_utf8(member).ok()?.split_once(char::from(SEPARATOR))?;
    Some((name.to_owned(), number(version.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what `ZRANGEBYLEX` returns of these names.
    fn range(names: &[&str], min: &[u8], max: &[u8]) -> Vec<String> {
        let mut members: Vec<_> = names.iter().map(|name| format!("{name}\0{}", name.len())).collect();
        members.sort();
        let is_in = |member: &String| {
            let member = member.as_bytes();
            let after_min = if min[0] == b'[' { member >= &min[1..] } else { member > &min[1..] };
            after_min && member < &max[1..]
        };
        let found = members.iter().filter(|member| is_in(member));
        found.map(|member| decode(member.as_bytes()).expect("a name").0).collect()
    }

    #[test]
    fn a_range_has_the_names_with_the_prefix_and_continues_after_each() {
        let names = ["a", "a b", "a/b", "a/c", "aa", "a\u{10ffff}", "b", "\u{e4}", "~", "\u{10ffff}"];
        for prefix in ["", "a", "a/", "a\u{10ffff}", "\u{e4}", "c", "a/b/c"] {
            let mut expected: Vec<_> =
                names.iter().filter(|name| name.starts_with(prefix)).map(|name| (*name).to_owned()).collect();
            expected.sort();
            assert_eq!(range(&names, &start(prefix), &end(prefix)), expected, "{prefix:?}");
            for (index, name) in expected.iter().enumerate() {
                assert_eq!(range(&names, &after(name), &end(prefix)), expected[index + 1..], "{name:?}");
            }
        }
    }

    #[test]
    fn malformed_members_are_rejected() {
        assert_eq!(decode(b"rules\x0012"), Some(("rules".to_owned(), 12)));
        for member in [&b"rules"[..], b"rules\0", b"rules\0x", b"rules\x001\x00", b"\xff\x001"] {
            assert_eq!(decode(member), None, "{member:?}");
        }
    }
}
