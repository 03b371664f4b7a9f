//! Real processes: this test program runs itself as a writer.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use tempfile::TempDir;
use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentError, DocumentStore};

use super::super::FileDocuments;
use super::super::steps::of_tests::abort_after;

/// The variable that makes this program a writer.
const WRITER: &str = "TOLLGATE_TEST_DOCUMENT_WRITER";
const HISTORY: usize = 3;

/// Creates a store on a directory.
pub(super) fn open(directory: &Path) -> FileDocuments {
    FileDocuments::open(directory).expect("a directory").with_history(HISTORY)
}

/// Starts a writer in a process of its own.
fn start(directory: &Path, task: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    Command::new(program)
        .args(["--exact", "documents::files::tests::processes::is_a_writer_if_started_as_one"])
        .env(WRITER, format!("{task}\n{}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

/// Puts a version in a process that is aborted after some steps. Returns whether it was.
pub(super) fn killed_put(
    directory: &Path,
    (name, text, expected): (&str, &str, Option<u64>),
    steps: usize,
) -> bool {
    let expected = expected.map_or(String::new(), |version| version.to_string());
    let status = start(directory, &format!("put\n{steps}\n{name}\n{text}\n{expected}")).wait();
    is_killed(status.expect("a process that ends"))
}

/// Returns whether a process was aborted, and checks that it did not fail otherwise.
fn is_killed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    let is_aborted = std::os::unix::process::ExitStatusExt::signal(&status).is_some();
    #[cfg(not(unix))]
    let is_aborted = status.code() != Some(101) && !status.success();
    assert!(is_aborted || status.success(), "the writer failed: {status}");
    is_aborted
}

/// Does nothing, except in processes that other tests start.
#[tokio::test]
async fn is_a_writer_if_started_as_one() {
    let Ok(task) = std::env::var(WRITER) else {
        return;
    };
    let lines: Vec<_> = task.split('\n').collect();
    match lines[..] {
        ["put", steps, name, text, expected, directory] => {
            let (store, change) = (open(Path::new(directory)), Change::by("killed", Time::EPOCH));
            abort_after(steps.parse::<usize>().expect("a number") + 1);
            match store.put(name, text, expected.parse().ok(), &change).await {
                Ok(_) | Err(DocumentError::Conflict { .. }) => {}
                Err(error) => panic!("neither a version nor a conflict: {error}"),
            }
        }
        ["count", changes, directory] => {
            let store = open(Path::new(directory));
            for _ in 0..changes.parse().expect("a number") {
                add_one(&store).await;
            }
        }
        _ => panic!("no task: {task}"),
    }
}

/// Adds one to the number in a document, and repeats it on a conflict.
async fn add_one(store: &FileDocuments) {
    loop {
        let current = store.get("count").await.expect("a document, or none");
        let expected = current.as_ref().map(|document| document.revision.version);
        let number = current.map_or(0, |document| document.text.parse::<u64>().expect("a number"));
        let change = Change::by("counter", Time::EPOCH);
        match store.put("count", &(number + 1).to_string(), expected, &change).await {
            Ok(_) => return,
            Err(DocumentError::Conflict { .. }) => {}
            Err(error) => panic!("neither a version nor a conflict: {error}"),
        }
    }
}

/// Processes that count together lose no update, while others are killed at it.
#[tokio::test]
async fn processes_count_together() {
    let directory = TempDir::new().expect("a directory");
    let (counters, changes) = (3, 15);
    let store = open(directory.path());
    store.put("count", "0", None, &Change::by("counter", Time::EPOCH)).await.expect("the first version");
    let task = format!("count\n{changes}");
    let counting: Vec<_> = (0..counters).map(|_| start(directory.path(), &task)).collect();
    // Puts the current text, so that the count stays right also if it is killed after its version was made.
    let kill = async |steps| {
        let current = store.get("count").await.expect("a document, or none").expect("the count");
        killed_put(directory.path(), ("count", &current.text, Some(current.revision.version)), steps)
    };
    for steps in 0..12 {
        // Some of them are too late, and get a conflict instead.
        let _ = kill(steps).await;
    }
    for mut counter in counting {
        assert!(counter.wait().expect("a process that ends").success(), "a counter failed");
    }
    assert!(kill(3).await, "a writer without competitors is killed");
    let document = store.get("count").await.expect("a document").expect("the count");
    assert_eq!(document.text, (counters * changes).to_string());
}
