//! Changes of documents without a response: the store finds out whether they were made.

use std::time::Duration;

use tollgate_core::documents::{Change, DocumentError, DocumentStore, Revision};
use tollgate_core::{Effect, ErrorKind, StoreError, Time};
use tollgate_store_cassandra::CassandraDocuments;
use tollgate_testkit::{CassandraProxy, Fault};

use crate::fixture::{assert_error, config, in_time, node, through};

/// A node is given up after half of it, so this determines how long a test takes. A busy node is still faster.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);
/// The requests of a change before its transaction: the head is read, the revision and the text are written.
const BEFORE: [Fault; 3] = [Fault::None; 3];

/// A document with one version, and two editors: one behind a proxy, and one that is connected directly.
struct Editors {
    name: &'static str,
    proxy: CassandraProxy,
    proxied: CassandraDocuments,
    direct: CassandraDocuments,
}

impl Editors {
    async fn of(name: &'static str) -> Self {
        let proxy = CassandraProxy::to(node().await, name).await;
        let proxied = through(&proxy).call_timeout(CALL_TIMEOUT).require_reachable().connect_documents();
        let proxied = in_time(proxied).await.expect("a reachable node");
        let direct = config(node().await).require_reachable().connect_documents();
        let editors = Self { name, proxy, proxied, direct: in_time(direct).await.expect("a reachable node") };
        editors.put(&editors.direct, "one", None).await.expect("the first version");
        editors
    }

    async fn put(
        &self,
        editor: &CassandraDocuments,
        text: &str,
        expected: Option<u64>,
    ) -> Result<Revision, DocumentError> {
        let change = Change::by(text, Time::from_secs(1_790_000_000));
        in_time(editor.put(self.name, text, expected, &change)).await
    }

    /// Replaces version 1 through the proxy, with these faults from the transaction on.
    async fn put_with(&self, faults: &[Fault]) -> Result<Revision, DocumentError> {
        self.proxy.inject(&[&BEFORE, faults].concat());
        let result = self.put(&self.proxied, "two", Some(1)).await;
        assert!(self.proxy.is_done(), "all faults have happened");
        result
    }

    /// Asserts the authors of all versions, which are also their texts, the newest first.
    async fn assert_versions(&self, expected: &[&str]) {
        let history = in_time(self.direct.history(self.name)).await.expect("a history");
        let authors: Vec<_> = history.iter().map(|revision| revision.author.as_str()).collect();
        assert_eq!(authors, expected);
        let current = in_time(self.direct.get(self.name)).await.expect("an answer").expect("a document");
        assert_eq!((current.text.as_str(), &current.revision), (expected[0], &history[0]));
    }
}

fn store_error(result: Result<Revision, DocumentError>) -> Result<Revision, StoreError> {
    match result {
        Err(DocumentError::Store(error)) => Err(error),
        other => panic!("an error of the store, not {other:?}"),
    }
}

#[tokio::test]
async fn a_change_whose_response_is_lost_is_found() {
    let editors = Editors::of("document, response lost").await;
    let revision = editors.put_with(&[Fault::LoseResponse]).await.expect("found");
    assert_eq!((revision.version, revision.author.as_str()), (2, "two"));
    editors.assert_versions(&["two", "one"]).await;
}

#[tokio::test]
async fn a_change_that_is_lost_is_sent_again() {
    let editors = Editors::of("document, request lost").await;
    assert_eq!(editors.put_with(&[Fault::LoseRequest]).await.expect("sent again").version, 2);
    editors.assert_versions(&["two", "one"]).await;
}

/// The read does not find the change, which then arrives before the one that is sent in its place.
#[tokio::test]
async fn a_delayed_change_is_made_once() {
    let editors = Editors::of("document, request delayed").await;
    let faults = [Fault::DelayRequest, Fault::None, Fault::AfterDelayed];
    assert_eq!(editors.put_with(&faults).await.expect("found").version, 2);
    editors.assert_versions(&["two", "one"]).await;
}

#[tokio::test]
async fn a_change_is_found_behind_those_of_others() {
    let editors = Editors::of("document, response lost, others").await;
    let others = async {
        editors.proxy.lost().await;
        // The response is lost, but the change may still be in progress.
        let mut expected = 2;
        while expected < 30 {
            match editors.put(&editors.direct, "other", Some(expected)).await {
                Ok(revision) => expected = revision.version,
                Err(DocumentError::Conflict { current: Some(1), .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let (result, ()) = tokio::join!(editors.put_with(&[Fault::LoseResponse]), others);
    assert_eq!(result.expect("found").version, 2);
    // Version 2 was made, and is not kept any more.
    editors.assert_versions(&["other"; 20]).await;
}

#[tokio::test]
async fn a_lost_change_is_a_conflict_if_another_editor_was_faster() {
    let editors = Editors::of("document, request lost, other").await;
    let other = async {
        editors.proxy.lost().await;
        editors.put(&editors.direct, "other", Some(1)).await.expect("nobody else has changed it");
    };
    let (result, ()) = tokio::join!(editors.put_with(&[Fault::LoseRequest]), other);
    let error = result.expect_err("a conflict");
    assert!(matches!(error, DocumentError::Conflict { expected: Some(1), current: Some(2) }), "{error:?}");
    editors.assert_versions(&["other", "one"]).await;
}

#[tokio::test]
async fn too_many_later_changes_make_the_effect_unknown() {
    let editors = Editors::of("document, many later changes").await;
    let others = async {
        editors.proxy.lost().await;
        // One more than a head names.
        for version in 1..=33 {
            editors.put(&editors.direct, "other", Some(version)).await.expect("nobody else changes it");
        }
    };
    let (result, ()) = tokio::join!(editors.put_with(&[Fault::LoseRequest]), others);
    let unknown = (ErrorKind::Timeout, Effect::Unknown);
    assert_error(store_error(result), unknown, &["did not answer in time", "may have taken effect"]);
    editors.assert_versions(&["other"; 20]).await;
}

#[tokio::test]
async fn without_responses_a_change_ends_at_its_timeout() {
    let editors = Editors::of("document, no responses").await;
    let result = editors.put_with(&[Fault::LoseResponse, Fault::LoseResponse]).await;
    assert_error(store_error(result), (ErrorKind::Timeout, Effect::Unknown), &["may have taken effect"]);
    editors.assert_versions(&["two", "one"]).await;
}

/// What is written before the transaction is not a change yet.
#[tokio::test]
async fn without_a_transaction_nothing_has_changed() {
    let editors = Editors::of("document, no text").await;
    editors.proxy.inject(&[Fault::None, Fault::LoseResponse, Fault::LoseResponse]);
    editors.proxy.inject(&[Fault::LoseResponse, Fault::LoseResponse]);
    let result = editors.put(&editors.proxied, "two", Some(1)).await;
    assert_error(store_error(result), (ErrorKind::Timeout, Effect::None), &["did not answer in time"]);
    editors.assert_versions(&["one"]).await;
    assert_eq!(editors.put(&editors.direct, "next", Some(1)).await.expect("not blocked").version, 2);
    editors.assert_versions(&["next", "one"]).await;
}

#[tokio::test]
async fn a_connection_that_is_closed_instead_of_a_response_is_restored_to_find_out() {
    let editors = Editors::of("document, connection closed").await;
    assert_eq!(editors.put_with(&[Fault::CloseConnection]).await.expect("found").version, 2);
    editors.assert_versions(&["two", "one"]).await;
}

/// Whoever reads a text while later changes drop its version gets the current one.
#[tokio::test]
async fn a_version_that_is_dropped_while_it_is_read_is_replaced_by_the_current_one() {
    let editors = Editors::of("document, dropped").await;
    editors.proxy.inject(&[Fault::None, Fault::LoseRequest]);
    let others = async {
        editors.proxy.lost().await;
        for version in 1..=20 {
            editors.put(&editors.direct, "other", Some(version)).await.expect("nobody else changes it");
        }
    };
    let (document, ()) = tokio::join!(in_time(editors.proxied.get(editors.name)), others);
    let document = document.expect("an answer").expect("a document");
    assert_eq!((document.text.as_str(), document.revision.version), ("other", 21));
}
