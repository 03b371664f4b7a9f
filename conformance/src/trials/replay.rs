//! Differential replay: on seeded random traces, a store agrees with the pure function field by field.

use tollgate_core::store::{Atomicity, Store};

use super::Plan;
use super::trace::{ENTITIES, limit_at, move_time, randomize};
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::{Sample, samples};
use crate::seed::Seed;

/// How many entities a trace charges, and whether its clock is sometimes set back a little. Only with a single key: a
/// store may evict an expired state when another key needs the space, and a clock that is set back to before the expiry
/// would show that.
#[derive(Clone, Copy)]
struct Course {
    keys: usize,
    back: bool,
}

const FORWARD: Course = Course { keys: ENTITIES.len(), back: false };
const SET_BACK: Course = Course { keys: 1, back: true };

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, steps: usize) {
    for seed in 1..=2 {
        plan.each(&format!("replay_{seed}"), move |fixture, sample| {
            replay(fixture, vec![sample], seed, FORWARD, steps)
        });
    }
    plan.each("replay_with_the_clock_set_back", move |fixture, sample| {
        replay(fixture, vec![sample], 50, SET_BACK, steps)
    });
    for seed in 1..=6 {
        plan.add(&format!("replay::all_algorithms_{seed}"), move |fixture| {
            replay(fixture, samples(), 100 + seed, FORWARD, steps)
        });
    }
}

async fn replay<S: Store>(
    mut fixture: Fixture<S>,
    samples: Vec<Sample>,
    seed: u64,
    course: Course,
    steps: usize,
) {
    let mut random = Seed::new(seed);
    let mut pure = Pure::default();
    // A store that compensates across entities debits and refunds, which leaves another state than no debit at all.
    let scattered = fixture.store().capability().atomicity == Atomicity::Everywhere;
    for step in 0..steps {
        move_time(&mut fixture, &mut random, course.back);
        let count = if random.once_in(4) { 1 + random.below(5) } else { 1 };
        let entity = *random.pick(&ENTITIES[..course.keys]);
        let charges: Vec<_> = (0..count)
            .map(|_| {
                let sample = random.pick(&samples);
                let limit = limit_at(sample, step, steps, &mut random);
                let entity = if scattered { *random.pick(&ENTITIES[..course.keys]) } else { entity };
                randomize(fixture.charge(limit, entity), &fixture, &mut random)
            })
            .collect();
        if charges.iter().any(|charge| charge.supported().is_err()) {
            assert!(fixture.try_decide(&charges).await.is_err(), "step {step} of seed {seed}: {charges:?}");
            continue;
        }
        let expected = pure.decide(&charges, fixture.now());
        let decisions = match charges[..] {
            [charge] if random.once_in(2) => vec![fixture.one(charge).await],
            _ => fixture.decide(&charges).await.decisions().to_vec(),
        };
        assert_eq!(
            decisions,
            expected.decisions(),
            "step {step} of seed {seed} at {}: {charges:?}",
            fixture.now()
        );
    }
}
