//! Between a store and its node: forwards what is said, apart from what it was told to lose or to keep back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tollgate_store_cassandra::Config;
use tollgate_testkit::Cassandra;

use crate::expect::patient;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered.
    Answered,
    /// It is executed, and nobody hears of it.
    AnswerLost,
    /// It never gets to the node.
    Lost,
    /// It gets to the node just before the first that is [`Overtaken`](Self::Overtaken), and nobody hears of it.
    Delayed,
    /// It waits until one that was [`Delayed`](Self::Delayed) has been executed.
    Overtaken,
    /// It is executed, and the connection ends instead of an answer.
    HungUpOn,
}

/// A proxy in front of one node. Dropped, it is gone.
pub(crate) struct Proxy {
    address: SocketAddr,
    node: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// Calls with this in them have fates; others, such as the driver's own, are left alone.
    key: Vec<u8>,
    fates: Mutex<VecDeque<Fate>>,
    /// Something was lost, or the answer to what was delayed has come.
    lost: Notify,
    arrived: Notify,
    /// Ends all connections.
    hang_up: broadcast::Sender<()>,
}

impl Proxy {
    /// For calls about a key.
    pub(crate) async fn to(node: &Cassandra, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a port");
        let shared = Arc::new(Shared {
            key: key.as_bytes().to_vec(),
            fates: Mutex::default(),
            lost: Notify::new(),
            arrived: Notify::new(),
            hang_up: broadcast::channel(1).0,
        });
        let node: SocketAddr = node.address().parse().expect("an address");
        let all = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(node).await else { continue };
                tokio::spawn(forward(client, server, Arc::clone(&all)));
            }
        });
        Self { address, node, shared, task }
    }

    /// A store that finds the node here, whatever the node says about where it is.
    pub(crate) fn config(&self) -> Config {
        // It expects the node on the port that it was told to begin with.
        let expected = SocketAddr::new(self.node.ip(), self.address.port());
        let addresses = Arc::new(HashMap::from([(self.node, self.address), (expected, self.address)]));
        patient(&format!("cassandra://{}", self.address))
            .session(move |session| session.address_translator(addresses.clone()))
    }

    /// What becomes of the next calls.
    pub(crate) fn next(&self, fates: &[Fate]) {
        self.fates().extend(fates);
    }

    /// Whether all of that has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.fates().is_empty()
    }

    /// When a call or an answer has been lost that nobody has asked about here.
    pub(crate) async fn has_lost(&self) {
        self.shared.lost.notified().await;
    }

    fn fates(&self) -> MutexGuard<'_, VecDeque<Fate>> {
        self.shared.fates.lock().expect("no panic")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A message as it is on the wire: nine bytes that say what it is, and how long what follows.
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

    /// What a question and its answer have in common.
    fn stream(&self) -> [u8; 2] {
        [self.0[2], self.0[3]]
    }

    fn is_about(&self, key: &[u8]) -> bool {
        matches!(self.0[4], Self::EXECUTE | Self::BATCH) && self.0.windows(key.len()).any(|part| part == key)
    }
}

/// The answers that are not passed on, by their streams.
type Unheard = Mutex<HashSet<[u8; 2]>>;

async fn forward(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let mut hang_up = shared.hang_up.subscribe();
    let (questions, to_client) = client.into_split();
    let (answers, to_server) = server.into_split();
    let unheard = Unheard::default();
    tokio::select! {
        () = ask(questions, to_server, &unheard, &shared) => {}
        () = answer(answers, to_client, &unheard, &shared) => {}
        _ = hang_up.recv() => {}
    }
}

async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, unheard: &Unheard, shared: &Shared) {
    let mut delayed = Vec::new();
    while let Some(frame) = Frame::read(&mut from).await {
        let fate = if frame.is_about(&shared.key) {
            shared.fates.lock().expect("no panic").pop_front()
        } else {
            None
        };
        match fate.unwrap_or(Fate::Answered) {
            Fate::Answered => {}
            Fate::AnswerLost | Fate::HungUpOn => {
                unheard.lock().expect("no panic").insert(frame.stream());
                if fate == Some(Fate::AnswerLost) {
                    shared.lost.notify_one();
                }
            }
            Fate::Lost => {
                shared.lost.notify_one();
                continue;
            }
            Fate::Delayed => {
                unheard.lock().expect("no panic").insert(frame.stream());
                delayed = frame.0;
                continue;
            }
            Fate::Overtaken => {
                if to.write_all(&delayed).await.is_err() {
                    return;
                }
                shared.arrived.notified().await;
            }
        }
        if to.write_all(&frame.0).await.is_err() {
            return;
        }
        if fate == Some(Fate::HungUpOn) {
            shared.arrived.notified().await;
            let _ = shared.hang_up.send(());
        }
    }
}

async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, unheard: &Unheard, shared: &Shared) {
    while let Some(frame) = Frame::read(&mut from).await {
        if unheard.lock().expect("no panic").remove(&frame.stream()) {
            shared.arrived.notify_one();
        } else if to.write_all(&frame.0).await.is_err() {
            return;
        }
    }
}
