//! Real servers, started by the tests that need them and gone with them.
//!
//! A server runs in a container on the host's network, so that its port is one of this machine and a cluster is what
//! it is in production. With `TOLLGATE_TEST_SERVERS=processes` in the environment it is a plain process instead, which
//! needs `redis-server` and `cassandra` on the path. `./scripts/test` sees to either. `TOLLGATE_TEST_REDIS_IMAGE` and
//! `TOLLGATE_TEST_CASSANDRA_IMAGE` name other images than `redis:7` and `cassandra:5`.
//!
//! ```no_run
//! use tollgate_testkit::Redis;
//!
//! # async fn test() {
//! let mut redis = Redis::start(&["--maxmemory", "16mb"]).await;
//! assert_eq!(redis.call(&["PING"]).await.text(), "PONG");
//! redis.kill().await;
//! assert!(redis.try_call(&["PING"]).await.is_err());
//! redis.start_again().await;
//! # }
//! ```
//!
//! A [`Cassandra`] is used likewise, and keeps its data when it is killed:
//!
//! ```no_run
//! use tollgate_testkit::CassandraCluster;
//!
//! # async fn test() {
//! let mut cluster = CassandraCluster::start().await;
//! cluster.node_mut(2).kill().await;
//! let rows = cluster.node(0).query("SELECT * FROM system_schema.keyspaces").await;
//! cluster.node_mut(2).start_again().await;
//! cluster.settled().await;
//! # }
//! ```
//!
//! Nothing here is a result that a test would handle: what cannot be done panics and says why.
//!
//! # Layout
//!
//! - [`Redis`]; [`RedisCluster`] with its [`Migration`] of a slot; [`RedisSentinel`]; [`redis_url`] for a suite.
//! - [`Cassandra`]; [`CassandraCluster`]; [`cassandra_url`] for a suite.
//! - `launch`: a server in a `container` or as a `process`. `lifeline`: how it ends, come what may. `port`: where it listens.
//!   `files`: what it keeps.
//! - [`Reply`] (`wire`), [`Row`] and [`CqlError`] (`cql`): just enough of the protocols, so that servers are not set up by
//!   the client under test.
//! - `wait`: waiting for what a server does in its own time.

mod cassandra;
mod cassandra_cluster;
mod cluster;
mod container;
mod cql;
mod files;
mod launch;
mod lifeline;
mod migration;
mod port;
mod process;
mod redis;
mod sentinel;
mod wait;
mod wire;

pub use cassandra::{Cassandra, QUICK, cassandra_url};
pub use cassandra_cluster::CassandraCluster;
pub use cluster::RedisCluster;
pub use cql::{Consistency, CqlError, Row};
pub use migration::Migration;
pub use redis::{Redis, redis_url};
pub use sentinel::RedisSentinel;
pub use wire::Reply;
