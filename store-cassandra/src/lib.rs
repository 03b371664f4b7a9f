//! Tollgate's store on Cassandra: every algorithm exact, by lightweight transactions.
//!
//! ```no_run
//! use tollgate_core::{Limit, Limiter};
//! use tollgate_store_cassandra::CassandraStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(CassandraStore::connect("cassandra://db1,db2/limits").await?);
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // too many
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Config`] says what a URL looks like, and makes the keyspace and the table, once, when you deploy.
//!
//! # What to rely on
//!
//! - **Exact**: a decision is what core's pure function says about the row, and the row changes only if it still is what
//!   the decision was made from. Whatever the number of clients, nothing is admitted twice and nothing is lost.
//! - **One transaction per request**, whatever the number of its limits, if they are of one entity. It starts from the row as it
//!   was seen last, so there is no read; if another process has changed it, the refusal brings the row along for the
//!   next attempt. Requests over several entities are kept all or nothing by giving back.
//! - **A denial is of now**: it writes nothing, but unless a transaction has just shown the row, it is read once more, since
//!   somebody may have given something back.
//! - **An answer that was lost is looked for**: every transaction leaves a stamp in its rows, and a read that takes part in the
//!   replicas' agreement finds it there or not. If the row has forgotten by then, the error says that the call may
//!   have taken effect; count it as spent.
//! - **Rows go by themselves**: each has a time-to-live, the time until it equals a fresh state plus a
//!   [margin](Config::expiry_margin).
//!
//! # Clocks
//!
//! The clients' clocks decide, so they should agree; a machine that keeps time by NTP is within milliseconds. A client whose clock is ahead
//! finds buckets fuller than they are, and others find them emptier by as much afterwards; one whose clock is behind is
//! denied what others have taken, until their rows have gone. Whatever a clock says, it is never granted more than a fresh
//! bucket on top.
//!
//! # What the cluster needs
//!
//! Cassandra 5 (tested on 5.0.6) with `paxos_variant: v2` in `cassandra.yaml`, which halves the cost of a transaction. Three
//! replicas, so that two can agree while one is away. A user with `SELECT` and `MODIFY` on the table. Nobody else may write to it:
//! plain writes and transactions on one table do not see each other. A keyspace that is replicated in several datacenters needs
//! `SERIAL` ([`Config::consistency`]). ScyllaDB speaks through the same driver; it has not been tried.
//!
//! # Bounds
//!
//! - A row is sent with every transaction, so it has to stay small: sliding logs and concurrency limits may count to 1,000
//!   here, and are refused beyond.
//! - A row remembers its last 16 named operations, for a minute at least.
//! - A state that is not used for ten years is forgotten; from 2028 on, what is not used until 2038, unless the
//!   servers' `storage_compatibility_mode` is `NONE`.
//!
//! # Layout
//!
//! - `config`, `url`, `schema`: what users say, and what the cluster has; `store`: the seam
//! - `change`, `attempt`: making a pure function come true; `decide`: the functions that do so; `spread`: requests over several entities
//! - `link`: the connection and its statements; `exchange`: what is sent through it; `routing`: to which node
//! - `key`, `pace`, `queue`, `row`, `cache`, `counts`, `error`: what these are made of

mod attempt;
mod cache;
mod change;
mod config;
mod counts;
mod decide;
mod error;
mod exchange;
mod key;
mod link;
mod pace;
mod places;
mod queue;
mod routing;
mod row;
mod schema;
mod store;
mod url;

pub use config::Config;
pub use counts::Counts;
pub use schema::Replication;
/// The driver, for [`Config::session`].
pub use scylla;
pub use scylla::statement::{Consistency, SerialConsistency};
pub use store::CassandraStore;
