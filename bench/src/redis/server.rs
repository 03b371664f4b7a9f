//! The Redis server: one that is started for the run, or one at a given URL.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, cmd};
use tempfile::TempDir;

use super::subject::{Failure, Place};
use crate::crowding;

/// The prefix of all namespaces.
const NAMESPACE: &str = "tollgate-bench";
/// How often a started server is pinged until it answers.
const ATTEMPTS: u32 = 250;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

pub struct Server {
    url: String,
    own: Option<Own>,
}

/// A server process that is killed on drop.
struct Own {
    process: Child,
    /// Its files, deleted after it has ended.
    _files: TempDir,
}

impl Drop for Own {
    fn drop(&mut self) {
        // It has nothing to save. An error means that it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a process does not signal that it is ready")]
fn pause() {
    thread::sleep(BETWEEN_ATTEMPTS);
}

/// Opens a connection with a response timeout that is met on a busy machine, too. Its cost does not depend on its
/// length.
pub async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    let connected = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| format!("{url} cannot be reached: {error}").into())
}

impl Server {
    /// Connects to the server at `url`, or starts one.
    pub async fn open(url: Option<String>) -> Result<Self, Failure> {
        let Some(url) = url else { return Self::start(&[]).await };
        let server = Self { url, own: None };
        server.ping().await?;
        Ok(server)
    }

    /// Starts a cluster of one node, which serves all slots.
    pub async fn start_cluster() -> Result<Self, Failure> {
        let server = Self::start(&["--cluster-enabled", "yes"]).await?;
        let mut connection = server.connect().await?;
        cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec_async(&mut connection).await?;
        for _ in 0..ATTEMPTS {
            let info: String = cmd("CLUSTER").arg("INFO").query_async(&mut connection).await?;
            if info.contains("cluster_state:ok") {
                return Ok(server);
            }
            pause();
        }
        Err("the cluster does not serve its slots".into())
    }

    async fn start(arguments: &[&str]) -> Result<Self, Failure> {
        // Another process could take the port before the server does; that is unlikely enough.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
        let files = tempfile::tempdir()?;
        let process = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
            .arg(files.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    "redis-server is not installed (most systems have a package `redis-server` \
                     or `redis`): install it, or name a running server with --server redis://HOST:PORT"
                        .to_owned()
                }
                _ => format!("cannot start redis-server: {error}"),
            })?;
        let own = Own { process, _files: files };
        let server = Self { url: format!("redis://127.0.0.1:{port}"), own: Some(own) };
        server.wait_until_ready().await?;
        Ok(server)
    }

    async fn wait_until_ready(&self) -> Result<(), Failure> {
        let mut reply = self.ping().await;
        for _ in 0..ATTEMPTS {
            if reply.is_ok() {
                break;
            }
            pause();
            reply = self.ping().await;
        }
        reply
    }

    async fn ping(&self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        let pong = cmd("PING").query_async(&mut connection).await;
        pong.map_err(|error| format!("{} does not answer: {error}", self.url).into())
    }

    pub async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        connect(&self.url).await
    }

    /// Returns the URL and a namespace for the `index`th subject.
    pub fn place(&self, index: usize) -> Place {
        Place { url: self.url.clone(), namespace: format!("{NAMESPACE}-{index:02}") }
    }

    /// Returns how long the server has waited for a processor so far. Zero if it was not started by this process.
    pub fn waited(&self) -> Duration {
        self.own.as_ref().map_or(Duration::ZERO, |own| crowding::waited_by(own.process.id()))
    }

    /// Removes the keys of the run.
    pub async fn clean(&self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        if self.own.is_some() {
            // Not in the background, where it would disturb what is measured next.
            return Ok(cmd("FLUSHALL").arg("SYNC").exec_async(&mut connection).await?);
        }
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("*{NAMESPACE}-*")).arg("COUNT").arg(1_000);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
            if !keys.is_empty() {
                cmd("UNLINK").arg(keys).exec_async(&mut connection).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}
