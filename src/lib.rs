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
//! | `rules` | `tollgate::rules` | which limit applies to which user: subscription plans |
//! | `tokio` | | `until_ready` sleeps on tokio's timer |
//! | `serde` | | snapshots of states can be serialized |
//!
//! # Layout
//!
//! The root re-exports what an application needs from `tollgate-core`:
//!
//! - [`Limit`], built by a [`LimitBuilder`]; [`Limiter`]: a store and a clock.
//! - [`Key`], [`Charge`], [`Request`]: the input of a check. [`Decision`], [`Verdict`]: its result.
//! - [`Clock`], [`Timer`], [`Time`]; [`Event`], [`Observer`]; [`LimitError`], [`StoreError`].
//!
//! What the author of a store or of a wrapper needs is in [`store`].

mod connect;

pub use connect::connect;
pub use tollgate_core::*;

/// The store in this process's memory: `MemoryStore`, bounded and without a background thread. `DirectLimiter` is one
/// limit without keys.
#[cfg(feature = "memory")]
pub mod memory {
    pub use tollgate_store_memory::{Config, DirectLimiter, MemoryStore, Stats};
}

/// The store on Redis: `RedisStore`, one atomic script call per request. `Config` sets timeouts, connections,
/// certificates and the key prefix.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tollgate_store_redis::{Config, RedisStore, Stats};
}

/// The store on Cassandra: `CassandraStore`, one lightweight transaction per request. `Config` sets timeouts and
/// consistency, and creates the schema.
#[cfg(feature = "cassandra")]
pub mod cassandra {
    pub use tollgate_store_cassandra::{
        CassandraStore, Config, Consistency, Replication, SerialConsistency, Stats,
    };
}

/// Wrappers around stores: [`Guarded`](resilience::Guarded) adds a deadline, a circuit breaker and fallbacks,
/// [`Coalesced`](resilience::Coalesced) sends concurrent checks in batches, and [`Switched`](resilience::Switched)
/// switches limits at run time.
#[cfg(feature = "resilience")]
pub mod resilience {
    pub use tollgate_resilience::*;
}

/// Local decisions at memory speed: [`Synced`](sync::Synced) decides on replicas or leased tokens, and synchronizes
/// them with a central store at an interval.
#[cfg(feature = "sync")]
pub mod sync {
    pub use tollgate_limiter_sync::*;
}

/// Metrics and log lines: [`Metrics`](observe::Metrics) and [`Log`](observe::Log) are observers for limiters and
/// wrappers.
#[cfg(feature = "observe")]
pub mod observe {
    pub use tollgate_observe::*;
}

/// Which limit applies to which user: [`Plans`](rules::Plans) assigns users to subscription plans.
#[cfg(feature = "rules")]
pub mod rules {
    pub use tollgate_rules::*;
}

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
