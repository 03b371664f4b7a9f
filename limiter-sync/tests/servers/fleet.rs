//! Nodes around one Redis under constant load, and what they granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock, Timer};
use tollgate_limiter_sync::{Stats, Synced};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::limits;
use tollgate_testkit::until;

const NODES: u64 = 3;
const KEYS: usize = 300;
/// How many checks a caller makes in a row.
const CHECKS_IN_A_ROW: usize = 20;

/// What all callers share.
struct Granted {
    limits: [Limit; 3],
    keys: Vec<String>,
    /// By limit, then by key.
    counts: [Vec<AtomicU32>; 3],
    stop: AtomicBool,
}

pub(crate) struct Fleet {
    nodes: Vec<Arc<Synced<RedisStore>>>,
    granted: Arc<Granted>,
    callers: JoinSet<()>,
}

impl Fleet {
    /// Starts nodes that synchronize every 20 ms, and callers that check all the time.
    pub(crate) async fn start(redis: &Redis) -> Self {
        let counts = || (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        let granted = Arc::new(Granted {
            limits: [limits::bucket(2_160), limits::window(1_000_000), limits::counter(1_000_000)],
            keys: (0..KEYS).map(|number| format!("key {number}")).collect(),
            counts: [counts(), counts(), counts()],
            stop: AtomicBool::new(false),
        });
        let (mut nodes, mut callers) = (Vec::new(), JoinSet::new());
        for number in 0..NODES {
            let node = Synced::builder(connect(redis).await)
                .interval(Duration::from_millis(20))
                .build()
                .expect("valid");
            let node = Arc::new(node);
            callers.spawn(Arc::clone(&granted).call(Arc::clone(&node), Seed::new(number)));
            nodes.push(node);
        }
        Self { nodes, granted, callers }
    }

    /// Waits until every node has completed some more sync rounds.
    pub(crate) async fn until_synced(&self) {
        self.more("the central store answers", |stats| stats.sync_rounds, 3).await;
    }

    /// Waits until sync rounds of every node have failed, and the nodes have granted some more without them.
    pub(crate) async fn until_failed(&self) {
        let before = self.sum();
        self.more("the central store does not answer", |stats| stats.failed_rounds, 2).await;
        until("nodes grant locally", async || self.sum() >= before + 1_000).await;
    }

    async fn more(&self, what: &str, counter: fn(&Stats) -> u64, by: u64) {
        let read = || self.nodes.iter().map(|node| counter(&node.stats()));
        let before: Vec<_> = read().collect();
        until(what, async || read().zip(&before).all(|(now, before)| now >= before + by)).await;
    }

    fn sum(&self) -> u32 {
        self.granted.counts.iter().flatten().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Stops all callers, and compares key by key: nothing is lost, and nothing is applied twice.
    pub(crate) async fn assert_debited_exactly(self, redis: &Redis) {
        self.granted.stop.store(true, Ordering::SeqCst);
        self.callers.join_all().await;
        for node in &self.nodes {
            node.close(Duration::from_secs(60)).await.expect("the central store answers");
            let stats = node.stats();
            assert_eq!(
                (stats.pending, stats.decided_centrally),
                (0, 0),
                "everything was decided locally: {stats:?}"
            );
            assert!(stats.failed_rounds > 0 && stats.sync_rounds > 0, "there were failures: {stats:?}");
        }
        let (central, granted) = (connect(redis).await, self.granted);
        for (limit, counts) in granted.limits.iter().zip(&granted.counts) {
            let counts: Vec<_> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            assert!(counts.iter().all(|count| *count > 0), "every key was used: {counts:?}");
            assert_eq!(limits::debited(&central, limit, &granted.keys).await, counts, "{}", limit.name());
        }
    }
}

impl Granted {
    async fn call(self: Arc<Self>, node: Arc<Synced<RedisStore>>, mut random: Seed) {
        let clock = SystemClock::new();
        while !self.stop.load(Ordering::SeqCst) {
            for _ in 0..CHECKS_IN_A_ROW {
                let (which, number) = (index(&mut random, 3), index(&mut random, KEYS));
                let cost = 1 + u32::try_from(random.below(2)).expect("small");
                let charge = self.limits[which].charge(&self.keys[number]).with_cost(cost);
                let decision = node.decide_one(&charge, &clock).await.expect("decided locally");
                self.counts[which][number].fetch_add(decision.granted(), Ordering::SeqCst);
            }
            // Leaves time for the server and the sync tasks.
            clock.sleep(Duration::from_millis(2)).await;
        }
    }
}

fn index(random: &mut Seed, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("an index")
}

/// Connects with a short call timeout, so that answers get lost, and reconnects soon.
pub(crate) async fn connect(redis: &Redis) -> RedisStore {
    let millis = Duration::from_millis;
    let config = Config::new(redis.url()).call_timeout(millis(200));
    let config = config.reconnect_backoff(millis(10), millis(40)).require_reachable();
    config.connect().await.expect("a server")
}
