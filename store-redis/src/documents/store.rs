//! The [`DocumentStore`] implementation: turns its methods into script calls, and replies into documents.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, Polled, Revision, check_document,
};
use tollgate_core::{Effect, ErrorKind, IdempotencyKey, Observer, StoreError};

use super::outcome::Outcome;
use super::{names, revision};
use crate::Config;
use crate::error;
use crate::eviction::Reports;
use crate::key::KeyNames;
use crate::script;
use crate::script_call::ScriptCall;
use crate::server::{Connector, in_future};
use crate::stats::{Counters, Stats};
use crate::topology::{ScriptReply, Topology};

/// Texts of more bytes than this may take longer than the call timeout to be sent.
const LARGE: usize = 1024 * 1024;

/// Versioned documents on Redis: a [`DocumentStore`] for rule sets and plan assignments. Clones share their
/// connections.
///
/// Created by [`Config::connect_documents`], or by [`RedisDocuments::connect`] from a URL alone. Needs a tokio runtime.
///
/// - **Every change is one atomic script.** A writer that is killed leaves its whole change or nothing.
/// - **No change is executed twice.** A change whose reply is lost is sent again, and recognized by a random id that is
///   stored with its version: it succeeds, and is no conflict with itself.
/// - **All documents of a prefix are in one place**, so that a change and the list of names are one atomic step: in a
///   cluster in one slot, and so on one node; with client-side shards on the first one in the URL, to which alone
///   `RedisDocuments` connects.
/// - **Documents do not expire.** A deleted document keeps its history. What survives a restart or a failover is what
///   the server has persisted or replicated.
///
/// A text is sent by one command, and must be transferred within the [call timeout](Config::call_timeout). 16 MiB can
/// block the server for 100 ms and more, so documents of many MiB belong on another server than limits. The transfer
/// itself delays no check of a limit: `RedisDocuments` has its own connections.
///
/// ```no_run
/// use tollgate::Time;
/// use tollgate::documents::{Change, DocumentStore};
/// use tollgate::redis::RedisDocuments;
///
/// # async fn edit(now: Time) -> Result<(), Box<dyn std::error::Error>> {
/// let documents = RedisDocuments::connect("redis://127.0.0.1").await?;
/// let known = documents.get("rules/shop").await?.map(|document| document.revision.version);
/// let change = Change::by("ann", now).with_comment("more for everybody");
/// documents.put("rules/shop", "domain: shop", known, &change).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisDocuments {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    topology: Topology,
    names: KeyNames,
    /// How many versions of a document are kept.
    history: u32,
    call_timeout: Duration,
    counters: Arc<Counters>,
    reports: Arc<Reports>,
}

impl RedisDocuments {
    /// Creates a document store for the servers at `url`, with defaults for everything else. [`Config`] lists the URL
    /// forms.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect_documents().await
    }

    pub(crate) fn new(
        topology: Topology,
        prefix: &str,
        history: u32,
        call_timeout: Duration,
        connector: &Connector,
    ) -> Self {
        let (counters, reports) = (Arc::clone(connector.counters()), Arc::clone(connector.reports()));
        let names = KeyNames::new(prefix);
        Self { inner: Arc::new(Inner { topology, names, history, call_timeout, counters, reports }) }
    }

    /// Checks whether the server answers: one round trip to the primary, or the slot map of a cluster.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.inner.topology.ping(in_future(self.inner.call_timeout)).await
    }

    /// Connects to the servers in advance.
    pub(crate) async fn connect_servers(&self) -> Result<(), StoreError> {
        self.inner.topology.connect(in_future(self.inner.call_timeout)).await
    }

    /// Reports servers that may evict documents to an observer
    /// ([`Event::ServerMisconfigured`](tollgate_core::Event::ServerMisconfigured)), also those found before. Keeps the
    /// first observer.
    pub fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.inner.reports.attach(observer);
    }

    /// Returns the counters of this document store and its clones.
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }
}

impl Inner {
    /// Runs a call that may be repeated. All documents are in one place, so the first key says where.
    async fn run(&self, call: &ScriptCall) -> Result<ScriptReply, StoreError> {
        let place = call.keys.first().map_or_else(Default::default, |key| self.topology.place(key));
        self.topology.run(place, call, in_future(self.call_timeout)).await
    }

    /// Runs a call that reads one document.
    async fn read(
        &self,
        script: &'static script::Script,
        name: &str,
        argument: Vec<u8>,
    ) -> Result<ScriptReply, StoreError> {
        let (keys, arguments) = (vec![self.names.document(name)], vec![argument]);
        self.run(&ScriptCall { script, keys, arguments, repeatable: true }).await
    }

    /// Runs a change. It is a deletion if there is no text.
    async fn change(
        &self,
        name: &str,
        text: Option<&str>,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        check_document(name, text.unwrap_or_default())?;
        let deleted = text.is_none();
        let mut arguments = vec![
            name.into(),
            digits(expected),
            self.history.to_string().into_bytes(),
            revision::encode(change, deleted, IdempotencyKey::unique()),
        ];
        arguments.extend(text.map(|text| text.as_bytes().to_vec()));
        let keys = vec![self.names.document(name), self.names.document_names()];
        let call = ScriptCall { script: script::change_document(), keys, arguments, repeatable: true };
        let reply = self.run(&call).await.map_err(|error| with_size(error, text))?;
        let outcome = reply.strings().and_then(|parts| Outcome::decode(&parts));
        let outcome = outcome.ok_or_else(|| error::unexpected_reply(reply.server()))?;
        let version = outcome.version(expected, reply.was_repeated())?;
        Ok(change.revision(version, deleted))
    }
}

/// Returns a version as scripts expect it: empty if there is none.
fn digits(version: Option<u64>) -> Vec<u8> {
    version.map(|version| version.to_string().into_bytes()).unwrap_or_default()
}

/// Adds advice to the error of a large text that was not stored in time.
fn with_size(error: StoreError, text: Option<&str>) -> StoreError {
    let size = text.map_or(0, str::len);
    if error.kind() != ErrorKind::Timeout || size <= LARGE {
        return error;
    }
    let message =
        format!("a document of {size} bytes was not stored in time; set a longer Config::call_timeout");
    let effect = error.effect();
    let error = StoreError::new(ErrorKind::Timeout, message).with_source(error);
    if effect == Effect::None { error } else { error.with_unknown_effect() }
}

/// Creates the error for a document that no version of this crate has written.
fn malformed() -> StoreError {
    StoreError::new(
        ErrorKind::Corrupt,
        "redis holds a document of another program; delete that key, or configure another prefix",
    )
}

/// Decodes a document: its version, revision and text.
fn document(version: &[u8], stored: &[u8], text: &[u8]) -> Result<Document, StoreError> {
    let revision = revision::decode(version, stored).ok_or_else(malformed)?;
    Ok(Document { text: revision::text(text).ok_or_else(malformed)?, revision })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DocumentStore for RedisDocuments {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        Ok(match self.get_if_changed(name, None).await? {
            Polled::Changed(document) => Some(document),
            Polled::Unchanged | Polled::Missing => None,
        })
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        check_document(name, "")?;
        let reply = self.inner.read(script::read_document(), name, digits(known)).await?;
        match reply.strings().as_deref() {
            Some([]) => Ok(Polled::Missing),
            Some([_]) => Ok(Polled::Unchanged),
            Some([version, revision, text]) => Ok(Polled::Changed(document(version, revision, text)?)),
            Some(_) | None => Err(error::unexpected_reply(reply.server()).into()),
        }
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        self.inner.change(name, Some(text), expected, change).await
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        self.inner.change(name, None, Some(expected), change).await
    }

    /// Reads pages of names, each by one call with a timeout of its own. A name that is created or deleted meanwhile
    /// may or may not be listed; no name is listed twice.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        let mut listed: Vec<(String, u64)> = Vec::new();
        // No name has control characters, and the zero byte separates names from versions.
        if prefix.chars().any(char::is_control) {
            return Ok(listed);
        }
        let mut start = names::start(prefix);
        loop {
            let arguments = vec![start, names::end(prefix), names::PAGE.to_string().into_bytes()];
            let keys = vec![self.inner.names.document_names()];
            let call = ScriptCall { script: script::list_documents(), keys, arguments, repeatable: true };
            let reply = self.inner.run(&call).await?;
            let members = reply.strings().ok_or_else(|| error::unexpected_reply(reply.server()))?;
            for member in &members {
                listed.push(names::decode(member).ok_or_else(malformed)?);
            }
            match listed.last() {
                Some((last, _)) if members.len() >= names::PAGE => start = names::after(last),
                Some(_) | None => return Ok(listed),
            }
        }
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        check_document(name, "")?;
        let reply = self.inner.read(script::document_history(), name, Vec::new()).await?;
        let parts = reply.strings().ok_or_else(|| error::unexpected_reply(reply.server()))?;
        let (pairs, rest) = parts.as_chunks();
        if !rest.is_empty() {
            return Err(error::unexpected_reply(reply.server()).into());
        }
        let decode = |[version, stored]: &[&[u8]; 2]| revision::decode(version, stored);
        pairs.iter().map(decode).collect::<Option<_>>().ok_or_else(|| malformed().into())
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        check_document(name, "")?;
        let script = script::read_document_version();
        let reply = self.inner.read(script, name, digits(Some(version))).await?;
        match reply.strings().as_deref() {
            Some([]) => Ok(None),
            Some([version, revision, text]) => Ok(Some(document(version, revision, text)?)),
            Some(_) | None => Err(error::unexpected_reply(reply.server()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_text_that_takes_too_long_comes_with_advice() {
        let large = "x".repeat(LARGE + 1);
        let timeout = || StoreError::new(ErrorKind::Timeout, "no reply").with_unknown_effect();
        let advised = with_size(timeout(), Some(&large));
        assert!(
            advised.to_string().contains("1048577 bytes") && advised.to_string().contains("call_timeout")
        );
        assert_eq!((advised.kind(), advised.effect()), (ErrorKind::Timeout, Effect::Unknown));
        let not_sent = with_size(StoreError::new(ErrorKind::Timeout, "no connection"), Some(&large));
        assert_eq!(not_sent.effect(), Effect::None);
        assert!(with_size(timeout(), Some("short")).to_string().starts_with("no reply"));
        let full = StoreError::new(ErrorKind::Full, "full");
        assert_eq!(with_size(full, Some(&large)).to_string(), "full");
    }
}
