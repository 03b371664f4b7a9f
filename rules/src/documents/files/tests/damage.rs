//! Files that a store did not write, and files that were damaged.

use std::fs;

use tempfile::TempDir;
use tollgate_core::documents::{Change, DocumentError, DocumentStore};
use tollgate_core::{ErrorKind, Time};

use super::processes::open;

#[tokio::test]
async fn files_of_others_are_ignored() {
    let directory = TempDir::new().expect("a directory");
    let store = open(directory.path());
    let change = Change::by("ada", Time::EPOCH);
    store.put("rules", "text", None, &change).await.expect("a version");
    let continued = format!("{}+", "a".repeat(140));
    for (file, text) in [
        ("README", "text"),
        (".git=", ""),
        ("file=", ""),
        (continued.as_str(), ""),
        ("rules=/1-x", "text"),
        ("rules=/notes", "text"),
        ("rules=/99999999999999999999-x", ""),
    ] {
        fs::write(directory.path().join(file), text).expect("a file");
    }
    for name in ["lost+found", "Rules=", "rules=/5-a", "rules=/18446744073709551615-b", "%zz="] {
        fs::create_dir(directory.path().join(name)).expect("a directory");
    }
    assert_eq!(store.list("").await.expect("a list"), [("rules".to_owned(), 1)]);
    assert_eq!(store.get("file").await.expect("no document"), None);
    store.put("rules", "next", Some(1), &change).await.expect("a version");
    assert_eq!(store.list("").await.expect("a list"), [("rules".to_owned(), 2)]);
}

/// The error names the file, and nothing of it is half read.
#[tokio::test]
async fn damaged_versions_are_errors() {
    for (damaged, problem) in [
        ("no JSON\ntext", "its first line"),
        ("{}\ntext", "its first line"),
        (
            r#"{"version":1,"author":"a","time":0,"comment":"","deleted":false,"size":9,"successor":"x"}"#,
            "size",
        ),
        ("cut", "size"),
        ("longer", "size"),
    ] {
        let directory = TempDir::new().expect("a directory");
        let store = open(directory.path());
        store.put("rules", "text", None, &Change::by("ada", Time::EPOCH)).await.expect("a version");
        let path = directory.path().join("rules=/version-1");
        let written = fs::read_to_string(&path).expect("the version");
        let damaged = match damaged {
            "cut" => written[..written.len() - 1].to_owned(),
            "longer" => format!("{written}t"),
            text if text.starts_with(r#"{"version""#) => written.replace("\"size\":4", "\"size\":9"),
            text => text.to_owned(),
        };
        fs::write(&path, damaged).expect("the version");
        let error = store.get("rules").await.expect_err("a damaged version");
        let message = error.to_string();
        assert!(message.contains("version-1") && message.contains(problem), "{message}");
        assert!(matches!(error, DocumentError::Store(error) if error.kind() == ErrorKind::Corrupt));
    }
}

/// Without a runtime, the file work is done by the caller's own thread.
#[test]
fn no_runtime_is_needed() {
    let directory = TempDir::new().expect("a directory");
    let store = open(directory.path());
    let waker = std::task::Waker::noop();
    let change = Change::by("ada", Time::EPOCH);
    let mut put = store.put("rules", "text", None, &change);
    let put = put.as_mut().poll(&mut std::task::Context::from_waker(waker));
    assert!(matches!(put, std::task::Poll::Ready(Ok(revision)) if revision.version == 1));
}
