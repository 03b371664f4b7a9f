//! Real Redis servers and Cassandra nodes for tests: started by the test that needs them, and ended with it.
//!
//! A server runs in a container on the host's network, so that clients reach every server of a cluster by the address
//! that the cluster announces. With `TOLLGATE_TEST_SERVERS=processes` in the environment it runs as a plain process
//! instead, which requires `redis-server` and `cassandra` on the path. `./scripts/test` prepares either.
//! `TOLLGATE_TEST_REDIS_IMAGE` and `TOLLGATE_TEST_CASSANDRA_IMAGE` select other images than `redis:7` and
//! `cassandra:5`.
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
//! A [`Cassandra`] node works the same way, and keeps its data when it is killed:
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
//! Functions panic with the reason instead of returning errors that no test would handle.
//!
//! # Layout
//!
//! - [`Redis`]; [`RedisCluster`] with the [`Migration`] of a slot; [`RedisSentinel`]; [`redis_url`] for a suite.
//! - [`Cassandra`]; [`CassandraCluster`]; [`cassandra_url`] for a suite.
//! - `launch`: starts a server in a `container` or as a `process`. `lifeline`: ends it, even if the test is killed.
//!   `port`: free ports and addresses. `files`: directories for a server's files.
//! - [`Reply`] (`wire`), [`Row`] and [`CqlError`] (`cql`): the part of the protocols that tests need, so that servers
//!   are not set up by the client under test.
//! - [`RedisProxy`], [`CassandraProxy`]: proxies that lose, delay or cut what a client and its server exchange.
//! - [`until`], [`in_time`], [`eventually`] (`wait`): bounded waits for what a server does in its own time.

mod cassandra;
mod cassandra_cluster;
mod cassandra_proxy;
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
mod redis_proxy;
mod sentinel;
mod wait;
mod wire;

pub use cassandra::{Cassandra, QUICK, cassandra_url};
pub use cassandra_cluster::CassandraCluster;
pub use cassandra_proxy::{CassandraProxy, Fault};
pub use cluster::RedisCluster;
pub use cql::{Consistency, CqlError, Row};
pub use migration::Migration;
pub use redis::{Redis, redis_url};
pub use redis_proxy::RedisProxy;
pub use sentinel::RedisSentinel;
pub use wait::{eventually, in_time, until};
pub use wire::Reply;
