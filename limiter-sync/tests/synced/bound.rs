//! How much more than the limit can pass, at most.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::{Limit, LimitBuilder};

use crate::fleet::{Fleet, Way};

/// Some nodes for a while, under more traffic than the limit allows, with nodes cut off now and then.
#[derive(Clone, Debug)]
struct Course {
    nodes: usize,
    rate: u32,
    burst: u32,
    interval: u64,
    partition: u64,
    pressure: u64,
    seed: u64,
}

fn courses() -> impl Strategy<Value = Course> {
    let partition = prop_oneof![Just(0), 1..3_000_u64];
    (1..6_usize, 1..50_u32, 1..80_u32, 10..1_000_u64, partition, 1..6_u64, any::<u64>()).prop_map(
        |(nodes, rate, burst, interval, partition, pressure, seed)| Course {
            nodes,
            rate,
            burst,
            interval,
            partition,
            pressure,
            seed,
        },
    )
}

/// When what passed: milliseconds since the begin, and how much.
async fn drive(course: &Course, limit: &Limit) -> Vec<(u64, u32)> {
    let fleet = Fleet::of(course.nodes, |node| node);
    let mut random = Seed::new(course.seed);
    let mut next: Vec<u64> = fleet.nodes.iter().map(|_| random.below(course.interval)).collect();
    let mut back: Vec<u64> = vec![0; course.nodes];
    let mut passed = Vec::new();
    let mut now = 0;
    while now < 12_000 {
        let step = 1 + random.below(40);
        now += step;
        fleet.advance(Duration::from_millis(step));
        for node in 0..course.nodes {
            let way = fleet.nodes[node].store();
            if now >= back[node] {
                way.set(Way::Open);
                if course.partition > 0 && random.once_in(200) {
                    back[node] = now + random.below(course.partition);
                    way.set(if random.once_in(2) { Way::Closed } else { Way::ThereOnly });
                }
            }
            if now >= next[node] {
                let _ = fleet.nodes[node].sync_now().await;
                // Steps are at most 40 ms long, so exchanges come up to that much later than they are due.
                next[node] = now + course.interval * (90 + random.below(21)) / 100;
            }
            for _ in 0..random.below(course.pressure + 1) {
                let cost = 1 + u32::try_from(random.below(2)).expect("small");
                let granted = fleet.take(node, limit, cost.min(limit.capacity())).await.granted();
                if granted > 0 {
                    passed.push((now, granted));
                }
            }
        }
    }
    passed
}

/// The longest time between a grant and the last node that learns of it: an exchange to tell and an exchange to be told, each up to a
/// tenth late and a step of the clock. Where nodes are cut off, each of the two may fail, wait for as long as that lasts, and then for its
/// next turn.
fn delay(course: &Course) -> f64 {
    let interval = as_f64(course.interval).mul_add(1.1, 40.0);
    let each = if course.partition == 0 { interval } else { 2.0 * interval + as_f64(course.partition) };
    (2.0 * each + 40.0) / 1_000.0
}

fn as_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).expect("small"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// C + L·t, and for each other node what it can grant before it is known: C + L·D.
    #[test]
    fn a_bucket(course in courses()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let limit = Limit::per_second(course.rate).burst(course.burst).build("api").expect("valid");
        let passed = runtime.block_on(drive(&course, &limit));
        let (rate, burst) = (f64::from(course.rate), f64::from(course.burst));
        let others = as_f64(course.nodes as u64 - 1) * (burst + rate * delay(&course));
        for (first, (begin, _)) in passed.iter().enumerate().step_by(17) {
            let mut sum = 0.0;
            for (end, granted) in &passed[first..] {
                sum += f64::from(*granted);
                let most = burst + rate * as_f64(end - begin) / 1_000.0 + others;
                prop_assert!(sum <= most + 1.0, "{sum} from {begin} to {end} ms, at most {most}");
            }
        }
    }

    /// In each window at most the limit for each node.
    #[test]
    fn a_window(course in courses()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let limit: LimitBuilder = Limit::per_second(course.rate);
        let limit = limit.fixed_window().build("api").expect("valid");
        let passed = runtime.block_on(drive(&course, &limit));
        for second in 0..13 {
            let within = passed.iter().filter(|(at, _)| at / 1_000 == second);
            let sum: u32 = within.map(|(_, granted)| granted).sum();
            prop_assert!(sum <= course.rate * u32::try_from(course.nodes).expect("small"));
        }
    }
}
