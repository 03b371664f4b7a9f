//! Metrics and logs for Tollgate, a rate limiter: its [events](tollgate_core::Event) as counters, gauges and
//! histograms (Prometheus or any other exporter), and as `tracing` log lines.
//!
//! Limiters, wrappers around stores and the Redis store report events to an [`Observer`](tollgate_core::Observer),
//! which is attached once, to the limiter ([`Limiter::with_observer`](tollgate_core::Limiter::with_observer)).
//! [`Metrics`] records them through the [`metrics`](https://docs.rs/metrics) facade, for the exporter that the program
//! has installed. [`Log`] writes them through [`tracing`]. [`Fanout`] forwards them to several observers.
//!
//! ```
//! use std::sync::Arc;
//!
//! use tollgate::memory::MemoryStore;
//! use tollgate::observe::{Fanout, Log, Metrics};
//! use tollgate::{Limit, Limiter};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = MemoryStore::new();
//! // Install the exporter first: a metric is registered with the recorder that is installed at its first use.
//! let limiter = Limiter::new(store).with_observer(Arc::new(Metrics::new()));
//! assert!(limiter.check_now(&Limit::per_second(50).build("api")?, "user:42").is_allowed());
//!
//! // Or both.
//! # let store = MemoryStore::new();
//! let both = Fanout::new().and(Arc::new(Metrics::new())).and(Arc::new(Log::new()));
//! let limiter = Limiter::new(store).with_observer(Arc::new(both));
//! # let _ = limiter;
//! # Ok(())
//! # }
//! ```
//!
//! # Metrics
//!
//! | name | type | labels | meaning |
//! |---|---|---|---|
//! | `tollgate_decisions_total` | counter | `limit`, `outcome`, `source` | decisions on charges |
//! | `tollgate_errors_total` | counter | `limit`, `kind` | charges that were not decided: the limiter returned an error |
//! | `tollgate_fallbacks_total` | counter | `limit`, `reason`, `source` | decisions that a fallback made |
//! | `tollgate_limit_label_overflow_total` | counter | | decisions, errors and fallbacks with `limit="(other)"` |
//! | `tollgate_breaker_state` | gauge | `store`, `state` | 1 for the state of the store's circuit breaker, 0 for the others |
//! | `tollgate_breaker_changes_total` | counter | `store`, `state` | changes of circuit breakers to this state |
//! | `tollgate_reconciliations_total` | counter | `store` | reconciliations with the store after an outage |
//! | `tollgate_reconciled_keys_total` | counter | `store` | keys that were reconciled |
//! | `tollgate_reconciliation_lost_tokens_total` | counter | `store` | granted tokens that could not be reconciled |
//! | `tollgate_sync_round_seconds` | histogram | | duration of sync rounds with the central store |
//! | `tollgate_synced_keys_total` | counter | | keys that took part in sync rounds |
//! | `tollgate_sync_errors_total` | counter | `kind` | sync rounds that the central store did not answer in full |
//! | `tollgate_sync_debt_tokens` | gauge | | largest debt of a key in the last sync round, in tokens |
//! | `tollgate_sync_stale_seconds` | gauge | | time for which the central store has not answered |
//! | `tollgate_store_call_seconds` | histogram | `store` | duration of the calls of a guarded store, including those that failed |
//! | `tollgate_store_errors_total` | counter | `store`, `kind` | calls of a guarded store that failed |
//! | `tollgate_misconfigured_servers_total` | counter | | servers whose configuration lets limits be exceeded |
//! | `tollgate_rules_loads_total` | counter | `source` | times that other rules came into use |
//! | `tollgate_rules_documents` | gauge | `source` | documents of the rules in use |
//! | `tollgate_rules_rejections_total` | counter | `source` | new rules that cannot be used |
//! | `tollgate_rules_rejected` | gauge | `source` | 1 while the newest rules cannot be used and older ones are in use, 0 otherwise |
//! | `tollgate_rules_poll_errors_total` | counter | `source`, `kind` | polls that the source of rules did not answer |
//! | `tollgate_rules_stale_seconds` | gauge | `source` | time for which the source of rules has not answered |
//! | `tollgate_plan_errors_total` | counter | `kind` | look-ups of a user's plan that the store did not answer |
//!
//! A decision of a fallback counts twice: among the decisions with its source, and among the fallbacks with its reason.
//!
//! A call of a guarded store that fails counts among the store errors, and among the errors only if no failure policy
//! decides its charges. Without a guarded store, every failed check counts among the errors. `store` is the name of the
//! guarded store, which its builder sets; `source` is the name of a source of rules, likewise.
//!
//! The number of time series is bounded. The values of `outcome`, `source`, `reason`, `kind` and `state` are fixed
//! names of Tollgate ([`Outcome::as_str`](tollgate_core::Outcome::as_str) and so on). Keys are never labels. Names of
//! limits are labels, and a program may derive them from user input: only the first [`MAX_LIMITS`] names (or [another
//! number](Metrics::max_limits)) get a label of their own, and all others share the label [`OTHER`].
//!
//! # Layout
//!
//! - [`Metrics`] (`metrics`): for the `metrics` facade; `metrics::names`: names and descriptions.
//! - [`Log`] (`log`): for `tracing`; `log::throttle`: one line for many events.
//! - [`Fanout`] (`fanout`): several observers.
//! - `limits`: a bounded map by limit name; `chain`: an append-only map for a few keys.

mod chain;
mod fanout;
mod limits;
mod log;
mod metrics;

pub use fanout::Fanout;
pub use limits::{MAX_LIMITS, OTHER};
pub use log::Log;
pub use metrics::Metrics;
