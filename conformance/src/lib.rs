//! Conformance test suite for Tollgate stores: what every rate limiter store must do, as named trials.
//!
//! The author of a store or wrapper runs this suite on it: implement [`Subject`], and call [`run`] in the `main` of a
//! test with `harness = false`.
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
//!         MyStore // connected to a server, or new
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     run(Mine)
//! }
//! ```
//!
//! The name of a trial is `behaviour::sample`: what is tested and on which limit, such as `refund::sliding_log`. The
//! store's [`Capability`](tollgate_core::store::Capability) selects the trials. A trial that it rules out is listed as
//! ignored, with the reason. Every trial uses a namespace of its own, so all of them can share one server.
//!
//! # Layout
//!
//! - [`Subject`], [`run`], [`trials`], [`labelled`] (`suite`): runs the trials on a store.
//! - `trials`: one file per behaviour. `replay` compares a store with core's pure function on seeded random traces.
//! - [`DocumentSubject`], [`run_documents`], [`document_trials`] (`documents`): the same for document stores.
//! - `samples`: the limits that trials use, at least one per algorithm.
//! - `fixture`: a store, a namespace and a time that a trial moves by hand. `compare`: what a failed trial prints.
//! - [`Pure`]: core's pure function as a reference model; [`Seed`]: reproducible random numbers. Both also serve
//!   replays in a store's own tests.

mod compare;
mod documents;
mod fixture;
mod pure;
mod samples;
mod seed;
mod suite;
mod trials;

#[doc(hidden)]
pub use documents::document_failures;
pub use documents::{DocumentSubject, KilledPut, document_trials, run_documents};
pub use pure::Pure;
pub use seed::Seed;
#[doc(hidden)]
pub use suite::failures;
pub use suite::{Subject, labelled, run, trials};
