//! A single node decides as the pure function does, however often it synchronizes.

use std::time::Duration;

use tollgate_conformance::{Pure, Seed};
use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind, Limit, LimitBuilder};

use crate::fleet::{Fleet, KEY, NodeBuilder};

const HOUR: Duration = Duration::from_secs(3_600);

fn limits() -> Vec<Limit> {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 7] = [
        |limit| limit,
        |limit| limit.refill_by_interval(),
        |limit| limit.leaky_bucket(),
        |limit| limit.gcra(),
        |limit| limit.fixed_window(),
        |limit| limit.sliding_window(),
        |limit| limit.sliding_counter(5),
    ];
    kinds.map(|kind| kind(Limit::per_second(10)).build("api").expect("valid")).into()
}

#[tokio::test]
async fn decides_as_the_pure_function() {
    for (limit, sync_once_in) in limits().iter().flat_map(|limit| [(limit, 1), (limit, 4), (limit, 50)]) {
        if sync_once_in > 1 && limit.kind() == AlgorithmKind::IntervalBucket {
            // The state of a full bucket does not contain the start of its last period.
            continue;
        }
        for seed in 0..20 {
            // Its sync rounds are rare, and must not be missed.
            let patient = |node: NodeBuilder| node.default_policy(|policy| policy.stale_after(HOUR));
            let (fleet, mut pure, mut random) = (Fleet::of(1, patient), Pure::default(), Seed::new(seed));
            for step in 0..300 {
                // Now and then long enough for the state to equal a fresh one.
                let span = if random.once_in(40) { 3_000_000 } else { random.below(150_000) };
                fleet.advance(Duration::from_micros(span));
                let cost = u32::try_from(random.below(5)).expect("small");
                let charge = limit.charge(KEY).with_cost(cost);
                let charge = if random.once_in(5) { charge.with_action(Action::TakeUpTo) } else { charge };
                let decision =
                    fleet.nodes[0].decide_one(&charge, &fleet.now()).await.expect("decided locally");
                let expected = pure.decide(&[charge], fleet.now());
                assert_eq!(decision, expected.decisions()[0], "{limit:?}: step {step} of seed {seed}");
                if random.once_in(sync_once_in) {
                    fleet.nodes[0].sync_now().await.expect("the central store answers");
                }
            }
        }
    }
}
