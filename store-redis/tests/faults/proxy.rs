//! Between a store and its server: forwards what is said, until it is told to keep an answer for itself, or everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tollgate_testkit::Redis;

/// A proxy in front of one server. Dropped, it is gone.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// The next answer is not passed on; its connection ends instead.
    swallow: AtomicBool,
    /// Ends all connections.
    cut: broadcast::Sender<()>,
    /// How many connections the store has open.
    open: AtomicUsize,
    /// How many it has made.
    made: AtomicUsize,
    /// Connections made before this many stay open, and nothing comes through them any more.
    silenced: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn to(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let shared = Arc::new(Shared {
            swallow: AtomicBool::new(false),
            cut: broadcast::channel(1).0,
            open: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            silenced: AtomicUsize::new(0),
        });
        let (all, address) = (Arc::clone(&shared), redis.address());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                let number = all.made.fetch_add(1, Ordering::SeqCst);
                all.open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forward(number, client, server, Arc::clone(&all)));
            }
        });
        Self { port, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The next call is executed, and its caller never hears of it: the connection ends instead.
    pub(crate) fn swallow_next_answer(&self) {
        self.shared.swallow.store(true, Ordering::SeqCst);
    }

    /// Whether an answer was swallowed since it was asked for.
    pub(crate) fn has_swallowed(&self) -> bool {
        !self.shared.swallow.load(Ordering::SeqCst)
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        let _ = self.shared.cut.send(());
    }

    /// As if the network had parted: the connections that there are stay open, and nothing comes through them any more,
    /// in either direction. New ones are fine.
    pub(crate) fn silence(&self) {
        self.shared.silenced.store(self.made(), Ordering::SeqCst);
    }

    /// How many connections the store has not closed on its side.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many connections the store has made.
    pub(crate) fn made(&self) -> usize {
        self.shared.made.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn is_silenced(&self, number: usize) -> bool {
        number < self.silenced.load(Ordering::SeqCst)
    }
}

async fn forward(number: usize, client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let (mut questions, mut to_client) = client.into_split();
    let (answers, to_server) = server.into_split();
    let asking = tokio::spawn(pass(number, questions, to_server, Arc::clone(&shared)));
    tokio::select! {
        () = answer(number, answers, &mut to_client, &shared) => {}
        _ = cut.recv() => {}
    }
    // Nothing more for the store; then it is waited for until it has hung up as well.
    let _ = to_client.shutdown().await;
    questions = asking.await.expect("the other half");
    drop(questions);
    shared.open.fetch_sub(1, Ordering::SeqCst);
}

/// Until the store hangs up.
async fn pass(
    number: usize,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
) -> OwnedReadHalf {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !shared.is_silenced(number) && to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    from
}

/// Until the server hangs up, or an answer is to be swallowed.
async fn answer(number: usize, mut from: OwnedReadHalf, to: &mut OwnedWriteHalf, shared: &Shared) {
    let mut bytes = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if shared.is_silenced(number) {
            continue;
        }
        if shared.swallow.swap(false, Ordering::SeqCst) || to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
}
