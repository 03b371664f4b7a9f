//! The conformance suites on one real Cassandra: a container, or the server at `TOLLGATE_TEST_CASSANDRA`.
//!
//! - `limits`: the suite of stores
//! - `documents`: the suite of document stores

mod documents;
mod limits;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use tokio::sync::OnceCell;
use tollgate_conformance::{document_trials, trials};
use tollgate_testkit::{Cassandra, QUICK};

/// The server of both suites.
struct Server {
    url: String,
    /// `None` if it is somebody else's: faults cannot be injected.
    node: Option<Cassandra>,
}

impl Server {
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        let start = async || {
            if let Ok(url) = std::env::var("TOLLGATE_TEST_CASSANDRA") {
                return Self { url, node: None };
            }
            let node = Cassandra::start_with(QUICK).await;
            Self { url: node.url(), node: Some(node) }
        };
        SHARED.get_or_init(start).await
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for the server more than they compute.
    arguments.test_threads.get_or_insert(8);
    let mut all = trials(limits::Cassandra::default());
    all.extend(document_trials(documents::Documents::default()));
    libtest_mimic::run(&arguments, all).exit_code()
}
