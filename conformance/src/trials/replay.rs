//! Differential replay: seeded random traces, on which a store must agree with the pure function field by field.

use std::time::Duration;

use tollgate_core::store::{Atomicity, Store};
use tollgate_core::{Action, Charge, LeaseId};

use super::Plan;
use crate::pure::Pure;
use crate::samples::{Sample, samples};
use crate::seed::Seed;
use crate::stand::Stand;

const WHOM: [&str; 4] = ["alice", "bob", "carol", "{dave}"];

/// Who asks, and whether the clock is set back a little now and then. With a single key only: a store may forget
/// what is past whenever somebody else needs the room, and a clock set back behind that moment would tell.
#[derive(Clone, Copy)]
struct Course {
    keys: usize,
    back: bool,
}

const FORWARD: Course = Course { keys: WHOM.len(), back: false };
const SET_BACK: Course = Course { keys: 1, back: true };

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, steps: usize) {
    for seed in 1..=2 {
        plan.each(&format!("replay_{seed}"), move |stand, sample| {
            replay(stand, vec![sample], seed, FORWARD, steps)
        });
    }
    plan.each("replay_with_the_clock_set_back", move |stand, sample| {
        replay(stand, vec![sample], 50, SET_BACK, steps)
    });
    for seed in 1..=6 {
        plan.add(&format!("replay::all_algorithms_{seed}"), move |stand| {
            replay(stand, samples(), 100 + seed, FORWARD, steps)
        });
    }
}

async fn replay<S: Store>(
    mut stand: Stand<S>,
    samples: Vec<Sample>,
    seed: u64,
    course: Course,
    steps: usize,
) {
    let mut random = Seed::new(seed);
    let mut pure = Pure::default();
    // Across entities some stores give back what they took, which is not the same as never to have taken it.
    let scattered = stand.store().capability().atomicity == Atomicity::Everywhere;
    for step in 0..steps {
        move_time(&mut stand, &mut random, course.back);
        let count = if random.once_in(4) { 1 + random.below(5) } else { 1 };
        let whom = *random.pick(&WHOM[..course.keys]);
        let charges: Vec<_> = (0..count)
            .map(|_| {
                let sample = random.pick(&samples);
                // Every so often the limit has other numbers, now and then for a while.
                let epoch = step * 7 / steps % 3;
                let limit = match epoch {
                    1 if !random.once_in(5) => &sample.changed[0],
                    2 if !random.once_in(5) => &sample.changed[1],
                    _ => &sample.limit,
                };
                let whom = if scattered { *random.pick(&WHOM[..course.keys]) } else { whom };
                ask(stand.charge(limit, whom), &stand, &mut random)
            })
            .collect();
        if charges.iter().any(|charge| charge.supported().is_err()) {
            assert!(stand.try_decide(&charges).await.is_err(), "step {step} of seed {seed}: {charges:?}");
            continue;
        }
        let right = pure.decide(&charges, stand.now());
        if let [charge] = charges[..]
            && random.once_in(2)
        {
            let told = stand.one(charge).await;
            assert_eq!(
                told,
                right.decisions()[0],
                "step {step} of seed {seed} at {}: {charge:?}",
                stand.now()
            );
            continue;
        }
        let told = stand.decide(&charges).await;
        assert_eq!(
            told.decisions(),
            right.decisions(),
            "step {step} of seed {seed} at {}: {charges:?}",
            stand.now()
        );
    }
}

/// Mostly a little ahead, sometimes not at all, sometimes far, and if it may, now and then a little back.
fn move_time<S: Store>(stand: &mut Stand<S>, random: &mut Seed, back: bool) {
    match random.below(20) {
        0 => stand.advance(Duration::from_secs(random.below(100))),
        1 => stand.advance(Duration::from_secs(1)),
        2 if back => stand.back(Duration::from_micros(random.below(2_000))),
        3..=7 => {}
        8..=12 => stand.advance(Duration::from_nanos(random.below(1_000))),
        _ => stand.advance(Duration::from_micros(random.below(200_000))),
    }
}

fn ask<'a, S: Store>(charge: Charge<'a>, stand: &Stand<S>, random: &mut Seed) -> Charge<'a> {
    let cost = match random.below(12) {
        0 => 0,
        1 => u32::try_from(random.below(60)).unwrap_or(0),
        2 => charge.limit().capacity(),
        3..=5 => 2 + u32::try_from(random.below(4)).unwrap_or(0),
        _ => 1,
    };
    let instant = |random: &mut Seed| {
        let span = Duration::from_micros(random.below(3_000_000));
        match random.below(3) {
            0 => None,
            1 => Some(stand.now() - span),
            _ => Some(stand.now() + span),
        }
    };
    let action = match random.below(16) {
        0 => Action::TakeUpTo,
        1 => Action::Debit { at: instant(random) },
        2 => Action::Refund { at: instant(random) },
        3 => Action::Take { max_wait: Some(Duration::from_millis(random.below(3_000))) },
        4 if random.once_in(3) => Action::Reset,
        5 => Action::Renew,
        6 => Action::Release,
        _ => Action::Take { max_wait: None },
    };
    charge.with_cost(cost).with_action(action).with_lease(LeaseId::new(random.below(14).into()))
}
