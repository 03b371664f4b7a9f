//! Faults between a store and a Redis server. A call returns a correct decision, or an error that names the problem and
//! whether the call may have taken effect. It never hangs, never panics, and never counts twice.
//!
//! - `foreign_values`, `keys`: stored values of other programs, and unusual keys
//! - `configuration`, `login`, `tls`: the configuration
//! - `error_replies`: servers that are full, replicas or loading
//! - `eviction`: servers that may evict keys
//! - `outages`, `timeouts`, `runtimes`: servers that are down, or do not reply; runtimes that end
//! - `lost_replies`: connections that close before the reply arrives
//! - `load`: many concurrent callers
//! - `stats`: the counters
//! - `assertions`, `proxy`: test support

mod assertions;
mod configuration;
mod error_replies;
mod eviction;
mod foreign_values;
mod keys;
mod load;
mod login;
mod lost_replies;
mod outages;
mod runtimes;
mod stats;
mod timeouts;
mod tls;
