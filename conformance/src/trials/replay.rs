//! Differential replay: on seeded random traces, a store agrees with the pure function field by field.

use std::time::Duration;

use tollgate_core::store::{Atomicity, Store};
use tollgate_core::{Action, Decision, Time};

use super::Plan;
use super::trace::{ENTITIES, limit_at, move_time, not_before_last_use, randomize};
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::{Sample, samples};
use crate::seed::Seed;

/// How many entities a trace charges, whether its clock is sometimes set back a little, and by how much the clocks of
/// its callers differ.
#[derive(Clone, Copy)]
struct Course {
    keys: usize,
    back: bool,
    skew: Duration,
}

const FORWARD: Course = Course { keys: ENTITIES.len(), back: false, skew: Duration::ZERO };
const SET_BACK: Course = Course { keys: 1, back: true, skew: Duration::ZERO };
const TWO_CLOCKS: Course = Course { keys: 1, back: false, skew: Duration::from_millis(5) };

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, steps: usize) {
    for seed in 1..=2 {
        plan.each(&format!("replay_{seed}"), move |fixture, sample| {
            replay(fixture, vec![sample], seed, FORWARD, steps)
        });
    }
    plan.each("replay_with_the_clock_set_back", move |fixture, sample| {
        replay(fixture, vec![sample], 50, SET_BACK, steps)
    });
    plan.each("replay_with_two_clocks", move |fixture, sample| {
        replay(fixture, vec![sample], 51, TWO_CLOCKS, steps)
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
    // Reservations that were admitted, to be cancelled: the limit's name, the entity, the cost and the start.
    let mut reservations: Vec<(String, &str, u32, Time)> = Vec::new();
    let (mut present, mut latest) = (fixture.now(), fixture.now());
    for step in 0..steps {
        fixture.set(present);
        move_time(&mut fixture, &mut random, course.back);
        present = fixture.now();
        if random.once_in(2) {
            fixture.back(course.skew);
        }
        latest = latest.max(fixture.now());
        let count = if random.once_in(4) { 1 + random.below(5) } else { 1 };
        let entity = *random.pick(&ENTITIES[..course.keys]);
        let mut entities = Vec::new();
        let mut charges: Vec<_> = (0..count)
            .map(|_| {
                let sample = random.pick(&samples);
                let limit = limit_at(sample, step, steps, &mut random);
                let entity = if scattered { *random.pick(&ENTITIES[..course.keys]) } else { entity };
                entities.push(entity);
                let charge = randomize(fixture.charge(limit, entity), &fixture, &mut random);
                not_before_last_use(charge, &pure, fixture.now())
            })
            .collect();
        // A store may have dropped a state that was fresh at a later time already, for any caller.
        let may_be_dropped = |charge| {
            let fresh_at = pure.fresh_at(charge);
            fresh_at > fixture.now() && fresh_at <= latest
        };
        if charges.iter().any(may_be_dropped) {
            continue;
        }
        if let [charge] = &mut charges[..]
            && random.once_in(4)
            && let Some(index) = reservations
                .iter()
                .position(|(name, of, _, _)| name == charge.limit().name() && *of == entities[0])
        {
            let (_, _, cost, start) = reservations.swap_remove(index);
            *charge = charge.with_cost(cost).with_action(Action::Refund { at: Some(start) });
        }
        if charges.iter().any(|charge| charge.supported().is_err()) {
            assert!(fixture.try_decide(&charges).await.is_err(), "step {step} of seed {seed}: {charges:?}");
            continue;
        }
        let context = format!("step {step} of seed {seed}");
        let decisions = match charges[..] {
            [charge] if random.once_in(2) => vec![fixture.one_agrees(&mut pure, charge, &context).await],
            _ => fixture.agrees(&mut pure, &charges, &context).await.decisions().to_vec(),
        };
        let is_allowed = decisions.iter().all(Decision::is_allowed);
        for ((charge, entity), decision) in charges.iter().zip(&entities).zip(&decisions) {
            if is_allowed && !decision.start_after().is_zero() && charge.cost() > 0 {
                let start = fixture.now() + decision.start_after();
                reservations.push((charge.limit().name().to_owned(), entity, charge.cost(), start));
            }
        }
    }
}
