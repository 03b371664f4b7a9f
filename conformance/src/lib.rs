//! What every Tollgate store must do, as named trials.
//!
//! Whoever writes a store runs this suite on it: implement [`Subject`], and make it the `main` of a test
//! without libtest's harness.
//!
//! ```no_run
//! use tollgate_conformance::{Subject, run};
//! # use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
//! # use tollgate_core::{Key, Limit, Request, StoreError, Time, Verdict};
//! # struct MyStore;
//! # impl Store for MyStore {
//! #     fn capability(&self) -> Capability { Capability::exact() }
//! #     async fn decide(&self, _: Request<'_>, _: Time) -> Result<Verdict, StoreError> { unreachable!() }
//! #     async fn decide_batch(&self, _: &[Run<'_>], _: Time) -> Vec<Result<RunVerdict, StoreError>> { unreachable!() }
//! #     async fn export(&self, _: &Limit, _: Key<'_>, _: Time) -> Result<Export, StoreError> { unreachable!() }
//! # }
//!
//! struct Mine;
//!
//! impl Subject for Mine {
//!     type Store = MyStore;
//!
//!     async fn open(&self) -> MyStore {
//!         MyStore // connected to a server, or empty
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     run(Mine)
//! }
//! ```
//!
//! A trial's name says what is tried and on which algorithm, such as `refund::sliding_log`. What a store cannot
//! do is chosen by its [`Capability`](tollgate_core::store::Capability); such trials are listed as ignored, with the reason,
//! and never skipped in silence. Every trial has a namespace of its own, so one server serves them all.
//!
//! # Layout
//!
//! - [`Subject`], [`run`], [`trials`] (`suite`): how a store is put on trial.
//! - `trials`: one file per behaviour. `replay` compares seeded random traces with core's pure function.
//! - `samples`: the limits that are tried, at least one per algorithm.
//! - `stand`: a store, a time and a namespace, driven by hand.
//! - [`Pure`]: what the pure function says; [`Seed`]: traces that can be repeated. For a store's own replays too.

mod pure;
mod samples;
mod seed;
mod stand;
mod suite;
mod trials;

pub use pure::Pure;
pub use seed::Seed;
pub use suite::{Subject, run, trials};
