//! What stands for a limit and a key in the tables.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
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
    place: Secret,
    tag: Secret,
}

/// What a hash is keyed with.
#[derive(Clone, Debug)]
struct Secret {
    start: u64,
    shared: SharedSeed,
}

impl Secret {
    /// Drawn from the operating system.
    fn new() -> Self {
        // The standard library's keys are random; hashing with them draws more such numbers.
        let draw = || RandomState::new().hash_one("secret");
        Self { start: draw(), shared: SharedSeed::from_u64(draw()) }
    }

    #[inline]
    fn hash(&self, limit: u64, namespace: &[u8], entity: &[u8]) -> u64 {
        // The limit's digest goes into the key, which costs no time.
        let mut hasher = FoldHasher::with_seed(self.start ^ limit, &self.shared);
        if !namespace.is_empty() {
            // The length, so that no two pairs of parts read alike.
            hasher.write_usize(namespace.len());
            hasher.write(namespace);
        }
        hasher.write(entity);
        hasher.finish()
    }
}

impl Fingerprints {
    /// With fresh secrets.
    pub(crate) fn new() -> Self {
        Self { place: Secret::new(), tag: Secret::new() }
    }

    #[inline]
    pub(crate) fn of(&self, charge: &Charge<'_>) -> Fingerprint {
        let numbers = charge.limit().as_flow().map_or(1, Flow::digest);
        let (limit, key) = (charge.limit().id(), charge.key());
        let hash = |secret: &Secret| secret.hash(limit, key.namespace(), key.entity());
        Fingerprint { place: hash(&self.place), tag: hash(&self.tag) & !NUMBERS | u64::from(numbers) }
    }
}
