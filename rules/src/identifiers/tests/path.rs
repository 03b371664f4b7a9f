//! Tests of the normal form of paths.

use std::borrow::Cow;

use proptest::prelude::*;

use crate::identifiers::path::normalize_path;

#[test]
fn paths_are_written_in_one_way() {
    for (path, normal) in [
        ("/", "/"),
        ("//", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("//a", "/a"),
        ("/a//b///", "/a/b/"),
        ("/./a/./b", "/a/b"),
        ("/a/.", "/a/"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/..", "/"),
        ("/..", "/"),
        ("/../../a", "/a"),
        ("/a/%2e%2E/b", "/b"),
        ("/%2e/a", "/a"),
        ("/a/.%2e", "/"),
        ("/%61%62c", "/abc"),
        ("/caf%C3%A9/%20x", "/café/ x"),
        ("/a%2fb/%2F", "/a%2Fb/%2F"),
        ("/a%2f..%2fb", "/a%2F..%2Fb"),
        ("/%2561", "/%2561"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/%00%0a%7f", "/%00%0A%7F"),
        ("/%ff%c3x", "/%FF%C3x"),
        ("/%", "/%"),
        ("/%4", "/%4"),
        ("/%zz/%+1", "/%zz/%+1"),
        ("/.a/..b/c./...", "/.a/..b/c./..."),
        ("/A;x=1\\b", "/A;x=1\\b"),
        ("/a;/../b", "/b"),
        ("*", "*"),
    ] {
        assert_eq!(normalize_path(path), normal, "{path}");
    }
}

#[test]
fn normal_paths_are_borrowed() {
    for path in ["/", "/api/v1/users/17", "/.well-known/x/", "/café"] {
        assert!(matches!(normalize_path(path), Cow::Borrowed(_)), "{path}");
    }
}

/// Spells a segment, with escapes for some of its characters.
fn spell(segment: &str, escaped: &[bool]) -> String {
    let escaped = escaped.iter().copied().chain(std::iter::repeat(false));
    let spell = |(byte, escaped): (u8, bool)| {
        if escaped { format!("%{byte:02x}") } else { char::from(byte).to_string() }
    };
    segment.bytes().zip(escaped).map(spell).collect()
}

proptest! {
    /// However a path is spelled, with escapes and with segments that mean nothing, rules see the same.
    #[test]
    fn all_spellings_of_a_path_are_the_same(
        segments in proptest::collection::vec("[a-z.~-]{0,3}[a-z]", 1..5),
        escaped in proptest::collection::vec(any::<bool>(), 4),
        detours in proptest::collection::vec(0..5usize, 5),
    ) {
        let mut spelled = String::new();
        for (segment, detour) in segments.iter().zip(detours) {
            spelled.push_str(["", "/", "/.", "/x/..", "/%2E/y/z/.%2e/%2e%2e"][detour]);
            spelled.push('/');
            spelled.push_str(&spell(segment, &escaped));
        }
        let normal = format!("/{}", segments.join("/"));
        prop_assert_eq!(normalize_path(&spelled), normal, "{}", spelled);
    }

    /// Fuzzes: no panic, and no dot segment or empty segment is left.
    #[test]
    fn any_path_has_a_normal_form(path in r"/(/|\.|%2e|%2f|%|[a-z%é]|%c3|%a9){0,16}") {
        let normal = normalize_path(&path);
        let segments: Vec<&str> = normal.strip_prefix('/').unwrap().split('/').collect();
        prop_assert!(segments.iter().all(|segment| !matches!(*segment, "." | "..")), "{}", normal);
        prop_assert!(segments[..segments.len() - 1].iter().all(|segment| !segment.is_empty()), "{}", normal);
    }
}
