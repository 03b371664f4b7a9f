//! Nodes divide a limit by their demand, on a real server and in real time.

use std::time::Duration;

use futures_util::future::join_all;
use tollgate_conformance::Seed;
use tollgate_core::{Clock, IdempotencyKey, Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

use crate::load::fairness::Division;
use crate::load::{Demand, slot};

/// How much a fleet may pass in a second.
const PER_SECOND: u32 = 400;
/// How often a fleet is started until the whole limit passes, which takes a machine that is fast enough.
const ATTEMPTS: u64 = 10;
/// When a fleet divides the limit as it should: a second after the last start. And what is judged from then on.
const SETTLED: Duration = Duration::from_secs(2);
const JUDGED: Duration = Duration::from_secs(6);

async fn connect(redis: &Redis) -> RedisStore {
    RedisStore::connect(&redis.url()).await.expect("a valid URL")
}

/// Starts a fleet of nodes, each with a demand of its own, and judges how they divide the limit.
async fn divide(
    redis: &Redis,
    per_second: u32,
    most: f64,
    settled: Duration,
    demands: impl Fn(&mut Seed) -> Vec<Demand>,
) {
    let limit = Limit::per_second(per_second).burst(per_second / 10).build("api").expect("valid");
    for attempt in 0..ATTEMPTS {
        let (demands, store) = (demands(&mut Seed::new(attempt)), connect(redis).await);
        let mut nodes = Vec::new();
        for _ in &demands {
            // A hundred connections would be the server's load.
            let store = if demands.len() <= 10 { connect(redis).await } else { store.clone() };
            nodes.push(Synced::builder(store).build().expect("valid"));
        }
        let key = format!("{:032x}", IdempotencyKey::unique().get());
        let start = SystemClock::new().now();
        let end = start + settled + JUDGED;
        let calls =
            demands.iter().zip(&nodes).map(|(demand, node)| demand.call(node, &limit, &key, start, end));
        let slots = join_all(calls).await;
        let asked = demands.iter().map(|demand| demand.after).collect();
        let division = Division { per_second: per_second.into(), asked, most };
        if division.judge(&slots, slot(start + settled) + 1..slot(end)) {
            return;
        }
    }
    panic!("less than {per_second} per second pass, or the machine is too slow for the demand");
}

/// Nodes that start at any time within a second, and ask for four times as much as there is: so the demand is enough on
/// a slow machine, too.
fn equal(seed: &mut Seed, nodes: u32, per_second: u32) -> Vec<Demand> {
    let each = 4.0 * f64::from(per_second) / f64::from(nodes);
    unequal(seed, vec![each; usize::try_from(nodes).expect("few")])
}

fn unequal(seed: &mut Seed, asked: Vec<f64>) -> Vec<Demand> {
    asked.into_iter().map(|asked| Demand::starting(Duration::from_millis(seed.below(1_000)), asked)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_equal_demand_get_equal_parts() {
    let redis = Redis::start(&[]).await;
    // At the same time: each fleet has a key of its own.
    join_all([2, 4, 10].map(|nodes| {
        divide(&redis, PER_SECOND, f64::INFINITY, SETTLED, move |seed| equal(seed, nodes, PER_SECOND))
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_nodes_with_equal_demand_get_equal_parts() {
    let redis = Redis::start(&[]).await;
    // Ten per second for each node: fewer could not be divided within 15 %.
    divide(&redis, 1_000, f64::INFINITY, SETTLED, |seed| equal(seed, 100, 1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_little_demand_leave_their_part_to_the_others() {
    let redis = Redis::start(&[]).await;
    let four =
        divide(&redis, PER_SECOND, 1.15, SETTLED, |seed| unequal(seed, vec![20.0, 60.0, 600.0, 900.0]));
    let ten = divide(&redis, PER_SECOND, 1.15, SETTLED, |seed| {
        unequal(seed, vec![5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 250.0, 250.0, 300.0, 400.0])
    });
    tokio::join!(four, ten);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joins_or_wakes_up_gets_its_part_within_a_second() {
    let redis = Redis::start(&[]).await;
    let joining = Duration::from_secs(3);
    let at_once = |asked| Demand::starting(Duration::ZERO, asked);
    let demands = |_: &mut Seed| {
        let joins = Demand::starting(joining, 400.0);
        let wakes_up = Demand { before: 2.0, change: joining, after: 400.0 };
        vec![at_once(400.0), at_once(400.0), joins, wakes_up]
    };
    divide(&redis, PER_SECOND, f64::INFINITY, joining + Duration::from_secs(1), demands).await;
}
