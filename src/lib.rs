// Its examples need what they show.
#![cfg_attr(
    all(feature = "memory", feature = "redis", feature = "cassandra", feature = "resilience", feature = "sync"),
    doc = include_str!("../README.md")
)]
//!
//! # Layout
//!
//! This crate re-exports `tollgate-core` and brings stores along, each by a feature: `memory`, which is on by default,
//! `redis` and `cassandra`. [`in_memory`] is a limiter on the first; [`connect`] is one on whichever store a URL names. The features
//! `resilience`, `sync` and `observe` bring the modules of these names.

mod connect;

pub use connect::connect;
pub use tollgate_core::*;

/// The store in this process's memory.
#[cfg(feature = "memory")]
pub mod memory {
    pub use tollgate_store_memory::{Config, DirectLimiter, MemoryStore, Stats};
}

/// The store on Redis.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tollgate_store_redis::{Config, RedisStore};
}

/// The store on Cassandra.
#[cfg(feature = "cassandra")]
pub mod cassandra {
    pub use tollgate_store_cassandra::{
        CassandraStore, Config, Consistency, Counts, Replication, SerialConsistency,
    };
}

/// Stores around stores: [`Guarded`](resilience::Guarded) for when a store fails, [`Coalesced`](resilience::Coalesced) for
/// few calls of a store for many checks, [`Switched`](resilience::Switched) for limits that are switched at run time.
#[cfg(feature = "resilience")]
pub mod resilience {
    pub use tollgate_resilience::*;
}

/// Decisions at memory speed, a central truth: [`Synced`](sync::Synced) decides here, and exchanges with a store every so often.
#[cfg(feature = "sync")]
pub mod sync {
    pub use tollgate_limiter_sync::*;
}

/// Events as metrics and as tracing.
#[cfg(feature = "observe")]
pub mod observe {
    pub use tollgate_observe::*;
}

/// A limiter on this process's memory: no server, no runtime, room for a million keys.
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
