//! Random idempotency keys and lease ids.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::sync::OnceLock;

use crate::charge::{IdempotencyKey, LeaseId};

/// Never zero, and never the same twice: half of it is a random number of this process, the other half a counter,
/// scrambled with a secret.
fn unique() -> u128 {
    static PROCESS: OnceLock<(u64, RandomState)> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (process, secret) =
        PROCESS.get_or_init(|| (RandomState::new().hash_one("process"), RandomState::new()));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    u128::from(process ^ secret.hash_one(number)) << 64 | u128::from(number) | 1 << 127
}

impl IdempotencyKey {
    /// Creates a key that no other call has, in this process or another.
    pub fn unique() -> Self {
        Self::new(unique())
    }
}

impl LeaseId {
    /// Creates an id that no other holder has, in this process or another.
    pub fn unique() -> Self {
        Self::new(unique())
    }
}
