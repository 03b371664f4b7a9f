//! Conformance trials for document stores: what every [`DocumentStore`](tollgate_core::documents::DocumentStore) must
//! do.

mod fixture;
mod suite;
mod trials;

#[doc(hidden)]
pub use suite::document_failures;
pub use suite::{DocumentSubject, KilledPut, document_trials, run_documents};
