//! The fast path for a single charge ([`Store::decide_one`]) decides as the pure function does, field by field.

use tollgate_core::ErrorKind;
use tollgate_core::store::Store;

use super::Plan;
use super::trace::{ENTITIES, limit_at, move_time, not_before_last_use, randomize};
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::seed::Seed;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, replay_steps: usize) {
    // Half of a replay: every step is about the fast path.
    let steps = (replay_steps / 2).max(1);
    plan.each("single_charge", move |fixture, sample| single_charge(fixture, sample, steps));
}

/// A random trace of takes, peeks, waits, debits, refunds and resets, while time passes and parameters change.
async fn single_charge<S: Store>(mut fixture: Fixture<S>, sample: Sample, steps: usize) {
    let (mut random, mut pure) = (Seed::new(300), Pure::default());
    for step in 0..steps {
        move_time(&mut fixture, &mut random, false);
        let limit = limit_at(&sample, step, steps, &mut random);
        let entity = *random.pick(&ENTITIES);
        let charge = randomize(fixture.charge(limit, entity), &fixture, &mut random);
        let charge = not_before_last_use(charge, &pure, fixture.now());
        if charge.supported().is_err() {
            let refused = fixture.try_one(charge).await;
            let error = refused.expect_err("an action that the algorithm does not support is refused");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "step {step}: {error}");
            continue;
        }
        let _ = fixture.one_agrees(&mut pure, charge, &format!("step {step}")).await;
    }
}
