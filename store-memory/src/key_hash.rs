//! The keyed hash of a limit and a key. Tables store it instead of the key.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use tollgate_core::Charge;

/// A 128-bit keyed hash of a limit and a key. The key itself is not stored.
///
/// An attacker can choose keys, but neither knows the seeds nor sees a hash. Two keys collide by chance only: they
/// must agree in the 48 hash bits of a tag and lie within the same few cache lines. The probability for a new key is
/// below one in ten trillion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash {
    /// Selects the shard and the first cache line to probe.
    pub(crate) position: u64,
    /// Identifies the key in its slot. The lowest 16 bits are not hash bits: they are the digest of the limit's
    /// parameters, or the number of its period, which is never zero. One comparison of tags therefore also finds out
    /// whether the state was written under the same parameters.
    pub(crate) tag: u64,
}

/// The digest of limits whose states are not in a table.
pub(crate) const NO_DIGEST: u16 = 1;

/// The bits of a tag that hold the digest of the limit's parameters.
pub(crate) const DIGEST_MASK: u64 = 0xffff;

impl KeyHash {
    /// Returns all hash bits, without the digest, as the key of a map.
    pub(crate) fn map_key(self) -> u128 {
        u128::from(self.position) << 64 | u128::from(self.tag & !DIGEST_MASK)
    }

    /// Returns whether `tag` belongs to the same key, whatever the parameters.
    pub(crate) fn is_same_key(self, tag: u64) -> bool {
        (tag ^ self.tag) & !DIGEST_MASK == 0 && tag & DIGEST_MASK != 0
    }
}

/// Returns the tag of a state that was written under the parameters with this digest; 0 stands for those of the tag.
/// They differ if charges of one request have limits of one name with other parameters.
#[inline]
pub(crate) fn with_digest(tag: u64, digest: u16) -> u64 {
    if digest == 0 { tag } else { tag & !DIGEST_MASK | u64::from(digest) }
}

/// Two independently seeded hash functions. Without `Debug`: the seeds are secret.
#[derive(Clone)]
pub(crate) struct KeyHasher {
    position: Seed,
    tag: Seed,
}

/// The secret seed of a hash function.
#[derive(Clone)]
struct Seed {
    start: u64,
    shared: SharedSeed,
}

impl Seed {
    /// Draws a seed from the operating system.
    fn random() -> Self {
        // The standard library seeds its hasher randomly; hashing a constant extracts more random bits.
        let draw = || RandomState::new().hash_one("seed");
        Self { start: draw(), shared: SharedSeed::from_u64(draw()) }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a twentieth of a check")]
    fn hash(&self, namespace: &[u8], entity: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.start, &self.shared);
        if !namespace.is_empty() {
            // The length prefix keeps ("a", "bc") and ("ab", "c") apart.
            hasher.write_usize(namespace.len());
            hasher.write(namespace);
        }
        hasher.write(entity);
        hasher.finish()
    }
}

impl KeyHasher {
    /// Creates a hasher with random seeds.
    pub(crate) fn new() -> Self {
        Self { position: Seed::random(), tag: Seed::random() }
    }

    /// Hashes the key of a charge. `digest` is that of its limit's parameters.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a twentieth of a check")]
    pub(crate) fn hash(&self, charge: &Charge<'_>, digest: u16) -> KeyHash {
        let (limit, key) = (charge.limit().id(), charge.key());
        // The limit's id is mixed in after the key is hashed. Before, it would only be added to the bytes of the key,
        // and an attacker who knows the names of two limits could choose a key that cancels it out.
        let hash = |seed: &Seed| seed.hash(key.namespace(), key.entity()) ^ limit;
        let position = mix(hash(&self.position));
        KeyHash { position, tag: hash(&self.tag) & !DIGEST_MASK | u64::from(digest) }
    }
}

/// Distributes the hash evenly over the highest bits, which select the cache line. Without this, about one seed in a
/// hundred would cluster keys that differ in a few bytes only.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
fn mix(hash: u64) -> u64 {
    /// The bits of the golden ratio: odd, and without a pattern.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash) * FACTOR;
    product as u64 ^ (product >> 64) as u64
}
