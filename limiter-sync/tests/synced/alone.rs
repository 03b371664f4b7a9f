//! A node that is alone decides as the pure function does, however often it exchanges.

use std::time::Duration;

use tollgate_conformance::{Pure, Seed};
use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind, Limit, LimitBuilder};

use crate::fleet::{Fleet, WHO};

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
async fn decides_as_if_there_were_no_centre() {
    for (limit, exchanges) in limits().iter().flat_map(|limit| [(limit, 1), (limit, 4), (limit, 50)]) {
        if exchanges > 1 && limit.kind() == AlgorithmKind::IntervalBucket {
            // Once it is full, nobody knows any more when its last period began.
            continue;
        }
        for seed in 0..20 {
            let (fleet, mut pure, mut random) = (Fleet::of(1, |node| node), Pure::default(), Seed::new(seed));
            for step in 0..300 {
                // Now and then long enough to be as good as new.
                let span = if random.once_in(40) { 3_000_000 } else { random.below(150_000) };
                fleet.advance(Duration::from_micros(span));
                let cost = u32::try_from(random.below(5)).expect("small");
                let charge = limit.charge(WHO).with_cost(cost);
                let charge = if random.once_in(5) { charge.with_action(Action::TakeUpTo) } else { charge };
                let told = fleet.nodes[0].decide_one(&charge, &fleet.now()).await.expect("decided here");
                let right = pure.decide(&[charge], fleet.now());
                assert_eq!(told, right.decisions()[0], "{limit:?}: step {step} of seed {seed}");
                if random.once_in(exchanges) {
                    fleet.nodes[0].sync_now().await.expect("the centre answers");
                }
            }
        }
    }
}
