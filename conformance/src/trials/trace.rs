//! Seeded random traces of charges over time, for the trials that compare a store with the pure function.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Charge, LeaseId, Limit, Time};

use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::seed::Seed;

/// The entities that are charged.
pub(super) const ENTITIES: [&str; 4] = ["alice", "bob", "carol", "{dave}"];

/// Moves time: mostly a little ahead, sometimes not at all, sometimes far, and sometimes a little back if `back` is
/// set.
pub(super) fn move_time<S: Store>(fixture: &mut Fixture<S>, random: &mut Seed, back: bool) {
    match random.below(20) {
        0 => fixture.advance(Duration::from_secs(random.below(100))),
        1 => fixture.advance(Duration::from_secs(1)),
        2 if back => fixture.back(Duration::from_micros(random.below(2_000))),
        3..=7 => {}
        8..=12 => fixture.advance(Duration::from_nanos(random.below(1_000))),
        _ => fixture.advance(Duration::from_micros(random.below(200_000))),
    }
}

/// Returns the limit at a step. Its parameters change several times in a trace, and in some periods at single steps.
pub(super) fn limit_at<'s>(sample: &'s Sample, step: usize, steps: usize, random: &mut Seed) -> &'s Limit {
    match step * 7 / steps % 3 {
        1 if !random.once_in(5) => &sample.changed[0],
        2 if !random.once_in(5) => &sample.changed[1],
        _ => &sample.limit,
    }
}

/// Returns a random cost: mostly small, sometimes 0, sometimes more than the capacity.
pub(super) fn cost(limit: &Limit, random: &mut Seed) -> u32 {
    match random.below(12) {
        0 => 0,
        1 => u32::try_from(random.below(60)).unwrap_or(0),
        2 => limit.capacity(),
        3..=5 => 2 + u32::try_from(random.below(4)).unwrap_or(0),
        _ => 1,
    }
}

/// Returns a delta with an instant at which every store agrees. If a bucket is full again, a store may have dropped
/// when it was last used, so a delta that is dated before that counts from one instant or from the other.
pub(super) fn not_before_last_use<'a>(charge: Charge<'a>, pure: &Pure, now: Time) -> Charge<'a> {
    let last_use = pure.fresh_at(&charge);
    if last_use > now {
        return charge;
    }
    charge.with_action(charge.action().map_instant(|at| at.map(|at| at.max(last_use))))
}

/// Gives a charge a random cost, action and lease. The algorithm may not support the action.
pub(super) fn randomize<'a, S: Store>(
    charge: Charge<'a>,
    fixture: &Fixture<S>,
    random: &mut Seed,
) -> Charge<'a> {
    let cost = cost(charge.limit(), random);
    let instant = |random: &mut Seed| {
        let span = Duration::from_micros(random.below(3_000_000));
        match random.below(3) {
            0 => None,
            1 => Some(fixture.now() - span),
            _ => Some(fixture.now() + span),
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
