//! Documents of another Tollgate, read over HTTP.
//!
//! # Protocol
//!
//! Version 1. `{base}` is the base URL, such as `https://tollgate.internal:8080`; it may have a path. Requests are
//! `GET`, with `Authorization: Bearer {token}` if there is a token.
//!
//! `{name}` is the name of a document as one segment of the path: every byte but letters, digits, `-`, `_` and `~` is
//! percent-encoded, slashes and dots too. The prefix of a list is encoded in the same way.
//!
//! | request | answer |
//! |---|---|
//! | `{base}/v1/rules/{name}` | 200 with the text and the headers below; 404 if there is no such document |
//! | the same with `If-None-Match: "{version}"` | 304 if the document still is this version |
//! | `{base}/v1/rules/{name}?version={version}` | the same for a version that is kept; 404 if it is not, or was a deletion |
//! | `{base}/v1/rules?prefix={prefix}` | 200 with `{"documents": [{"name": "rules/shop", "version": 3}]}`, sorted by the bytes of the name |
//! | `{base}/v1/rules/{name}/history` | 200 with `{"revisions": [{"version": 3, "author": "ada", "time": 1790000000000000000, "comment": "", "deleted": false}]}`, the newest first; empty if there never was such a document |
//!
//! | header of a text | value |
//! |---|---|
//! | `ETag` | `"{version}"`. Required; a weak one (`W/"3"`), which proxies make, means the same |
//! | `Tollgate-Author`, `Tollgate-Comment` | who made the version, and why; percent-encoded UTF-8. Default: empty |
//! | `Tollgate-Time` | when, in nanoseconds since the Unix epoch. Default: 0 |
//!
//! Texts are UTF-8 of at most [`MAX_DOCUMENT_SIZE`] bytes, lists and histories JSON of at most 8 MiB; an answer that is
//! larger is not read. Fields and headers that are not named here are ignored, so that later versions may add some.
//!
//! 401 and 403: the token may not read rules. 429 and 5xx: the server cannot answer now. All other answers are errors;
//! redirects are not followed, because they could lead the token elsewhere.

mod answer;
mod builder;
mod exchange;

use std::fmt;

use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, MAX_DOCUMENT_SIZE, Polled, Revision, check_document,
};
use tollgate_core::{ConfigError, SystemClock, Timer};

pub use builder::HttpDocumentsBuilder;

use exchange::{Answer, Exchange};

/// The most bytes of a list or a history.
const MAX_JSON_SIZE: usize = 8 * 1024 * 1024;

/// Bytes that are escaped in names. The dot is, because `..` would be another path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Reads the documents of another Tollgate over HTTP. They cannot be changed here.
///
/// A poll for a document that has not changed is answered without its text, by `ETag` and `If-None-Match`. A call has a
/// deadline, answers are bounded, redirects are not followed, and TLS is by rustls with the certificates that the
/// system trusts (`SSL_CERT_FILE` names others). The token appears neither in errors nor in `Debug`.
///
/// ```
/// use std::sync::Arc;
/// use tollgate::documents::DocumentStore;
/// use tollgate::rules::HttpDocuments;
///
/// let documents = HttpDocuments::new("http://tollgate.internal:8080", "the-token")?;
/// let documents: Arc<dyn DocumentStore> = Arc::new(documents);
/// # drop(documents);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
///
/// # Protocol
///
/// Requests are `GET`s below the base URL, with `Authorization: Bearer {token}`. Names are percent-encoded, slashes and
/// dots too.
///
/// | path | answer |
/// |---|---|
/// | `/v1/rules/{name}` | the text, with `ETag: "{version}"`, `Tollgate-Author`, `Tollgate-Time`, `Tollgate-Comment`; 304, 404 |
/// | `/v1/rules/{name}?version={version}` | a kept version, likewise |
/// | `/v1/rules/{name}/history` | `{"revisions": [{"version", "author", "time", "comment", "deleted"}]}` |
/// | `/v1/rules?prefix={prefix}` | `{"documents": [{"name", "version"}]}` |
pub struct HttpDocuments<C = SystemClock> {
    exchange: Exchange<C>,
}

impl HttpDocuments {
    /// Creates a store that reads from the Tollgate at `base_url` (`https://host:port`, or `http://…` within a trusted
    /// network), with a token that may read rules.
    pub fn new(base_url: &str, token: &str) -> Result<Self, ConfigError> {
        Self::builder(base_url).token(token).build()
    }

    /// Returns a builder for a store that reads from the Tollgate at `base_url`.
    pub fn builder(base_url: &str) -> HttpDocumentsBuilder {
        HttpDocumentsBuilder::new(base_url)
    }
}

impl<C: Timer> HttpDocuments<C> {
    async fn read(&self, name: &str, query: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        check_document(name, "")?;
        let path = format!("/v1/rules/{}{query}", utf8_percent_encode(name, ESCAPED));
        match self.exchange.get(&path, known, MAX_DOCUMENT_SIZE).await? {
            Answer::Found { headers, body } => Ok(Polled::Changed(self.exchange.document(&headers, body)?)),
            Answer::Unchanged => Ok(Polled::Unchanged),
            Answer::Missing => Ok(Polled::Missing),
        }
    }

    async fn read_now(&self, name: &str, query: &str) -> Result<Option<Document>, DocumentError> {
        match self.read(name, query, None).await? {
            Polled::Changed(document) => Ok(Some(document)),
            Polled::Missing => Ok(None),
            Polled::Unchanged => Err(self.exchange.unexpected("a document is unchanged that was never read")),
        }
    }
}

#[async_trait]
impl<C: Timer> DocumentStore for HttpDocuments<C> {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        self.read_now(name, "").await
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        let polled = self.read(name, "", known).await?;
        match (&polled, known) {
            (Polled::Unchanged, None) => {
                Err(self.exchange.unexpected("a document is unchanged that was never read"))
            }
            // A proxy may have dropped the condition.
            (Polled::Changed(document), Some(known)) if document.revision.version == known => {
                Ok(Polled::Unchanged)
            }
            (Polled::Changed(_) | Polled::Unchanged | Polled::Missing, _) => Ok(polled),
        }
    }

    async fn put(&self, _: &str, _: &str, _: Option<u64>, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn delete(&self, _: &str, _: u64, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        let path = format!("/v1/rules?prefix={}", utf8_percent_encode(prefix, ESCAPED));
        match self.exchange.get(&path, None, MAX_JSON_SIZE).await? {
            Answer::Found { body, .. } => self.exchange.names(prefix, &body),
            Answer::Missing => Err(self.exchange.no_service()),
            Answer::Unchanged => Err(self.exchange.unexpected("a list is unchanged that was never read")),
        }
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        check_document(name, "")?;
        let path = format!("/v1/rules/{}/history", utf8_percent_encode(name, ESCAPED));
        match self.exchange.get(&path, None, MAX_JSON_SIZE).await? {
            Answer::Found { body, .. } => self.exchange.revisions(&body),
            Answer::Missing => Err(self.exchange.no_service()),
            Answer::Unchanged => Err(self.exchange.unexpected("a history is unchanged that was never read")),
        }
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        let document = self.read_now(name, &format!("?version={version}")).await?;
        match document {
            Some(document) if document.revision.version != version => {
                Err(self.exchange.unexpected("it answers another version than the one that was asked for"))
            }
            document => Ok(document),
        }
    }
}

impl<C> fmt::Debug for HttpDocuments<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDocuments").field("exchange", &self.exchange).finish()
    }
}
