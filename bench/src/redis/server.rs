//! The Redis server: one of the bench's own for the length of a run, or one that it was told of.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, cmd};

use super::subject::{Failure, Place};
use crate::crowding;

/// What all namespaces begin with.
const NAMESPACE: &str = "tollgate-bench";
/// How often a server that has just been started is asked whether it is there.
const ATTEMPTS: u32 = 250;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

pub struct Server {
    url: String,
    own: Option<Own>,
}

/// A server process that ends with this value, whatever else happens.
struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        // It has nothing to save. There is nobody to tell if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// The server at `url`, or a new one.
    pub async fn reach(url: Option<String>) -> Result<Self, Failure> {
        let Some(url) = url else { return Self::start().await };
        let server = Self { url, own: None };
        server.ping().await?;
        Ok(server)
    }

    async fn start() -> Result<Self, Failure> {
        // The port is free for whoever asks next; that nobody else does is likely enough.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    "redis-server is not installed (most systems have a package `redis-server` \
                     or `redis`): install it, or name a running server with --server redis://HOST:PORT"
                        .to_owned()
                }
                _ => format!("redis-server does not start: {error}"),
            })?;
        let server = Self { url: format!("redis://127.0.0.1:{port}"), own: Some(Own(child)) };
        server.wait_until_there().await?;
        Ok(server)
    }

    #[expect(clippy::disallowed_methods, reason = "nothing tells when a process is ready")]
    async fn wait_until_there(&self) -> Result<(), Failure> {
        let mut answer = self.ping().await;
        for _ in 0..ATTEMPTS {
            if answer.is_ok() {
                break;
            }
            thread::sleep(BETWEEN_ATTEMPTS);
            answer = self.ping().await;
        }
        answer
    }

    async fn ping(&self) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        let pong = cmd("PING").query_async(&mut connection).await;
        pong.map_err(|error| format!("{} does not answer: {error}", self.url).into())
    }

    pub async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        let connected = Client::open(&*self.url)?.get_multiplexed_async_connection().await;
        connected.map_err(|error| format!("{} cannot be reached: {error}", self.url).into())
    }

    /// A place on this server for the `index`th subject.
    pub fn place(&self, index: usize) -> Place {
        Place { url: self.url.clone(), namespace: format!("{NAMESPACE}-{index:02}") }
    }

    /// How long the server has so far waited for a processor; zero if it is not ours, so that
    /// nothing is known of it.
    pub fn waited(&self) -> Duration {
        self.own.as_ref().map_or(Duration::ZERO, |own| crowding::waited_by(own.0.id()))
    }

    /// Removes what the run left behind. A server of our own takes it along anyway.
    pub async fn clean(&self) -> Result<(), Failure> {
        if self.own.is_some() {
            return Ok(());
        }
        let mut connection = self.connect().await?;
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
