//! Tokens that several nodes lease from a real server: never more than the limit passes, and none is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::Store;
use tollgate_core::{Decision, Limit, SystemClock};
use tollgate_limiter_sync::{Mode, Synced};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::limits;

const NODES: usize = 4;
const TASKS: usize = 4;
const CAPACITY: u32 = 2_000;
/// How often a race is tried.
const ROUNDS: usize = 5;

type Node = Arc<Synced<RedisStore>>;

/// Nodes that use one key of one server.
struct Fleet {
    limit: Limit,
    key: String,
    central: RedisStore,
    nodes: Vec<Node>,
}

impl Fleet {
    async fn connect(redis: &Redis, limit: &Limit, round: usize) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let node = Synced::builder(connect(redis).await)
                .mode(Mode::Lease)
                .interval(Duration::from_millis(20))
                .build()
                .expect("valid");
            nodes.push(Arc::new(node));
        }
        let (limit, key) = (limit.clone(), format!("round {round}"));
        Self { limit, key, central: connect(redis).await, nodes }
    }

    /// Checks from several tasks of each node until `goal` have passed. Returns how many have, which may be a few more.
    async fn pass(&self, goal: u32) -> u32 {
        let passed = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        for node in self.nodes.iter().flat_map(|node| std::iter::repeat_n(node, TASKS)) {
            let (node, passed) = (Arc::clone(node), Arc::clone(&passed));
            let (limit, key) = (self.limit.clone(), self.key.clone());
            tasks.spawn(async move {
                while passed.load(Ordering::SeqCst) < goal {
                    passed.fetch_add(take(&node, &limit, &key).await.granted(), Ordering::SeqCst);
                    // Lets the server and the other tasks run.
                    tokio::task::yield_now().await;
                }
            });
        }
        tasks.join_all().await;
        passed.load(Ordering::SeqCst)
    }

    fn has_leased_tokens(&self) -> bool {
        self.nodes.iter().any(|node| node.stats().pending > 0)
    }

    async fn close(&self) {
        for node in &self.nodes {
            node.close(Duration::from_secs(60)).await.expect("the central store answers");
            assert_eq!(node.stats().pending, 0);
        }
    }

    async fn debited(&self) -> u32 {
        limits::debited(&self.central, &self.limit, std::slice::from_ref(&self.key)).await[0]
    }
}

async fn take(node: &Node, limit: &Limit, key: &str) -> Decision {
    node.decide_one(&limit.charge(key), &SystemClock::new()).await.expect("decided, locally or centrally")
}

async fn connect(redis: &Redis) -> RedisStore {
    // The machine may be busy: tokens whose answer is lost stay lost, so no call times out.
    let config = Config::new(redis.url()).call_timeout(Duration::from_secs(30)).require_reachable();
    config.connect().await.expect("a server")
}

fn limits() -> [Limit; 3] {
    [limits::bucket(CAPACITY), limits::window(CAPACITY), limits::counter(CAPACITY)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_limit_passes_and_no_more() {
    let redis = Redis::start(&[]).await;
    for limit in limits() {
        let fleet = Fleet::connect(&redis, &limit, 0).await;
        assert_eq!(fleet.pass(CAPACITY).await, CAPACITY, "{}", limit.name());
        for _ in 0..50 {
            for node in &fleet.nodes {
                assert!(take(node, &limit, &fleet.key).await.is_denied(), "{}", limit.name());
            }
        }
        fleet.close().await;
        assert_eq!(fleet.debited().await, CAPACITY, "{}", limit.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_tokens_are_returned() {
    let redis = Redis::start(&[]).await;
    for (limit, round) in limits().iter().flat_map(|limit| (0..ROUNDS).map(move |round| (limit, round))) {
        let fleet = Fleet::connect(&redis, limit, round).await;
        let mut passed = fleet.pass(CAPACITY / 2).await;
        // Otherwise there is nothing to return.
        while !fleet.has_leased_tokens() {
            assert!(passed < CAPACITY, "tokens are leased in advance");
            passed += fleet.pass(1).await;
        }
        fleet.close().await;
        assert_eq!(fleet.debited().await, passed, "{}, round {round}", limit.name());
    }
}
