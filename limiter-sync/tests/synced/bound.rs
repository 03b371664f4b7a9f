//! The bound on how much passes beyond the limit.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::{Limit, LimitBuilder};

use crate::fleet::{Fleet, LinkState};

/// Nodes under more traffic than the limit allows, some of them cut off now and then. Times are in milliseconds.
#[derive(Clone, Debug)]
struct Scenario {
    nodes: usize,
    rate: u32,
    burst: u32,
    interval: u64,
    partition: u64,
    pressure: u64,
    seed: u64,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let partition = prop_oneof![Just(0), 1..3_000_u64];
    (1..6_usize, 1..50_u32, 1..80_u32, 10..1_000_u64, partition, 1..6_u64, any::<u64>()).prop_map(
        |(nodes, rate, burst, interval, partition, pressure, seed)| Scenario {
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

/// Returns what passed: milliseconds since the start, and how much.
async fn drive(scenario: &Scenario, limit: &Limit) -> Vec<(u64, u32)> {
    let fleet = Fleet::of(scenario.nodes, |node| node);
    let mut random = Seed::new(scenario.seed);
    let mut next: Vec<u64> = fleet.nodes.iter().map(|_| random.below(scenario.interval)).collect();
    let mut back: Vec<u64> = vec![0; scenario.nodes];
    let mut passed = Vec::new();
    let mut now = 0;
    while now < 12_000 {
        let step = 1 + random.below(40);
        now += step;
        fleet.advance(Duration::from_millis(step));
        for node in 0..scenario.nodes {
            let link = fleet.nodes[node].store();
            if now >= back[node] {
                link.set(LinkState::Up);
                if scenario.partition > 0 && random.once_in(200) {
                    back[node] = now + random.below(scenario.partition);
                    link.set(if random.once_in(2) { LinkState::Down } else { LinkState::LostAnswer });
                }
            }
            if now >= next[node] {
                let _ = fleet.nodes[node].sync_now().await;
                // Steps take up to 40 ms, so a sync round is up to that much late.
                next[node] = now + scenario.interval * (90 + random.below(21)) / 100;
            }
            for _ in 0..random.below(scenario.pressure + 1) {
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

/// Returns the longest time, in seconds, until all nodes know of a grant: a sync round to send it and one to receive
/// it, each up to a tenth of an interval and a step of the clock late. Where nodes are cut off, each of the two may
/// fail, wait for as long as that lasts, and then for its next interval.
fn delay(scenario: &Scenario) -> f64 {
    let interval = as_f64(scenario.interval).mul_add(1.1, 40.0);
    let each = if scenario.partition == 0 { interval } else { 2.0 * interval + as_f64(scenario.partition) };
    (2.0 * each + 40.0) / 1_000.0
}

fn as_f64(number: u64) -> f64 {
    f64::from(u32::try_from(number).expect("small"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// C + L·t, plus what each other node can grant before it is known: C + L·D.
    #[test]
    fn a_bucket(scenario in scenarios()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let limit = Limit::per_second(scenario.rate).burst(scenario.burst).build("api").expect("valid");
        let passed = runtime.block_on(drive(&scenario, &limit));
        let (rate, burst) = (f64::from(scenario.rate), f64::from(scenario.burst));
        let others = as_f64(scenario.nodes as u64 - 1) * (burst + rate * delay(&scenario));
        for (first, (start, _)) in passed.iter().enumerate().step_by(17) {
            let mut sum = 0.0;
            for (end, granted) in &passed[first..] {
                sum += f64::from(*granted);
                let most = burst + rate * as_f64(end - start) / 1_000.0 + others;
                prop_assert!(sum <= most + 1.0, "{sum} from {start} to {end} ms, at most {most}");
            }
        }
    }

    /// In each window, at most the limit per node.
    #[test]
    fn a_window(scenario in scenarios()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let limit: LimitBuilder = Limit::per_second(scenario.rate);
        let limit = limit.fixed_window().build("api").expect("valid");
        let passed = runtime.block_on(drive(&scenario, &limit));
        for second in 0..13 {
            let within = passed.iter().filter(|(at, _)| at / 1_000 == second);
            let sum: u32 = within.map(|(_, granted)| granted).sum();
            prop_assert!(sum <= scenario.rate * u32::try_from(scenario.nodes).expect("small"));
        }
    }
}
