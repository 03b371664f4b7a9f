//! What stands for a limit and a key in the tables.

use std::hash::{BuildHasher, Hasher, RandomState};

use tollgate_core::{Charge, Flow};

/// 128 bits of a limit and a key, hashed with a secret. Keys themselves are not stored.
///
/// An attacker chooses keys, but neither knows the secret nor sees a hash. Two keys meet by chance only: they
/// must agree in the 56 bits that a slot stores and land in the same few cache lines. With a million
/// live keys the chance that any two of them do is below one in a hundred million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Where to look.
    pub(crate) place: u64,
    /// What to compare. The lowest byte is not the hash's: it is a digest of the limit's numbers, never zero, so
    /// that comparing tags also tells whether the numbers are those that the state was written under.
    pub(crate) tag: u64,
}

/// The byte of a tag that says under which numbers the state was written.
pub(crate) const NUMBERS: u64 = 0xff;

impl Fingerprint {
    /// All that says whose it is, as a key of a map.
    pub(crate) fn whole(self) -> u128 {
        u128::from(self.place) << 64 | u128::from(self.tag & !NUMBERS)
    }

    /// A tag of the same key, under any numbers.
    pub(crate) fn owns(self, tag: u64) -> bool {
        (tag ^ self.tag) & !NUMBERS == 0 && tag & NUMBERS != 0
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
        let numbers = charge.limit().as_flow().map_or(1, Flow::digest);
        let (namespace, entity) = (charge.key().namespace(), charge.key().entity());
        let hash = |state: &ahash::RandomState| {
            let mut hasher = state.build_hasher();
            if !namespace.is_empty() {
                // The length, so that no two pairs of parts read alike.
                hasher.write_usize(namespace.len());
                hasher.write(namespace);
            }
            hasher.write(entity);
            hasher.finish()
        };
        // The limit's own digest is mixed in last, which costs no time: keys of two limits meet by chance only, too.
        let limit = charge.limit().id();
        let tag = hash(&self.tag) ^ limit.rotate_left(32);
        Fingerprint { place: hash(&self.place) ^ limit, tag: tag & !NUMBERS | u64::from(numbers) }
    }
}
