//! Tokens that several nodes lease from a real server: never more than the limit passes, and nothing gets lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::Store;
use tollgate_core::{Decision, Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::slow;

const NODES: usize = 4;
const TASKS: usize = 4;
const CAPACITY: u32 = 2_000;
/// How often what needs luck to go wrong is tried.
const ROUNDS: usize = 5;

type Node = Arc<Synced<RedisStore>>;

/// Everybody on one key of one server.
struct Crowd {
    limit: Limit,
    key: String,
    centre: RedisStore,
    nodes: Vec<Node>,
}

impl Crowd {
    async fn gather(redis: &Redis, limit: &Limit, round: usize) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let node = Synced::new(connect(redis).await).leasing().every(Duration::from_millis(20));
            nodes.push(Arc::new(node));
        }
        let (limit, key) = (limit.clone(), format!("round {round}"));
        Self { limit, key, centre: connect(redis).await, nodes }
    }

    /// Asks from several tasks of each node until so many have passed. How many have, which may be a few more.
    async fn pass(&self, goal: u32) -> u32 {
        let passed = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        for node in self.nodes.iter().flat_map(|node| std::iter::repeat_n(node, TASKS)) {
            let (node, passed) = (Arc::clone(node), Arc::clone(&passed));
            let (limit, key) = (self.limit.clone(), self.key.clone());
            tasks.spawn(async move {
                while passed.load(Ordering::SeqCst) < goal {
                    passed.fetch_add(take(&node, &limit, &key).await.granted(), Ordering::SeqCst);
                    // The server and the other tasks need a turn, too.
                    tokio::task::yield_now().await;
                }
            });
        }
        tasks.join_all().await;
        passed.load(Ordering::SeqCst)
    }

    fn holds_some(&self) -> bool {
        self.nodes.iter().any(|node| node.insight().owing > 0)
    }

    async fn close(&self) {
        for node in &self.nodes {
            node.close(Duration::from_secs(60)).await.expect("the centre is there");
            assert_eq!(node.insight().owing, 0);
        }
    }

    async fn booked(&self) -> u32 {
        slow::booked(&self.centre, &self.limit, std::slice::from_ref(&self.key)).await[0]
    }
}

async fn take(node: &Node, limit: &Limit, key: &str) -> Decision {
    node.decide_one(&limit.charge(key), &SystemClock::new()).await.expect("decided, here or at the centre")
}

async fn connect(redis: &Redis) -> RedisStore {
    // The machine may be busy: what is lost on the way stays lost, and no call is given up.
    let config = Config::new(redis.url()).call_timeout(Duration::from_secs(30)).must_be_there();
    config.connect().await.expect("a server")
}

fn limits() -> [Limit; 3] {
    [slow::bucket(CAPACITY), slow::window(CAPACITY), slow::counter(CAPACITY)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_it_passes_and_no_more() {
    let redis = Redis::start(&[]).await;
    for limit in limits() {
        let crowd = Crowd::gather(&redis, &limit, 0).await;
        assert_eq!(crowd.pass(CAPACITY).await, CAPACITY, "{}", limit.name());
        for _ in 0..50 {
            for node in &crowd.nodes {
                assert!(take(node, &limit, &crowd.key).await.is_denied(), "{}", limit.name());
            }
        }
        crowd.close().await;
        assert_eq!(crowd.booked().await, CAPACITY, "{}", limit.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_did_not_pass_is_given_back() {
    let redis = Redis::start(&[]).await;
    for (limit, round) in limits().iter().flat_map(|limit| (0..ROUNDS).map(move |round| (limit, round))) {
        let crowd = Crowd::gather(&redis, limit, round).await;
        let mut passed = crowd.pass(CAPACITY / 2).await;
        // Otherwise there is nothing to give back.
        while !crowd.holds_some() {
            assert!(passed < CAPACITY, "nobody leases ahead of need");
            passed += crowd.pass(1).await;
        }
        crowd.close().await;
        assert_eq!(crowd.booked().await, passed, "{}, round {round}", limit.name());
    }
}
