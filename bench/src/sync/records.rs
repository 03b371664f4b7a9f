//! What a Redis Cluster keeps for a node besides the states: the idempotency records of its batches. A batch is one
//! slot, so a node with many keys sends thousands of them in a sync round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cmd;
use tokio::time::sleep;
use tollgate::Limit;
use tollgate::store::Store;
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;

use crate::keys::name;
use crate::measure::Plan;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::{Failure, Place};
use crate::redis::tollgate::connect;
use crate::report::{Finding, Findings};

pub const NODE: &str = "20 thousand keys on a cluster";
/// The most memory in use during sync rounds, less what is in use once the node is closed.
pub const BYTES: &str = "bytes";
/// Batches in a sync round. Each leaves a record until it is forgotten.
const BATCHES: &str = "batches/round";
/// The most records after a sync round.
const RECORDS: &str = "records";
const COLUMNS: [&str; 3] = [BATCHES, RECORDS, BYTES];

const KEYS: usize = 20_000;
const BETWEEN_SAMPLES: Duration = Duration::from_millis(2);

pub fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    race::block_on(async {
        eprintln!("idempotency records: measuring");
        let server = Server::start_cluster().await?;
        let mut control = server.connect().await?;
        let Place { url, namespace } = server.place(0);
        let store = connect(&Place { url: url.replace("redis://", "redis+cluster://"), namespace }).await?;
        let node = Synced::builder(store.clone()).manual().build()?;
        let (mut batches, mut records, mut most) = (0, 0, 0);
        // The first round creates the states.
        for round in 0..=plan.rounds {
            take_from_all(&node).await?;
            let (calls, peak) = (store.stats().calls, Peak::start(&server).await?);
            node.sync_now().await?;
            let used = peak.stop().await?;
            if round > 0 {
                batches = store.stats().calls - calls;
                records = records.max(count_records(&mut control).await?);
                most = most.max(used);
            }
        }
        node.close(Duration::from_secs(60)).await?;
        let bytes = most.saturating_sub(used_memory(&mut control).await?);
        for (column, count) in [(BATCHES, batches), (RECORDS, records), (BYTES, bytes)] {
            let value = f64::from(u32::try_from(count)?);
            findings.record(NODE, column.to_owned(), Finding::Figure { value, crowded: false });
        }
        Ok(())
    })
}

async fn take_from_all(node: &Synced<RedisStore>) -> Result<(), Failure> {
    let limit = Limit::per(1_000_000, Duration::from_secs(1_000)).build("api")?;
    for index in 0..KEYS {
        if node.decide_one(&limit.charge(&name(index)), node.clock()).await?.is_denied() {
            return Err("a check before a sync round was denied".into());
        }
    }
    Ok(())
}

async fn used_memory(control: &mut MultiplexedConnection) -> Result<u64, Failure> {
    let memory: String = cmd("INFO").arg("memory").query_async(control).await?;
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(used.ok_or("the server does not say how much memory it uses")?.trim().parse()?)
}

async fn count_records(control: &mut MultiplexedConnection) -> Result<u64, Failure> {
    let records: Vec<Vec<u8>> = cmd("KEYS").arg("*}:op~*").query_async(control).await?;
    Ok(records.len() as u64)
}

/// Looks at the memory in use again and again, and keeps the most.
struct Peak {
    stopped: Arc<AtomicBool>,
    samples: tokio::task::JoinHandle<Result<u64, String>>,
}

impl Peak {
    async fn start(server: &Server) -> Result<Self, Failure> {
        let (stopped, mut control) = (Arc::<AtomicBool>::default(), server.connect().await?);
        let stop = Arc::clone(&stopped);
        let samples = tokio::spawn(async move {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                most = most.max(used_memory(&mut control).await.map_err(|error| error.to_string())?);
                sleep(BETWEEN_SAMPLES).await;
            }
            Ok(most)
        });
        Ok(Self { stopped, samples })
    }

    async fn stop(self) -> Result<u64, Failure> {
        self.stopped.store(true, Ordering::Relaxed);
        Ok(self.samples.await??)
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(&[NODE], &COLUMNS.map(|column| (column, vec![column.to_owned()])));
}
