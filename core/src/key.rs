//! Keys: whom a limit counts.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Whom a limit counts: a namespace and an entity, both any bytes of any length.
///
/// Plain strings are keys in the empty namespace:
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use tollgate::Key;
///
/// let user: Key = "user:42".into();
/// assert_ne!(user, Key::new("tenant-a", "user:42"));
/// ```
///
/// Keys may carry personal data, so `Debug` shows only how long they are and a short digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a> {
    namespace: &'a [u8],
    entity: &'a [u8],
}

impl<'a> Key<'a> {
    /// Creates a key in a namespace, such as a tenant or an application.
    pub fn new(namespace: &'a (impl AsRef<[u8]> + ?Sized), entity: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { namespace: namespace.as_ref(), entity: entity.as_ref() }
    }

    /// Returns the namespace. Default: empty.
    #[inline]
    pub fn namespace(&self) -> &'a [u8] {
        self.namespace
    }

    /// Returns the entity: a user, an address, a route.
    #[inline]
    pub fn entity(&self) -> &'a [u8] {
        self.entity
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = fnv1a(&[self.namespace, self.entity]) & 0xffff;
        write!(f, "Key({} bytes, #{digest:04x})", self.namespace.len() + self.entity.len())
    }
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(entity: &'a str) -> Self {
        Self { namespace: b"", entity: entity.as_bytes() }
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    #[inline]
    fn from(entity: &'a [u8]) -> Self {
        Self { namespace: b"", entity }
    }
}

impl<'a> From<&'a String> for Key<'a> {
    #[inline]
    fn from(entity: &'a String) -> Self {
        entity.as_str().into()
    }
}

impl<'a> From<&'a Vec<u8>> for Key<'a> {
    #[inline]
    fn from(entity: &'a Vec<u8>) -> Self {
        entity.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    #[inline]
    fn from(entity: &'a [u8; N]) -> Self {
        entity.as_slice().into()
    }
}

/// A 64-bit digest of parts whose boundaries count. For names that developers choose: collisions are easy to make.
/// Whatever an attacker may choose is hashed by the stores, with a secret.
pub(crate) fn fnv1a(parts: &[&[u8]]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in *part {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
        digest = (digest ^ part.len() as u64 ^ 0xff00).wrapping_mul(PRIME);
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn debug_does_not_show_the_key() {
        let shown = format!("{:?}", Key::new("tenant", "alice@example.org"));
        assert!(!shown.contains("alice") && !shown.contains("tenant"), "{shown}");
    }

    #[test]
    fn boundaries_between_parts_count() {
        assert_ne!(fnv1a(&[b"ab", b"c"]), fnv1a(&[b"a", b"bc"]));
    }
}
