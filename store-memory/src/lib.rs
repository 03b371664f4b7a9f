//! Tollgate's store in this process's memory: the reference store, and the fast one.
//!
//! What it promises beyond the contract of [`Store`](tollgate_core::store::Store):
//!
//! - **Exact for any number of threads**, while the keys in use fit. A request with several charges is one atomic
//!   step, like a request with one.
//! - **No lock on the hot path** of buckets, queues, GCRA and smooth limiters: their state is one atomic
//!   word. A denial writes nothing. Windows, logs, leases and block times sit behind one of 64 locks.
//! - **Bounded**: a million keys in use unless [configured](Config) otherwise. State that equals a fresh
//!   one costs nothing and is overwritten when room is needed; there is no background thread.
//! - **When more keys are in use than fit**, a key that finds no slot is kept behind a lock, as exact as
//!   before. When that is full too, the state nearest to idle is evicted, and its key starts anew. Both are
//!   counted in [`Stats`].
//! - **Keys are not stored**, only a hash of them with a secret.
//! - **The caller's clock decides**, so share a store together with its limiter, or at least its clock. Time in a store
//!   does not run backwards: whoever asks about a key that the store does not know is answered as of the latest time
//!   at which it has reused a slot.
//!
//! # Layout
//!
//! - [`MemoryStore`] (`store`), [`Config`] (`config`): which state lives where.
//! - `table`: the lock-free table of one-word states. `shard`: the bounded map for the others.
//! - `fingerprint`: the keyed hash. `operations`: answers to repeated calls.
//! - [`DirectLimiter`] (`direct`): one limit without keys.

mod config;
mod direct;
mod fingerprint;
mod operations;
mod shard;
mod store;
mod sync;
mod table;

pub use config::Config;
pub use direct::DirectLimiter;
pub use store::{MemoryStore, Stats};

#[cfg(all(test, loom))]
mod interleavings;
