//! A writer whose connection ends while it sends a change: after each eighth of the call, and after all of it, before
//! the reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tollgate_conformance::KilledPut;
use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentError, DocumentStore, Revision};
use tollgate_store_redis::RedisDocuments;
use tollgate_testkit::Redis;

/// In how many parts the bytes of a call are sent.
const PARTS: usize = 8;
const AUTHOR: &str = "killed";
/// There is no limit yet.
const UNLIMITED: usize = usize::MAX;

/// Kills a writer after `steps` parts of its call. Returns false if the call has fewer.
pub(crate) async fn kill_writer(redis: &Redis, change: KilledPut<'_>, steps: usize) -> bool {
    if steps > PARTS {
        return false;
    }
    let relay = Relay::to(redis).await;
    let connecting = super::config(&relay.url).require_reachable().connect_documents();
    let writer = connecting.await.expect("a reachable server");
    // A call of nearly the same length on another document, which is not in any list of the trial.
    let other = format!("other-{}", change.name);
    let before = relay.sent.load(Ordering::SeqCst);
    put(&writer, KilledPut { name: &other, expected: None, ..change }).await.expect("a new document");
    let length = relay.sent.load(Ordering::SeqCst) - before;
    let allowed = if steps == PARTS { UNLIMITED } else { length * steps / PARTS };
    relay.end_after(allowed);
    let result = put(&writer, change).await;
    assert!(result.is_err(), "the reply is lost: {result:?}");
    let direct = RedisDocuments::connect(&redis.url()).await.expect("a store");
    let current = direct.get(change.name).await.expect("an answer").map(|document| document.revision.author);
    assert_eq!(
        current.as_deref() == Some(AUTHOR),
        steps == PARTS,
        "{current:?} after {steps} of {PARTS} parts"
    );
    true
}

async fn put(writer: &RedisDocuments, change: KilledPut<'_>) -> Result<Revision, DocumentError> {
    let by = Change::by(AUTHOR, Time::from_secs(1_790_000_000));
    writer.put(change.name, change.text, change.expected, &by).await
}

/// Forwards the bytes of a connection, until it ends after a given number, and no other connection is accepted.
struct Relay {
    url: String,
    /// How many bytes of calls were forwarded.
    sent: Arc<AtomicUsize>,
    /// How many bytes may still be forwarded.
    left: Arc<AtomicUsize>,
    /// Whether replies are not forwarded any more, and no connection is accepted.
    ended: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Relay {
    async fn to(redis: &Redis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("an address"));
        let (sent, left, ended) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(UNLIMITED)), Arc::default());
        let forwarding =
            (redis.address(), Arc::clone(&sent), Arc::clone(&left), Arc::<AtomicBool>::clone(&ended));
        let task = tokio::spawn(async move {
            let (address, sent, left, ended) = forwarding;
            while let Ok((client, _)) = listener.accept().await {
                if !ended.load(Ordering::SeqCst) {
                    let server = TcpStream::connect(&address).await.expect("a running server");
                    forward(client, server, &sent, &left, &ended).await;
                }
            }
        });
        Self { url, sent, left, ended, task }
    }

    /// Lets this many bytes pass, and no reply.
    fn end_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::SeqCst);
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    client: TcpStream,
    server: TcpStream,
    sent: &AtomicUsize,
    left: &AtomicUsize,
    ended: &AtomicBool,
) {
    let (mut calls, mut to_client) = client.into_split();
    let (mut replies, mut to_server) = server.into_split();
    let calls = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(length @ 1..) = calls.read(&mut bytes).await {
            let allowed = left.load(Ordering::SeqCst);
            if to_server.write_all(&bytes[..length.min(allowed)]).await.is_err() || allowed < length {
                break;
            }
            sent.fetch_add(length, Ordering::SeqCst);
            if allowed != UNLIMITED {
                left.store(allowed - length, Ordering::SeqCst);
            }
        }
    };
    let replies = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(length @ 1..) = replies.read(&mut bytes).await {
            if ended.load(Ordering::SeqCst) || to_client.write_all(&bytes[..length]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = calls => {}
        () = replies => {}
    }
}
