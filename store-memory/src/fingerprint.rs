//! What stands for a limit and a key in the tables.

use std::hash::{BuildHasher, Hasher, RandomState};

use tollgate_core::Charge;

/// 128 bits of a limit and a key, hashed with a secret. Keys themselves are not stored.
///
/// An attacker chooses keys, but neither knows the secret nor sees a hash. Two keys meet by chance only: they
/// must agree in the 64 bits that a slot stores and land in the same few cache lines. With a million
/// live keys the chance that any two of them do is below one in ten billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Where to look.
    pub(crate) place: u64,
    /// What to compare; never zero.
    pub(crate) tag: u64,
}

impl Fingerprint {
    /// All of it, as a key of a map.
    pub(crate) fn whole(self) -> u128 {
        u128::from(self.place) << 64 | u128::from(self.tag)
    }
}

/// Two independently keyed hashes.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprints {
    place: ahash::RandomState,
    tag: ahash::RandomState,
}

impl Fingerprints {
    /// With a fresh secret from the operating system.
    pub(crate) fn new() -> Self {
        // The standard library's keys are random; hashing with them draws more such numbers.
        let secret = RandomState::new();
        let draw = |number: u64| secret.hash_one(number);
        Self {
            place: ahash::RandomState::with_seeds(draw(0), draw(1), draw(2), draw(3)),
            tag: ahash::RandomState::with_seeds(draw(4), draw(5), draw(6), draw(7)),
        }
    }

    #[inline]
    pub(crate) fn of(&self, charge: &Charge<'_>) -> Fingerprint {
        let key = charge.key();
        let (namespace, entity) = (key.namespace(), key.entity());
        // The namespace's length is part of the first word, so no two pairs of parts read alike.
        let head =
            charge.limit().id().wrapping_add((namespace.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let hash = |state: &ahash::RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write_u64(head);
            if !namespace.is_empty() {
                hasher.write(namespace);
            }
            hasher.write(entity);
            hasher.finish()
        };
        Fingerprint { place: hash(&self.place), tag: hash(&self.tag) | 1 }
    }
}
