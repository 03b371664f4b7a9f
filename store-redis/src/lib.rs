//! Tollgate's store on Redis: every algorithm in one atomic round trip.
//!
//! ```no_run
//! use tollgate_core::{Limit, Limiter};
//! use tollgate_store_redis::RedisStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(RedisStore::connect("redis://127.0.0.1").await?);
//! let api = Limit::per_second(50).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // too many
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Config`] says which URLs there are: one server, Sentinel, Cluster, client-side shards.
//!
//! # What to rely on
//!
//! - **One script call per request**, whatever the number of its charges, and one per batch and server. The server's own
//!   clock decides, so the clocks of a fleet need not agree.
//! - **Atomic**: on one server, and behind Sentinel, any request is a single step. In a cluster and over shards that is
//!   so for all limits of one entity; a request over several entities is kept all or nothing by giving back.
//! - **Nothing is executed twice.** A call that may have been executed is sent again only under its
//!   [operation id](tollgate_core::IdempotencyKey); otherwise its error says that it may have taken effect.
//! - **What a server forgets is forgotten**: after a restart without persistence, or a failover to a replica that had not
//!   heard of the last writes, decisions are right for the state that the server has.
//! - **State goes by itself**: every key has a time-to-live, the time until it equals a fresh state plus a margin.
//!
//! # What the server needs
//!
//! Redis 6 or newer; tested on 7.0. A user with rights on `~tollgate:*` (or another [prefix](Config::prefix)) and these
//! commands:
//!
//! ```text
//! +evalsha +eval +time +get +mget +set +psetex +del +unlink +pexpire +getrange +setrange
//! +zadd +zrem +zrange +zrangebylex +zcard
//! ```
//!
//! With `+ping +unwatch` a connection that is in doubt is kept if it turns out to be good; without, it is replaced. For a
//! database other than 0 also `+select`, for clusters `+cluster|slots +asking`, behind Sentinel
//! and for shards with replicas `+role`.
//!
//! It must not evict keys that still count: `maxmemory-policy noeviction`, or `volatile-ttl` if memory is short.
//!
//! While a slot of a cluster moves, its node refuses calls with several keys of which some are not there (`TRYAGAIN`).
//! The store sends them again until their deadline; plain checks of one limit go on.
//!
//! # Layout
//!
//! - `config`, `url`: what users say; `store`: the seam
//! - `take`, `decide`: requests to script calls and back; `scripts/*.lua`: what runs on the server
//! - `spread`: requests over several places; `snapshot`: export and merge; `exchange`: booking and export in one call
//! - `topology`: which server a key lives on; `server`, `lane`: its connections; `error`: what goes wrong there
//! - `key`, `script`, `call`, `reply`, `plain`, `flow_value`, `settings`: what these are made of

mod call;
mod config;
mod decide;
mod error;
mod exchange;
mod flow_value;
mod key;
mod lane;
mod places;
mod plain;
mod reply;
mod script;
mod server;
mod settings;
mod snapshot;
mod store;
mod take;
mod topology;
mod url;

pub use config::Config;
pub use store::RedisStore;
