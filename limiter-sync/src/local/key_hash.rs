//! The keyed hash of a limit and a key.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use tollgate_core::Charge;

use super::entry::Tag;

/// Identifies a limit and a key by two keyed hashes: one is the index, the other is compared. Neither is visible
/// outside. Two keys share a hash with a probability of about one in ten trillion per comparison, as in the
/// memory store; so decisions do not read the keys themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash {
    pub(super) hash: u64,
    pub(super) tag: Tag,
}

/// Two independently seeded hash functions. Without `Debug`: the seeds are secret.
pub(super) struct KeyHasher {
    hash: Seed,
    tag: Seed,
}

/// The secret seed of a hash function.
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
    #[expect(clippy::inline_always, reason = "a call would cost a twentieth of a decision")]
    fn hash(&self, charge: &Charge<'_>) -> u64 {
        let (key, mut hasher) = (charge.key(), FoldHasher::with_seed(self.start, &self.shared));
        if !key.namespace().is_empty() {
            // The length keeps ("a", "bc") and ("ab", "c") apart.
            hasher.write_usize(key.namespace().len());
            hasher.write(key.namespace());
        }
        hasher.write(key.entity());
        // The limit is mixed in last. Before the key, it would only be added to the bytes of the key, and a chosen key
        // could cancel it out.
        hasher.finish() ^ charge.limit().id()
    }
}

impl KeyHasher {
    pub(super) fn new() -> Self {
        Self { hash: Seed::random(), tag: Seed::random() }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a twentieth of a decision")]
    pub(super) fn hash(&self, charge: &Charge<'_>) -> KeyHash {
        let bytes = self.tag.hash(charge).to_be_bytes();
        let tag = bytes.first_chunk().copied().unwrap_or_default();
        KeyHash { hash: mix(self.hash.hash(charge)), tag }
    }
}

/// Distributes the hash evenly over all bits: the table uses some of them each for the shard, the position and the
/// fingerprint in its index.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
fn mix(hash: u64) -> u64 {
    /// The bits of the golden ratio: odd, and without a pattern.
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash) * FACTOR;
    product as u64 ^ (product >> 64) as u64
}
