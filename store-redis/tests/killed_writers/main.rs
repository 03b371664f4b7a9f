//! Processes that are killed while they change documents. Every version that a process has reported is there, at most
//! one more is, and each is there in full: text, revision, history and list agree.
//!
//! The test starts itself again. That process ([`worker`]) puts, deletes and creates a document as fast as it can, and
//! prints each version that it has made. The parent kills it after some lines, checks the document, and starts the next
//! process, until the document has been through many kills.

mod worker;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tollgate_conformance::Seed;
use tollgate_core::documents::DocumentStore;
use tollgate_store_redis::RedisDocuments;
use tollgate_testkit::{Redis, until};

const KILLS: u64 = 30;

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url] = &arguments[..]
        && flag == worker::FLAG
    {
        runtime.block_on(worker::run(url));
        return ExitCode::SUCCESS;
    }
    let trial = Trial::test("killed_writers_leave_whole_changes", move || {
        runtime.block_on(kill_many());
        Ok::<(), Failed>(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

async fn kill_many() {
    let redis = Redis::start(&[]).await;
    let documents = RedisDocuments::connect(&redis.url()).await.expect("a store");
    let mut random = Seed::new(7);
    let mut current = 0;
    for kill in 0..KILLS {
        let mut writer = Writer::start(&redis.url());
        // While it makes a change, unless the scheduler is slow.
        for _ in 0..=random.below(12) {
            current = writer.version();
        }
        let reported = writer.kill().unwrap_or(current);
        // What the process had sent may be executed until the server has closed its connection.
        until("only this process is connected", async || {
            let clients = redis.call(&["INFO", "clients"]).await;
            clients.field("connected_clients").as_deref() == Some("2")
        })
        .await;
        current = check(&documents, reported).await;
        assert!(current <= reported + 1, "kill {kill}: version {current}, but {reported} was reported");
    }
    assert!(current > 2 * KILLS, "only {current} versions");
}

/// Checks that everything that can be read of the document agrees, and returns its newest version.
async fn check(documents: &RedisDocuments, reported: u64) -> u64 {
    let history = documents.history(worker::NAME).await.expect("a history");
    let newest = history.first().expect("a version").clone();
    assert!(
        newest.version >= reported,
        "version {reported} was reported, but {} is the newest",
        newest.version
    );
    assert!(history.windows(2).all(|pair| pair[0].version == pair[1].version + 1), "{history:?}");
    assert_eq!(history.len() as u64, newest.version.min(20), "{history:?}");
    for revision in &history {
        assert_eq!(revision.deleted, worker::is_deletion(revision.version), "{revision:?}");
        let version = documents.get_version(worker::NAME, revision.version).await.expect("an answer");
        let expected = (!revision.deleted).then(|| worker::text(revision.version));
        assert!(version.map(|document| document.text) == expected, "the text of {revision:?}");
    }
    let listed = documents.list("").await.expect("a list");
    let expected = (!newest.deleted).then(|| (worker::NAME.to_owned(), newest.version));
    assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
    let current = documents.get(worker::NAME).await.expect("an answer");
    assert_eq!(current.map(|document| document.revision), (!newest.deleted).then(|| newest.clone()));
    newest.version
}

/// This test, in a process of its own.
struct Writer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([worker::FLAG, url])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test again");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// Waits for the next version that it reports.
    fn version(&mut self) -> u64 {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim_end().parse().expect("a version: the writer has failed")
    }

    /// Kills it. Returns the last version that it has reported since, if any.
    fn kill(mut self) -> Option<u64> {
        self.child.kill().expect("a running process");
        self.child.wait().expect("a killed process");
        let lines = self.output.lines().map_while(Result::ok);
        lines.filter_map(|line| line.parse().ok()).last()
    }
}
