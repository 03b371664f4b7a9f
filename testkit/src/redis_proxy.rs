//! A proxy between a store and its server, which drops replies or whole connections on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::redis::Redis;

/// A proxy in front of one server. Stops when it is dropped.
#[derive(Debug)]
pub struct RedisProxy {
    port: u16,
    state: Arc<ProxyState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct ProxyState {
    /// The next reply is not forwarded; its connection is closed instead.
    drop_reply: AtomicBool,
    /// Closes all connections.
    cut: broadcast::Sender<()>,
    /// The number of connections that the store has open.
    open: AtomicUsize,
    /// The number of connections that were accepted.
    accepted: AtomicUsize,
    /// Connections with a lower number stay open and forward nothing.
    silenced: AtomicUsize,
}

impl RedisProxy {
    /// Starts a proxy in front of a server.
    pub async fn to(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let state = Arc::new(ProxyState {
            drop_reply: AtomicBool::new(false),
            cut: broadcast::channel(1).0,
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            silenced: AtomicUsize::new(0),
        });
        let (accepting, address) = (Arc::clone(&state), redis.address());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                let number = accepting.accepted.fetch_add(1, Ordering::SeqCst);
                accepting.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(number, client, server, Arc::clone(&accepting)));
            }
        });
        Self { port, state, task }
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Closes the connection instead of forwarding the next reply. The call is executed.
    pub fn drop_next_reply(&self) {
        self.state.drop_reply.store(true, Ordering::SeqCst);
    }

    /// Returns whether the reply was dropped.
    pub fn has_dropped(&self) -> bool {
        !self.state.drop_reply.load(Ordering::SeqCst)
    }

    /// Closes all connections.
    pub fn cut(&self) {
        let _ = self.state.cut.send(());
    }

    /// Simulates a network partition: existing connections stay open and forward nothing in either direction. New
    /// connections work.
    pub fn silence(&self) {
        self.state.silenced.store(self.accepted(), Ordering::SeqCst);
    }

    /// Returns the number of connections that the store has not closed.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that the store has opened.
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for RedisProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProxyState {
    fn is_silenced(&self, number: usize) -> bool {
        number < self.silenced.load(Ordering::SeqCst)
    }
}

async fn forward(number: usize, client: TcpStream, server: TcpStream, state: Arc<ProxyState>) {
    let mut cut = state.cut.subscribe();
    let (mut requests, mut to_client) = client.into_split();
    let (replies, to_server) = server.into_split();
    let forwarding = tokio::spawn(forward_requests(number, requests, to_server, Arc::clone(&state)));
    tokio::select! {
        () = forward_replies(number, replies, &mut to_client, &state) => {}
        _ = cut.recv() => {}
    }
    // Close this side, and wait until the store has closed its side.
    let _ = to_client.shutdown().await;
    requests = forwarding.await.expect("the other half");
    drop(requests);
    state.open.fetch_sub(1, Ordering::SeqCst);
}

/// Forwards requests until the store closes the connection.
async fn forward_requests(
    number: usize,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: Arc<ProxyState>,
) -> OwnedReadHalf {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !state.is_silenced(number) && to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    from
}

/// Forwards replies until the server closes the connection, or a reply is to be dropped.
async fn forward_replies(
    number: usize,
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    state: &ProxyState,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if state.is_silenced(number) {
            continue;
        }
        if state.drop_reply.swap(false, Ordering::SeqCst) || to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
}
