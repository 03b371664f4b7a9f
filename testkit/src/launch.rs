//! Starts a server, in a container or as a process of this machine.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;

use crate::container::Container;
use crate::process::Process;
use crate::wait::Deadline;

/// How to start a server.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The image, with a tag.
    pub(crate) image: String,
    /// The program, which is on the path in the image and on this machine.
    pub(crate) program: &'static str,
    pub(crate) arguments: Vec<String>,
    /// Variables in addition to those of the image or of this process.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// A directory that the server sees under the same path.
    pub(crate) files: Option<PathBuf>,
}

/// A server that was started. Dropping it ends the server.
#[derive(Debug)]
pub(crate) enum Server {
    Container(Container),
    Process(Process),
}

impl Launch {
    /// Starts the server and waits until it responds.
    pub(crate) async fn start<A: Future<Output = bool>>(
        &self,
        deadline: Deadline,
        responds: impl Fn() -> A,
    ) -> Server {
        let server = self.start_without_waiting().await;
        while !responds().await {
            let failed = !server.is_running().await || !deadline.allows_another().await;
            assert!(!failed, "{self} does not respond\n{}", server.log().await);
        }
        // Otherwise another server responded on that port.
        assert!(server.is_running().await, "{self} has ended\n{}", server.log().await);
        server
    }

    async fn start_without_waiting(&self) -> Server {
        match std::env::var("TOLLGATE_TEST_SERVERS").as_deref() {
            Ok("processes") => Server::Process(Process::start(self)),
            Ok("containers") | Err(_) => Server::Container(Container::start(self).await),
            Ok(other) => panic!("TOLLGATE_TEST_SERVERS is neither containers nor processes: {other}"),
        }
    }
}

impl Server {
    pub(crate) async fn is_running(&self) -> bool {
        match self {
            Self::Container(container) => container.is_running().await,
            Self::Process(process) => process.is_running(),
        }
    }

    /// Kills it, and returns when it has ended.
    pub(crate) async fn kill(self) {
        tokio::task::spawn_blocking(move || drop(self)).await.expect("the server is killed");
    }

    /// Suspends all its threads.
    pub(crate) async fn freeze(&self) {
        match self {
            Self::Container(container) => container.freeze().await,
            Self::Process(process) => process.signal("STOP"),
        }
    }

    pub(crate) async fn thaw(&self) {
        match self {
            Self::Container(container) => container.thaw().await,
            Self::Process(process) => process.signal("CONT"),
        }
    }

    /// Returns what it has printed.
    pub(crate) async fn log(&self) -> String {
        let bytes = match self {
            Self::Container(container) => container.log().await,
            Self::Process(process) => process.log(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.program, self.arguments)
    }
}
