//! In-process, in-memory rate limiting for Tollgate: a lock-free, bounded store for token buckets, GCRA, leaky
//! buckets, fixed and sliding windows, sliding logs and concurrency limits. No server, no async runtime, no
//! background thread.
//!
//! ```
//! # mod tollgate { pub use tollgate_core::*; pub mod memory { pub use tollgate_store_memory::*; } }
//! use tollgate::{Limit, Limiter};
//! use tollgate::memory::MemoryStore;
//!
//! let limiter = Limiter::new(MemoryStore::new());
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! if limiter.check_now(&api, "user:42").is_denied() {
//!     // respond with 429 Too Many Requests
//! }
//! # Ok::<(), tollgate::LimitError>(())
//! ```
//!
//! [`DirectLimiter`] is the variant for one limit without keys.
//!
//! # Guarantees
//!
//! Beyond the contract of [`Store`](tollgate_core::store::Store):
//!
//! - **Exact for any number of threads**, as long as the keys in use fit. A request with several charges is one
//!   atomic step, like a request with one.
//! - **No lock on the hot path** of buckets, queues, GCRA and smooth bursty limiters, whose state is a theoretical
//!   arrival time (TAT) in one atomic word; nor on that of fixed and sliding windows. A denial writes nothing. The
//!   states of logs, sliding counters, leases and block times are in 64 shards, each behind a lock.
//! - **Bounded memory**: room for a million keys by default ([`Config::max_keys`]). A state that equals a fresh one
//!   takes no room: it is overwritten when a slot is needed.
//! - **When more keys are in use than fit**, a key without a slot spills into its shard and stays exact. When the
//!   shard is full, too, a state is evicted, and its key starts fresh. [`Stats`] counts both.
//! - **A flood of keys is no way to get a quota back.** The evicted state is the one that has used the smallest part of
//!   its capacity, of a sample. Exhausted and blocked keys are kept as long as a sample of 128 has anything else; a
//!   state in the lock-free table is never evicted. Leases have room of their own, so that no other state evicts
//!   them. What remains: who exhausts as many keys as fit has exhausted keys evicted, at random and not the oldest
//!   first. [`Stats::evicted_exhausted`] counts them.
//! - **Keys are not stored**, only a hash with a secret seed.
//! - **The caller's clock decides.** Share a store together with its limiter, or at least with one clock. Time does
//!   not run backwards: a key without a state is decided at the time by which the states that were removed had
//!   expired, if the caller's time is earlier.
//!
//! # Layout
//!
//! - [`MemoryStore`] (`store`), [`Config`] (`config`): which state is kept where. `several`: requests with several
//!   charges. [`Stats`] (`stats`): how full the store is.
//! - `table`: the lock-free tables of TATs and windows. `shard`: the bounded map for all other states, and which of
//!   them are evicted.
//! - `key_hash`: the keyed hash. `idempotency`: verdicts recorded by idempotency key.
//! - [`DirectLimiter`] (`direct`): one limit without keys.
//! - [`MemoryDocuments`] (`documents`): versioned documents, such as rule sets.
//! - `sync`: atomics and locks, of the standard library or of loom. `loom_tests`: what loom explores.

mod config;
mod direct;
mod documents;
mod idempotency;
mod key_hash;
mod several;
mod shard;
mod stats;
mod store;
mod sync;
mod table;

pub use config::Config;
pub use direct::DirectLimiter;
pub use documents::MemoryDocuments;
pub use stats::Stats;
pub use store::MemoryStore;

#[cfg(all(test, loom))]
mod loom_tests;
