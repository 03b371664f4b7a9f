//! Documents, lists and histories in answers.

use hyper::body::Bytes;
use hyper::header::{ETAG, HeaderMap};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tollgate_core::Time;
use tollgate_core::documents::{Document, DocumentError, Revision, check_document};

use super::exchange::Exchange;

impl<C> Exchange<C> {
    /// Reads a document.
    pub(super) fn document(&self, headers: &HeaderMap, body: Bytes) -> Result<Document, DocumentError> {
        let Some(version) = version(headers) else {
            return Err(self.unexpected("the answer has no `ETag` with a version"));
        };
        let (Some(author), Some(comment), Some(time)) =
            (words(headers, "tollgate-author"), words(headers, "tollgate-comment"), time(headers))
        else {
            return Err(self.unexpected("the author, the time or the comment of a document cannot be read"));
        };
        let text = String::from_utf8(body.into());
        let text = text.map_err(|_| self.unexpected("the text of a document is not UTF-8"))?;
        Ok(Document { text, revision: Revision { version, author, time, comment, deleted: false } })
    }

    /// Reads the names and versions of documents.
    pub(super) fn names(&self, prefix: &str, body: &[u8]) -> Result<Vec<(String, u64)>, DocumentError> {
        let name = |entry: &Value| {
            let name = entry.get("name")?.as_str()?;
            check_document(name, "").ok()?;
            let version = entry.get("version")?.as_u64().filter(|version| *version > 0)?;
            name.starts_with(prefix).then(|| (name.to_owned(), version))
        };
        let mut names = self.entries(body, "documents", name)?;
        names.sort();
        Ok(names)
    }

    /// Reads a history.
    pub(super) fn revisions(&self, body: &[u8]) -> Result<Vec<Revision>, DocumentError> {
        self.entries(body, "revisions", |entry| {
            Some(Revision {
                version: entry.get("version")?.as_u64()?,
                author: entry.get("author")?.as_str()?.to_owned(),
                time: Time::from_nanos(entry.get("time")?.as_u64()?),
                comment: entry.get("comment")?.as_str()?.to_owned(),
                deleted: entry.get("deleted")?.as_bool()?,
            })
        })
    }

    fn entries<T>(
        &self,
        body: &[u8],
        field: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, DocumentError> {
        let root: Option<Value> = serde_json::from_slice(body).ok();
        let entries = root.as_ref().and_then(|root| root.get(field)).and_then(Value::as_array);
        let read = entries.and_then(|entries| entries.iter().map(read).collect());
        read.ok_or_else(|| self.unexpected(format_args!("the answer is not JSON with valid `{field}`")))
    }
}

/// Returns the version of a document. A proxy that compresses makes the tag a weak one.
fn version(headers: &HeaderMap) -> Option<u64> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    let tag = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    tag.parse().ok().filter(|version| *version > 0)
}

/// Returns the text of a header; empty if there is none. `None` if it cannot be read.
fn words(headers: &HeaderMap, name: &str) -> Option<String> {
    let Some(value) = headers.get(name) else { return Some(String::new()) };
    let decoded = percent_decode_str(value.to_str().ok()?).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Returns the time of a document; the epoch if there is none. `None` if it cannot be read.
fn time(headers: &HeaderMap) -> Option<Time> {
    let Some(value) = headers.get("tollgate-time") else { return Some(Time::EPOCH) };
    Some(Time::from_nanos(value.to_str().ok()?.parse().ok()?))
}
