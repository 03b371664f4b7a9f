//! A proxy between a store and its node that loses or delays requests and responses.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

use crate::cassandra::Cassandra;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is executed and answered.
    None,
    /// It is executed, and the response is lost.
    LoseResponse,
    /// It does not reach the node.
    LoseRequest,
    /// It reaches the node right before the next [`AfterDelayed`](Self::AfterDelayed) request, and the response is
    /// lost.
    DelayRequest,
    /// It is executed after the [`DelayRequest`](Self::DelayRequest) one.
    AfterDelayed,
    /// It is executed, and the connection is closed instead of a response.
    CloseConnection,
}

/// A proxy in front of one node. Dropping it stops it.
#[derive(Debug)]
pub struct CassandraProxy {
    address: SocketAddr,
    node: SocketAddr,
    state: Arc<ProxyState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct ProxyState {
    /// Only requests that contain this key are affected, not the driver's own.
    key: Vec<u8>,
    faults: Mutex<VecDeque<Fault>>,
    /// A request or a response was lost.
    lost: Notify,
    /// A response that is not forwarded has arrived.
    arrived: Notify,
    /// Closes all connections.
    close: broadcast::Sender<()>,
}

impl CassandraProxy {
    /// Starts a proxy for requests about a key.
    pub async fn to(node: &Cassandra, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a port");
        let state = Arc::new(ProxyState {
            key: key.as_bytes().to_vec(),
            faults: Mutex::default(),
            lost: Notify::new(),
            arrived: Notify::new(),
            close: broadcast::channel(1).0,
        });
        let node: SocketAddr = node.address().parse().expect("an address");
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(node).await else { continue };
                tokio::spawn(forward(client, server, Arc::clone(&shared)));
            }
        });
        Self { address, node, state, task }
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the node.
    pub fn node(&self) -> SocketAddr {
        self.node
    }

    /// Sets what happens to the next requests.
    pub fn inject(&self, faults: &[Fault]) {
        self.faults().extend(faults);
    }

    /// Returns whether all faults have happened.
    pub fn is_done(&self) -> bool {
        self.faults().is_empty()
    }

    /// Waits until a request or a response has been lost.
    pub async fn lost(&self) {
        self.state.lost.notified().await;
    }

    fn faults(&self) -> MutexGuard<'_, VecDeque<Fault>> {
        self.state.faults.lock().expect("no panic")
    }
}

impl Drop for CassandraProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A frame of the native protocol: a header of nine bytes, which contains the length of the body, and the body.
struct Frame(Vec<u8>);

impl Frame {
    const EXECUTE: u8 = 0x0a;
    const BATCH: u8 = 0x0d;

    async fn read(from: &mut OwnedReadHalf) -> Option<Self> {
        let mut bytes = vec![0; 9];
        from.read_exact(&mut bytes).await.ok()?;
        let length = u32::from_be_bytes(bytes[5..].try_into().expect("four bytes"));
        bytes.resize(9 + length as usize, 0);
        from.read_exact(&mut bytes[9..]).await.ok()?;
        Some(Self(bytes))
    }

    /// The stream id, which a request and its response share.
    fn stream(&self) -> [u8; 2] {
        [self.0[2], self.0[3]]
    }

    fn is_about(&self, key: &[u8]) -> bool {
        matches!(self.0[4], Self::EXECUTE | Self::BATCH) && self.0.windows(key.len()).any(|part| part == key)
    }
}

/// The streams whose responses are not forwarded.
type Suppressed = Mutex<HashSet<[u8; 2]>>;

async fn forward(client: TcpStream, server: TcpStream, state: Arc<ProxyState>) {
    let mut close = state.close.subscribe();
    let (requests, to_client) = client.into_split();
    let (responses, to_server) = server.into_split();
    let suppressed = Suppressed::default();
    tokio::select! {
        () = forward_requests(requests, to_server, &suppressed, &state) => {}
        () = forward_responses(responses, to_client, &suppressed, &state) => {}
        _ = close.recv() => {}
    }
}

async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    suppressed: &Suppressed,
    state: &ProxyState,
) {
    let mut delayed = Vec::new();
    while let Some(frame) = Frame::read(&mut from).await {
        let fault = if frame.is_about(&state.key) {
            state.faults.lock().expect("no panic").pop_front()
        } else {
            None
        };
        match fault.unwrap_or(Fault::None) {
            Fault::None => {}
            Fault::LoseResponse | Fault::CloseConnection => {
                suppressed.lock().expect("no panic").insert(frame.stream());
                if fault == Some(Fault::LoseResponse) {
                    state.lost.notify_one();
                }
            }
            Fault::LoseRequest => {
                state.lost.notify_one();
                continue;
            }
            Fault::DelayRequest => {
                suppressed.lock().expect("no panic").insert(frame.stream());
                delayed = frame.0;
                continue;
            }
            Fault::AfterDelayed => {
                if to.write_all(&delayed).await.is_err() {
                    return;
                }
                state.arrived.notified().await;
            }
        }
        if to.write_all(&frame.0).await.is_err() {
            return;
        }
        if fault == Some(Fault::CloseConnection) {
            state.arrived.notified().await;
            let _ = state.close.send(());
        }
    }
}

async fn forward_responses(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    suppressed: &Suppressed,
    state: &ProxyState,
) {
    while let Some(frame) = Frame::read(&mut from).await {
        if suppressed.lock().expect("no panic").remove(&frame.stream()) {
            state.arrived.notify_one();
        } else if to.write_all(&frame.0).await.is_err() {
            return;
        }
    }
}
