//! Tollgate is a rate limiter: token bucket, leaky bucket, GCRA, fixed and sliding windows, and concurrency limits,
//! decided in this process's memory, on Redis or on Cassandra. Every decision says whether a request is allowed, how
//! much remains, and when to retry.
//!
//! ```
//! use tollgate::Limit;
//!
//! # fn main() -> Result<(), tollgate::LimitError> {
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! # #[cfg(feature = "memory")] {
//! let limiter = tollgate::in_memory();
//!
//! let decision = limiter.check_now(&api, "user:42");
//! if decision.is_denied() {
//!     println!("429 Too Many Requests, retry after {:?}", decision.retry_after());
//! } else {
//!     println!("allowed, {} remaining", decision.remaining());
//! }
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # Stores and features
//!
//! `in_memory` creates a limiter on the memory store; [`connect`] creates one on the store of a URL. Each store and
//! each wrapper around stores is a module with a feature of the same name:
//!
//! | feature | module | what it adds |
//! |---|---|---|
//! | `memory` (default) | `tollgate::memory` | the store in this process's memory, and limiters without keys |
//! | `redis` | `tollgate::redis` | the store on Redis: one server, Sentinel, Cluster, client-side shards |
//! | `cassandra` | `tollgate::cassandra` | the store on Cassandra, by lightweight transactions |
//! | `resilience` | `tollgate::resilience` | deadlines, circuit breaker, fallbacks; coalescing; switches |
//! | `sync` | `tollgate::sync` | local decisions at memory speed, synchronized with a central store |
//! | `observe` | `tollgate::observe` | metrics and log lines |
//! | `rules` | `tollgate::rules` | which limit applies to which user: rule files, subscription plans |
//! | `http` | `tollgate::rules` | rules of another Tollgate, over HTTP |
//! | `tokio` | | `until_ready` sleeps on tokio's timer |
//! | `serde` | | snapshots of states can be serialized |
//!
//! # Layout
//!
//! The root re-exports what an application needs from `tollgate-core`:
//!
//! - [`Limit`], built by a [`LimitBuilder`]; [`Limiter`]: a store and a clock.
//! - [`Key`], [`Charge`], [`Request`]: the input of a check. [`Decision`], [`Verdict`], [`Balance`]: its result.
//! - [`Permit`], [`Reservation`], [`Wait`]: slots of concurrency limits, and waiting.
//! - [`Clock`], [`Timer`], [`Time`]; [`Event`], [`Observer`]; [`LimitError`], [`ConfigError`], [`StoreError`].
//!
//! What the author of a store or of a wrapper needs is in [`store`].

mod connect;
#[cfg(all(feature = "resilience", feature = "rules"))]
mod rule_policies;

pub use connect::connect;
#[cfg(all(feature = "resilience", feature = "rules"))]
pub use rule_policies::apply_failure_policies;
pub use tollgate_core::*;

// Each module is a crate, inlined with the documentation of that crate.
#[cfg(feature = "sync")]
#[doc(inline)]
pub use tollgate_limiter_sync as sync;
#[cfg(feature = "observe")]
#[doc(inline)]
pub use tollgate_observe as observe;
#[cfg(feature = "resilience")]
#[doc(inline)]
pub use tollgate_resilience as resilience;
#[cfg(feature = "rules")]
#[doc(inline)]
pub use tollgate_rules as rules;
#[cfg(feature = "cassandra")]
#[doc(inline)]
pub use tollgate_store_cassandra as cassandra;
#[cfg(feature = "memory")]
#[doc(inline)]
pub use tollgate_store_memory as memory;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tollgate_store_redis as redis;

/// Creates a limiter on this process's memory: no server, no runtime, up to a million keys.
///
/// ```
/// use tollgate::Limit;
///
/// let api = Limit::per_second(50).burst(100).build("api")?;
/// let limiter = tollgate::in_memory();
/// assert!(limiter.check_now(&api, "user:42").is_allowed());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[cfg(feature = "memory")]
pub fn in_memory() -> Limiter<memory::MemoryStore> {
    Limiter::new(memory::MemoryStore::new())
}

/// Compiles the code blocks of the README.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the code blocks of the guide.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../docs/guide.md")]
struct Guide;

/// Compiles the code blocks of the memory store's README, which uses this crate's paths.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../store-memory/README.md")]
struct MemoryReadme;
