//! One Redis server.

use std::fmt;
use std::io::Result;
use std::path::Path;

use tokio::sync::OnceCell;

use crate::launch::{Launch, Server};
use crate::port;
use crate::wait::Deadline;
use crate::wire::{self, Reply};

/// Listens on loopback only and writes no files: replicas sync from memory to memory, without a delay.
const ALWAYS: &[[&str; 2]] = &[
    ["--bind", "127.0.0.1"],
    ["--protected-mode", "no"],
    ["--save", ""],
    ["--appendonly", "no"],
    ["--repl-diskless-sync", "yes"],
    ["--repl-diskless-sync-delay", "0"],
    ["--repl-diskless-load", "swapdb"],
];

/// A real Redis server without persistence. Dropping it ends the server.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    tls: bool,
    launch: Launch,
    server: Option<Server>,
}

/// Returns the URL of a Redis for a test suite: `TOLLGATE_TEST_REDIS`, or else that of a server that runs for as long
/// as this process.
pub async fn redis_url() -> String {
    static SHARED: OnceCell<Redis> = OnceCell::const_new();
    match std::env::var("TOLLGATE_TEST_REDIS") {
        Ok(url) => url,
        Err(_) => SHARED.get_or_init(async || Redis::start(&[]).await).await.url(),
    }
}

impl Redis {
    /// Starts a server and waits until it responds. Arguments are those of `redis-server`, such as
    /// `["--requirepass", "secret"]`. With `--tls-cert-file` it accepts only TLS.
    pub async fn start(arguments: &[&str]) -> Self {
        Self::with(None, arguments).await
    }

    /// Starts a server with access to a directory, under the same path: for certificates and other files.
    pub async fn start_with_files(directory: &Path, arguments: &[&str]) -> Self {
        Self::with(Some(directory), arguments).await
    }

    async fn with(files: Option<&Path>, arguments: &[&str]) -> Self {
        let port = port::free();
        let number = port.to_string();
        let tls = arguments.contains(&"--tls-cert-file");
        let listen: &[&str] =
            if tls { &["--port", "0", "--tls-port", &number] } else { &["--port", &number] };
        Self::launch(port, tls, files, [listen, ALWAYS.as_flattened(), arguments].concat()).await
    }

    /// Starts a server whose arguments make it listen on `port`.
    pub(crate) async fn launch(port: u16, tls: bool, files: Option<&Path>, arguments: Vec<&str>) -> Self {
        let launch = Launch {
            image: std::env::var("TOLLGATE_TEST_REDIS_IMAGE").unwrap_or_else(|_| "redis:7".to_owned()),
            program: "redis-server",
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            environment: Vec::new(),
            files: files.map(Path::to_owned),
        };
        let mut redis = Self { port, tls, launch, server: None };
        redis.start_again().await;
        redis
    }

    /// Returns its port on 127.0.0.1, the same after each start.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns `redis://127.0.0.1:port`, or `rediss://` with TLS.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "rediss" } else { "redis" }, self.address())
    }

    /// Returns whether it was started and not killed. A frozen server counts as running.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Kills it at once, without a shutdown that its clients would notice.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await;
        }
    }

    /// Starts it on the same port with the same arguments and no data. Kills it first if it is running.
    pub async fn start_again(&mut self) {
        self.kill().await;
        let deadline = Deadline::new("a server that responds");
        self.server = Some(self.launch.start(deadline, || self.responds()).await);
    }

    /// Sends a `PING`. An error is a response too, such as that a password is required.
    async fn responds(&self) -> bool {
        let commands: &[&[&str]] = if self.tls { &[] } else { &[&["PING"]] };
        wire::call(self.port, commands).await.is_ok()
    }

    /// Suspends it: connections stay open, and it does not respond until [`thaw`](Self::thaw).
    pub async fn freeze(&self) {
        self.running().freeze().await;
    }

    /// Resumes it after [`freeze`](Self::freeze).
    pub async fn thaw(&self) {
        self.running().thaw().await;
    }

    fn running(&self) -> &Server {
        self.server.as_ref().expect("the server was not killed")
    }

    /// Sends a command on a connection of its own. Panics if it fails. Not over TLS.
    pub async fn call(&self, command: &[&str]) -> Reply {
        match self.try_call(command).await {
            Ok(Reply::Error(error)) => panic!("{command:?} on {self}: {error}"),
            Ok(reply) => reply,
            Err(error) => panic!("{command:?} on {self}: {error}"),
        }
    }

    /// Sends a command on a connection of its own.
    pub async fn try_call(&self, command: &[&str]) -> Result<Reply> {
        self.try_calls(&[command]).await
    }

    /// Sends commands on one connection, such as `ASKING` and a `GET`. Returns the last reply.
    pub async fn try_calls(&self, commands: &[&[&str]]) -> Result<Reply> {
        wire::call(self.port, commands).await
    }
}

impl fmt::Display for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.launch, self.address())
    }
}
