//! Distributed rate limiting on Redis: a [`Store`](tollgate_core::store::Store) for Tollgate that runs every algorithm
//! (token bucket, GCRA, leaky bucket, fixed and sliding windows, concurrency limits) as an atomic Lua script, in one
//! round trip, on a single server, behind Sentinel, on Redis Cluster or over client-side shards.
//!
//! ```no_run
//! use tollgate::{Limit, Limiter};
//! use tollgate::redis::RedisStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(RedisStore::connect("redis://127.0.0.1").await?);
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // Respond with 429 Too Many Requests.
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Config`] documents the URL forms, timeouts and other options. [`RedisStore::stats`] returns counters for
//! monitoring.
//!
//! # Guarantees
//!
//! - **One script call per request**, regardless of the number of charges, and one per batch and server. The server's
//!   clock decides, so the clocks of the clients need not agree.
//! - **Atomicity**: on a single server and behind Sentinel, every request is one atomic step. In a cluster and over
//!   shards, a request on the limits of one entity is one atomic step; a request across entities is all or nothing by
//!   compensating refunds.
//! - **No call is executed twice.** A call that may have been executed is sent again only if it has an
//!   [idempotency key](tollgate_core::IdempotencyKey) or is a peek. Otherwise its error reports that the call may have
//!   taken effect.
//! - **Lost data is lost state**: after a restart without persistence, or after a failover to a replica that lacks the
//!   last writes, decisions follow from the state that the server has.
//! - **All keys of limits expire**: each has a time-to-live, the time until its state equals a fresh one plus a margin.
//!
//! # Server requirements
//!
//! Redis 6 or newer; tested on 7.0. The user needs access to the keys `~tollgate:*` (or another
//! [prefix](Config::prefix)) and these commands:
//!
//! ```text
//! +evalsha +eval +time +get +mget +set +psetex +del +unlink +pexpire +getrange +setrange
//! +zadd +zrem +zrange +zrangebylex +zcard
//! ```
//!
//! With `+ping +unwatch`, the store checks a suspect connection and keeps it if it still works; without them, it opens
//! a new one. With `+info`, it reports servers that may evict keys. A database other than 0 also needs `+select`, a
//! cluster `+cluster|slots +asking`, Sentinel and shards with replicas `+role`.
//!
//! # Documents
//!
//! [`RedisDocuments`] keeps versioned documents, such as rule sets, on the same kinds of servers, with the same URLs
//! and options. Documents need these commands, on the same keys:
//!
//! ```text
//! +evalsha +eval +hget +hmget +hset +hdel +zadd +zrem +zrangebylex
//! ```
//!
//! [`ping`](RedisDocuments::ping) also needs `+time`. In a cluster, all documents of all prefixes are in one slot: the
//! memory of its node must suffice, and no document can be read while that node is down. With client-side shards, they
//! are on the first shard of the URL.
//!
//! Documents have no time-to-live, so the `volatile-…` policies do not evict them, but the `allkeys-…` policies do: an
//! evicted document is lost with its history, and its versions start again from 1. A server that holds documents also
//! needs persistence (`appendonly yes`; with `appendfsync always`, a crash loses no answered change). Replication is
//! asynchronous: a failover can lose the last changes, whose version numbers are then used again.
//!
//! # Eviction
//!
//! Redis must not evict keys that are in use. An evicted state is a fresh one, so its quota is available again; without
//! its idempotency key, a repeated call counts twice; and a concurrency limit loses its leases.
//!
//! | `maxmemory-policy`, if `maxmemory` is set | do limits hold? |
//! |---|---|
//! | `noeviction` | yes: what needs memory fails with [`Full`](tollgate_core::ErrorKind::Full), the rest is decided |
//! | `volatile-ttl` | no: first idempotency keys and short limits are evicted, and under load all others |
//! | `volatile-lru`, `volatile-lfu`, `volatile-random` | no: every key has a time-to-live, so any may be evicted |
//! | `allkeys-lru`, `allkeys-lfu`, `allkeys-random` | no: any key may be evicted |
//!
//! The store reads the configuration of a server (`INFO memory`) when it takes a connection into use. It counts servers
//! that may evict keys in [`Stats::evicting_servers`], and reports them to the limiter's observer. It cannot know of a
//! server that denies `INFO`. If a Redis is a cache as well, use a server of its own for limits.
//!
//! # Slot migration
//!
//! While a cluster migrates a slot, its node rejects calls with several keys of which some are missing (`TRYAGAIN`).
//! The store repeats them until their deadline. Checks of a single limit are not affected.
//!
//! # Layout
//!
//! - `config`, `url`: configuration and URL forms; `store`: the [`Store`](tollgate_core::store::Store) implementation;
//!   `stats`: counters
//! - `decide`: encodes requests for `decide.lua` and decodes its replies; `take`, `takes`: the same for plain takes, which
//!   have short scripts; `deltas`: applies deltas and exports the states in one call;
//!   `forget`: deletes their idempotency records
//! - `documents`: versioned documents
//! - `places`: requests across several servers or slots; `snapshot`: export
//! - `topology`: routes calls to servers and retries them; `server`, `connection`: shared connections; `eviction`:
//!   whether a server may evict keys; `error`: failures
//! - `script`, `script_call`, `script_limit`, `stored_form`, `flow_value`, `key`, `reader`, `timing`: the parts of these
//! - `scripts/*.lua`: the scripts

mod config;
mod connection;
mod decide;
mod deltas;
mod documents;
mod error;
mod eviction;
mod flow_value;
mod forget;
mod key;
mod places;
mod reader;
mod script;
mod script_call;
mod script_limit;
mod server;
mod snapshot;
mod stats;
mod store;
mod stored_form;
mod take;
mod takes;
mod timing;
mod topology;
mod url;

pub use config::Config;
pub use documents::RedisDocuments;
pub use stats::Stats;
pub use store::RedisStore;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
