//! What stands for a limit and a key in the tables.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use tollgate_core::Charge;
use tollgate_core::store::Flow;

/// 128 bits of a limit and a key, hashed with a secret. Keys themselves are not stored.
///
/// An attacker chooses keys, but neither knows the secrets nor sees a hash. Two keys meet by chance only: they must
/// agree in the 48 bits that a slot stores and lie within the same few cache lines. That happens to a new key with a
/// probability below one in ten trillion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Where to look.
    pub(crate) place: u64,
    /// What to compare. The lowest 16 bits are not the hash's: they are a digest of the limit's numbers, never zero,
    /// so that comparing tags also tells whether the numbers are those that the state was written under.
    pub(crate) tag: u64,
}

/// The bits of a tag that say under which numbers the state was written.
pub(crate) const NUMBERS: u64 = 0xffff;

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
    fn hash(&self, namespace: &[u8], entity: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.start, &self.shared);
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
        // The limit is mixed in after the key has been hashed. Before, it would only be added to the key's bytes, and
        // whoever knows both limits' names could choose a key that undoes it.
        let hash = |secret: &Secret| secret.hash(key.namespace(), key.entity()) ^ limit;
        let place = spread(hash(&self.place));
        Fingerprint { place, tag: hash(&self.tag) & !NUMBERS | u64::from(numbers) }
    }
}

/// Spreads what the fast hash leaves lumpy: under about one secret in a hundred, keys that differ in a few bytes would
/// crowd into some of the table's lines, since those are picked by the highest bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
fn spread(hash: u64) -> u64 {
    /// The golden ratio's bits: odd, and without a pattern.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash) * FACTOR;
    product as u64 ^ (product >> 64) as u64
}
