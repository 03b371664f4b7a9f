//! Versioned documents: the [`DocumentStore`](tollgate_core::documents::DocumentStore) implementation.
//!
//! Every method is one script call, so that a change is one atomic step; a long list is several calls.

mod names;
mod outcome;
mod revision;
mod store;

pub use store::RedisDocuments;
