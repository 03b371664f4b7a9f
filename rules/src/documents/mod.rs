//! Stores of documents that need no server of their own kind.

mod files;
#[cfg(feature = "http")]
mod http;

pub use files::FileDocuments;
#[cfg(feature = "http")]
pub use http::{HttpDocuments, HttpDocumentsBuilder};
