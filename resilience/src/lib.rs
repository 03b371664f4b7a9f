//! Resilience for [Tollgate](https://docs.rs/tollgate) rate limiters: a deadline, a circuit breaker, local fallback and
//! reconciliation for a store such as Redis or Cassandra that fails; request coalescing and batching for hot keys; a
//! kill switch, shadow mode (dry run), an allow list and a deny list at run time.
//!
//! Each of them is a wrapper: a [`Store`](tollgate_core::store::Store) around a store. They stack in any order; the
//! intended one is `Switched<Guarded<Coalesced<S>>>`.
//!
//! ```
//! use tollgate::memory::MemoryStore;
//! use tollgate::resilience::{Coalesced, FallbackStore, Guarded, OnFailure, Share, Switched};
//! use tollgate::{Limit, Limiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let redis = MemoryStore::new(); // for a store that can fail
//! let api = Limit::per_second(50).build("api")?;
//! let login = Limit::per_minute(5).build("login")?;
//! let guarded = Guarded::builder(Coalesced::new(redis))
//!     .on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(10))) // ten processes share the limits
//!     .on_failure_of(&login, OnFailure::Deny)
//!     .build()?;
//! let store = Switched::new(guarded);
//! let switches = store.switches().clone();
//! let limiter = Limiter::new(store);
//!
//! switches.shadow("api"); // count what would be denied, and deny nothing
//! assert!(limiter.check(&api, "user:42").await?.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - [`Guarded`], [`FailurePolicies`] (`guarded`): deadline, circuit breaker, failure policies, reconciliation.
//! - [`Coalesced`] (`coalesced`): concurrent checks in few calls.
//! - [`Switched`], [`Switches`] (`switched`): limits that are switched off or to shadow mode, and lists of keys.

mod coalesced;
mod guarded;
mod switched;

pub use coalesced::{Coalesced, CoalescedBuilder, CoalescedStats};
pub use guarded::{FailurePolicies, FallbackStore, Guarded, GuardedBuilder, GuardedStats, OnFailure, Share};
pub use switched::{KeyList, ShadowStats, SwitchState, Switched, SwitchedStats, Switches};
