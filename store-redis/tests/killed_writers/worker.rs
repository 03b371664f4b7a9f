//! The process that is killed: it changes one document as fast as it can.

use std::io::Write;
use std::time::Duration;

use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentStore};
use tollgate_store_redis::Config;

/// The argument that starts a worker process.
pub(crate) const FLAG: &str = "--worker";
pub(crate) const NAME: &str = "rules/shop";

/// Returns whether a version is a deletion: every fifth is.
pub(crate) fn is_deletion(version: u64) -> bool {
    version.is_multiple_of(5)
}

/// Returns the text of a version: another one each time, and so large that sending it takes several writes.
pub(crate) fn text(version: u64) -> String {
    format!("{version} ").repeat(100_000)
}

pub(crate) async fn run(url: &str) {
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).require_reachable();
    let documents = config.connect_documents().await.expect("the parent's server");
    let history = documents.history(NAME).await.expect("a history");
    let mut version = history.first().map_or(0, |newest| newest.version);
    let change = Change::by("writer", Time::from_secs(1_790_000_000));
    loop {
        let expected = (version > 0 && !is_deletion(version)).then_some(version);
        let made = match expected {
            Some(expected) if is_deletion(version + 1) => documents.delete(NAME, expected, &change).await,
            _ => documents.put(NAME, &text(version + 1), expected, &change).await,
        };
        version = made.expect("the only writer").version;
        let mut output = std::io::stdout().lock();
        writeln!(output, "{version}").and_then(|()| output.flush()).expect("the parent reads");
    }
}
