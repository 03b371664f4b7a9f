//! Tollgate's [events](tollgate_core::Event) as metrics and as lines of a log.
//!
//! Limiters, and the stores around stores, tell an [`Observer`](tollgate_core::Observer) what happens. [`Metrics`]
//! counts it for whatever exporter a program has installed behind the [`metrics`](https://docs.rs/metrics) facade;
//! [`Log`] writes it down through [`tracing`]. [`All`] tells several.
//!
//! ```
//! use std::sync::Arc;
//!
//! use tollgate_core::{Limit, Limiter};
//! use tollgate_observe::{All, Log, Metrics};
//! use tollgate_store_memory::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = MemoryStore::new();
//! // Install the exporter first: metrics go to the one that is there when they are first needed.
//! let limiter = Limiter::new(store).observed_by(Arc::new(Metrics::new()));
//! assert!(limiter.check_now(&Limit::per_second(50).build("api")?, "user:42").is_allowed());
//!
//! // Or both.
//! # let store = MemoryStore::new();
//! let both = All::new().and(Arc::new(Metrics::new())).and(Arc::new(Log::new()));
//! let limiter = Limiter::new(store).observed_by(Arc::new(both));
//! # let _ = limiter;
//! # Ok(())
//! # }
//! ```
//!
//! # Metrics
//!
//! | name | type | labels | meaning |
//! |---|---|---|---|
//! | `tollgate_decisions_total` | counter | `limit`, `outcome`, `source` | charges that were decided |
//! | `tollgate_fallbacks_total` | counter | `limit`, `reason`, `source` | charges that something other than the store decided |
//! | `tollgate_folded_total` | counter | | decisions and fallbacks that were counted under `limit="(other)"` |
//! | `tollgate_breaker_state` | gauge | `state` | 1 for the state of the breaker that changed last, 0 for the others |
//! | `tollgate_breaker_changes_total` | counter | `state` | changes of breakers to that state |
//! | `tollgate_handovers_total` | counter | | times that a store was told what was consumed while it was away |
//! | `tollgate_handed_over_keys_total` | counter | | keys that it was told about |
//! | `tollgate_handover_lost_total` | counter | | how much it could not be told, in tokens |
//! | `tollgate_exchange_seconds` | histogram | | how long exchanges of local and central state took |
//! | `tollgate_exchanged_keys_total` | counter | | keys that were exchanged |
//! | `tollgate_exchange_errors_total` | counter | `kind` | exchanges that the central store did not answer in full |
//! | `tollgate_exchange_debt_tokens` | gauge | | how far below zero a key was at most at the last exchange |
//! | `tollgate_exchange_silence_seconds` | gauge | | how long the central store has not answered |
//! | `tollgate_store_call_seconds` | histogram | | how long calls of stores took, whether they failed or not |
//! | `tollgate_store_errors_total` | counter | `kind` | calls of stores that failed |
//!
//! A charge that something other than the store decided is a decision as well: it is among the decisions with its
//! source, and among the fallbacks with the reason.
//!
//! Labels are bounded, whatever a program is asked. `outcome`, `source`, `reason`, `kind` and `state` are words of
//! Tollgate's own ([`Outcome::as_str`](tollgate_core::Outcome::as_str) and so on). Keys are never labels. Names of
//! limits are, and a program may make them from what its users say; so only the first [`MOST_LIMITS`] (or
//! [as many as wanted](Metrics::most_limits)) get a label of their own, and the rest share [`OTHER`].
//!
//! # Layout
//!
//! - [`Metrics`] (`metrics`): for the facade; `metrics::names`: what the metrics are called.
//! - [`Log`] (`log`): for tracing; `log::episode`: one line for many events.
//! - [`All`] (`all`): several observers.
//! - `limits`: what is kept for each limit, bounded; `chain`: what is kept for each of a few words.

mod all;
mod chain;
mod limits;
mod log;
mod metrics;

pub use all::All;
pub use limits::{MOST_LIMITS, OTHER};
pub use log::Log;
pub use metrics::Metrics;
