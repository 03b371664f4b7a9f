//! Some nodes around one Redis, whose callers never stop asking, and what they were granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock, Timer};
use tollgate_limiter_sync::{Insight, Synced};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::patience::until;
use crate::slow;

const NODES: u64 = 3;
const KEYS: usize = 300;
/// What a caller asks for in one go.
const AT_A_TIME: usize = 20;

/// What all callers of all nodes share.
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
    /// Nodes that exchange all the time, with callers at work.
    pub(crate) async fn at_work(redis: &Redis) -> Self {
        let counts = || (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        let granted = Arc::new(Granted {
            limits: [slow::bucket(2_160), slow::window(1_000_000), slow::counter(1_000_000)],
            keys: (0..KEYS).map(|number| format!("key {number}")).collect(),
            counts: [counts(), counts(), counts()],
            stop: AtomicBool::new(false),
        });
        let (mut nodes, mut callers) = (Vec::new(), JoinSet::new());
        for number in 0..NODES {
            let node = Arc::new(Synced::new(connect(redis).await).every(Duration::from_millis(20)));
            callers.spawn(Arc::clone(&granted).call(Arc::clone(&node), Seed::new(number)));
            nodes.push(node);
        }
        Self { nodes, granted, callers }
    }

    /// Until every node has exchanged some more.
    pub(crate) async fn until_exchanged(&self) {
        self.more("the centre answers", |insight| insight.exchanges, 3).await;
    }

    /// Until every node has tried in vain, and has granted some more all the same.
    pub(crate) async fn until_failed(&self) {
        let before = self.sum();
        self.more("the centre does not answer", |insight| insight.failed, 2).await;
        until("nodes grant by themselves", async || self.sum() >= before + 1_000).await;
    }

    async fn more(&self, what: &str, counter: fn(&Insight) -> u64, by: u64) {
        let read = || self.nodes.iter().map(|node| counter(&node.insight()));
        let before: Vec<_> = read().collect();
        until(what, async || read().zip(&before).all(|(now, before)| now >= before + by)).await;
    }

    fn sum(&self) -> u32 {
        self.granted.counts.iter().flatten().map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Stops everybody, and compares key by key: nothing is lost, and nothing is booked twice.
    pub(crate) async fn booked_exactly(self, redis: &Redis) {
        self.granted.stop.store(true, Ordering::SeqCst);
        self.callers.join_all().await;
        for node in &self.nodes {
            node.close(Duration::from_secs(60)).await.expect("the centre is there");
            let insight = node.insight();
            assert_eq!((insight.owing, insight.at_centre), (0, 0), "all of it was decided here: {insight:?}");
            assert!(insight.failed > 0 && insight.exchanges > 0, "what this is about: {insight:?}");
        }
        let (centre, granted) = (connect(redis).await, self.granted);
        for (limit, counts) in granted.limits.iter().zip(&granted.counts) {
            let counts: Vec<_> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            assert!(counts.iter().all(|count| *count > 0), "every key was used: {counts:?}");
            assert_eq!(slow::booked(&centre, limit, &granted.keys).await, counts, "{}", limit.name());
        }
    }
}

impl Granted {
    async fn call(self: Arc<Self>, node: Arc<Synced<RedisStore>>, mut random: Seed) {
        let clock = SystemClock::new();
        while !self.stop.load(Ordering::SeqCst) {
            for _ in 0..AT_A_TIME {
                let (which, number) = (index(&mut random, 3), index(&mut random, KEYS));
                let cost = 1 + u32::try_from(random.below(2)).expect("small");
                let charge = self.limits[which].charge(&self.keys[number]).with_cost(cost);
                let decision = node.decide_one(&charge, &clock).await.expect("decided here");
                self.counts[which][number].fetch_add(decision.granted(), Ordering::SeqCst);
            }
            // Callers have other things to do as well, and so has the machine.
            clock.sleep(Duration::from_millis(2)).await;
        }
    }
}

fn index(random: &mut Seed, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("an index")
}

/// Gives up calls soon, so that there are some without an answer, and comes back soon.
pub(crate) async fn connect(redis: &Redis) -> RedisStore {
    let millis = Duration::from_millis;
    let config = Config::new(redis.url()).call_timeout(millis(200));
    let config = config.reconnect_backoff(millis(10), millis(40)).must_be_there();
    config.connect().await.expect("a server")
}
