//! Names of limits: what identifies their counters.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use tollgate_core::Limit;

/// Returns the name of a limit of a rule: `domain/rule/suffix`.
pub(super) fn of_rule(domain: &str, rule: &str, suffix: &str) -> String {
    bounded(format!("{}/{}/{}", escaped(domain), escaped(rule), escaped(suffix)))
}

/// Returns the name of a limit of a descriptor: the domain and the keys and values of the path. No limit of a rule has
/// the same.
pub(super) fn of_descriptor<'p>(
    domain: &str,
    path: impl Iterator<Item = (&'p str, Option<&'p str>)>,
) -> String {
    let mut name = escaped(domain);
    for (key, value) in path {
        name.push('/');
        name.push_str(&escaped(key));
        if let Some(value) = value {
            name.push('=');
            name.push_str(&escaped(value));
        }
    }
    // Two keys without values would be the name of a rule's limit, which has no empty part.
    if name.matches('/').count() == 2 && !name.contains('=') {
        name.push('/');
    }
    bounded(name)
}

/// Escapes what separates the parts of a name, so that different paths have different names, and control characters,
/// which names of limits do not have.
fn escaped(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for letter in part.chars() {
        if letter.is_control() || "/=%".contains(letter) {
            let _ = write!(escaped, "%{:02X}", u32::from(letter));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Cuts a name that is too long, and appends a digest of the whole.
fn bounded(name: String) -> String {
    /// Of the digest, in hexadecimal digits: 128 bits.
    const DIGEST: usize = 32;
    if name.len() <= Limit::MAX_NAME {
        return name;
    }
    let ends = name.char_indices().map(|(end, _)| end);
    let end = ends.take_while(|end| *end < Limit::MAX_NAME - DIGEST).last().unwrap_or(0);
    let mut short = name[..end].to_owned();
    short.push('~');
    for byte in &Sha256::digest(&name)[..DIGEST / 2] {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_have_names_that_differ() {
        let name =
            |path: &[(&'static str, Option<&'static str>)]| of_descriptor("shop", path.iter().copied());
        assert_eq!(name(&[("user", Some("ann")), ("path", None)]), "shop/user=ann/path");
        assert_ne!(name(&[("a", Some("b/c"))]), name(&[("a", Some("b")), ("c", None)]));
        assert_ne!(name(&[("a=b", None)]), name(&[("a", Some("b"))]));
        assert_ne!(name(&[("a%3Db", None)]), name(&[("a=b", None)]));
        assert_ne!(of_rule("a/b", "c", "1s"), of_rule("a", "b", "1s"));
        assert_ne!(name(&[("a", None), ("b", None)]), of_rule("shop", "a", "b"));
        assert_eq!(name(&[("tab", Some("\t"))]), "shop/tab=%09");
    }

    #[test]
    fn long_names_end_in_a_digest() {
        let long = |last: char| format!("{}{last}", "ä".repeat(200));
        let [one, other] = ['x', 'y'].map(|last| of_descriptor("shop", [(&*long(last), None)].into_iter()));
        assert!(one.len() <= Limit::MAX_NAME && one.starts_with("shop/ä"), "{one}");
        assert_ne!(one, other);
        let exact = of_rule("d", &"r".repeat(Limit::MAX_NAME - 5), "1s");
        assert!(exact.ends_with("r/1s"), "{exact}");
    }
}
