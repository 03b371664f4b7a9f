//! Distributed rate limiting on Apache Cassandra: a Tollgate store that decides token buckets, GCRA, fixed and
//! sliding windows, sliding logs and concurrency limits exactly, by lightweight transactions (compare-and-set over
//! Paxos).
//!
//! ```no_run
//! use tollgate::{Limit, Limiter};
//! use tollgate::cassandra::CassandraStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(CassandraStore::connect("cassandra://db1,db2/limits").await?);
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // respond with 429 Too Many Requests
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Config`] documents the URL and all options. [`Config::create_schema`] creates the keyspace and its tables, once,
//! when you deploy. [`Config::connect_documents`] returns a store of versioned documents, such as rule sets, in the same
//! keyspace.
//!
//! # Guarantees
//!
//! - **Exact**: a decision is computed by the core's pure function from the row, and the row is written only if it
//!   has not changed since. With any number of clients, nothing is admitted twice and no update is lost.
//! - **One transaction per request**, whatever the number of its limits, if they have the same key. It starts from
//!   the row as this process saw it last, so there is no read before it. If another process has changed the row, the
//!   response contains the new row for the next attempt. Requests over several keys stay all or nothing by
//!   compensating refunds.
//! - **A denial is current** and writes nothing. If it is based on a cached row, the row is read again first, because
//!   another process may have refunded something.
//! - **A lost response is resolved**: every transaction writes an id into its rows, and a serial read finds out
//!   whether it was applied. If too many other transactions have followed, the error says that the call may have
//!   taken effect; count it as spent.
//! - **Rows expire**: their time-to-live is the time until their state equals a fresh one, plus a
//!   [margin](Config::expiry_margin).
//!
//! # Clocks
//!
//! The clients' clocks decide, so they should be synchronized; with NTP they differ by milliseconds. Every row shows
//! the clock of the client that wrote it last. From that, each store learns how far others are ahead of it, and decides
//! at the time of the latest clock: a client that is behind gets its part of a hot key, and is late by no more than the
//! duration of a transaction. What differing clocks cost:
//!
//! - **Up to 5 s behind**: nothing, once the client has seen a row of a client that is ahead. What it has learnt fades
//!   by 16 ms per second without such rows.
//! - **More than 5 s behind**: the client is denied what others have taken, until it has caught up or their rows have
//!   expired. A clock that is so far ahead may be wrong, so that nobody follows it.
//! - **Ahead**: the client finds buckets fuller than they are, and other clients find them emptier by as much
//!   afterwards.
//!
//! Whatever the clocks, no more than one additional burst is granted.
//!
//! # Server requirements
//!
//! - Cassandra 5 (tested with 5.0.6) with `paxos_variant: v2` in `cassandra.yaml`, which halves the cost of a
//!   transaction.
//! - A replication factor of 3, so that two replicas can agree while one is down.
//! - A user with `SELECT` and `MODIFY` on the tables.
//! - No other writers: plain writes and lightweight transactions on the same table do not see each other.
//! - For a keyspace that is replicated in several datacenters: `SERIAL` ([`Config::consistency`]).
//!
//! ScyllaDB uses the same driver and protocol; it has not been tested.
//!
//! # Limitations
//!
//! - Every transaction sends the row, so rows have to stay small: sliding logs and concurrency limits support a
//!   capacity of at most 1,000; larger ones are an error.
//! - A row records the last 16 idempotency keys, for at least a minute.
//! - A state that is not used for ten years is lost. From 2028 on, so is a state that is not used until 2038, unless
//!   the servers' `storage_compatibility_mode` is `NONE`.
//!
//! # Layout
//!
//! - [`CassandraStore`] (`store`), [`Config`] (`config`), `options`, `url`, [`Stats`] (`stats`).
//! - `decide`: the decisions on the rows of one entity. `places`: requests over several entities.
//! - `update`: the compare-and-set loop. `call`: one call of it, with retries and lost responses. `backoff`: its
//!   delays.
//! - `session`: the connection and its statements. `transaction`: the requests that are sent. `routing`: to which
//!   node.
//! - `clock_lead`: how far the clocks of other clients are ahead.
//! - `row`, `codec`: the content of a row and its stored format. `key`: partitions and row names. `row_cache`: rows
//!   as they were seen last. `partition_lock`: one call per partition at a time.
//! - [`CassandraDocuments`] (`documents`): versioned documents.
//! - `schema`, [`Replication`] (`replication`): the keyspace and its tables. `error`: conversion of driver errors.

mod backoff;
mod call;
mod clock_lead;
mod codec;
mod config;
mod decide;
mod documents;
mod error;
mod key;
mod options;
mod partition_lock;
mod places;
mod replication;
mod routing;
mod row;
mod row_cache;
mod schema;
mod session;
mod stats;
mod store;
mod transaction;
mod update;
mod url;

pub use config::Config;
pub use documents::CassandraDocuments;
pub use replication::Replication;
/// The driver, for [`Config::session`].
pub use scylla;
pub use scylla::statement::{Consistency, SerialConsistency};
pub use stats::Stats;
pub use store::CassandraStore;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
