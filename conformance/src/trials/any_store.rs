//! A store behind [`AnyStore`] decides as the pure function does, through every method.

use tollgate_core::store::{AnyStore, Run, Store};
use tollgate_core::{Action, AlgorithmKind, Charge, IdempotencyKey, LeaseId, Request};

use super::Plan;
use super::trace::{ENTITIES, cost, move_time};
use crate::compare::{assert_exported, assert_run_decided};
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::seed::Seed;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, replay_steps: usize) {
    // Short: what the store itself decides is subject of the other trials. Enough for every method to be called several
    // times.
    let steps = (replay_steps / 10).max(30);
    plan.each("any_store", move |fixture, sample| any_store(fixture, sample, steps));
}

async fn any_store<S: Store + 'static>(fixture: Fixture<S>, sample: Sample, steps: usize) {
    let mut erased = fixture.erased();
    let charge = fixture.charge(&sample.limit, ENTITIES[0]);
    assert_eq!(erased.store().capability(), fixture.store().capability());
    assert_eq!(erased.store().route(&charge), fixture.store().route(&charge));
    let (mut random, mut pure) = (Seed::new(400), Pure::default());
    for step in 0..steps {
        move_time(&mut erased, &mut random, false);
        // In turn, so that every method is called.
        match step % 5 {
            0 => decide(&erased, &sample, &mut random, &mut pure).await,
            1 => decide_one(&erased, &sample, &mut random, &mut pure).await,
            2 => decide_batch(&erased, &sample, &mut random, &mut pure).await,
            3 => export(&erased, &sample, &mut random, &mut pure).await,
            _ => apply_deltas(&erased, &sample, &mut random, &mut pure).await,
        }
    }
}

/// Returns a take or a peek with a random cost.
fn random_take<'a>(
    fixture: &'a Fixture<AnyStore>,
    sample: &'a Sample,
    entity: &'static str,
    random: &mut Seed,
) -> Charge<'a> {
    let cost = cost(&sample.limit, random);
    let lease = LeaseId::new(random.below(14).into());
    fixture.charge(&sample.limit, entity).with_cost(cost).with_lease(lease)
}

async fn decide(fixture: &Fixture<AnyStore>, sample: &Sample, random: &mut Seed, pure: &mut Pure) {
    let entity = *random.pick(&ENTITIES);
    let charges = [(); 2].map(|()| random_take(fixture, sample, entity, random));
    let _ = fixture.agrees(pure, &charges, "decide").await;
}

async fn decide_one(fixture: &Fixture<AnyStore>, sample: &Sample, random: &mut Seed, pure: &mut Pure) {
    let entity = *random.pick(&ENTITIES);
    let charge = random_take(fixture, sample, entity, random);
    let _ = fixture.one_agrees(pure, charge, "decide_one").await;
}

async fn decide_batch(fixture: &Fixture<AnyStore>, sample: &Sample, random: &mut Seed, pure: &mut Pure) {
    let charges = [(); 3].map(|()| {
        let entity = *random.pick(&ENTITIES);
        [random_take(fixture, sample, entity, random)]
    });
    let counts = [1, 3, 2];
    let runs: Vec<_> =
        charges.iter().zip(counts).map(|(charge, count)| Run::new(Request::new(charge), count)).collect();
    let results = fixture.store().decide_batch(&runs, fixture.now()).await;
    assert_eq!(results.len(), runs.len(), "one result per run");
    for ((charge, count), result) in charges.iter().zip(counts).zip(results) {
        assert_run_decided(&result.expect("the store decides"), charge, count, pure, fixture.now());
    }
}

async fn export(fixture: &Fixture<AnyStore>, sample: &Sample, random: &mut Seed, pure: &mut Pure) {
    let charge = fixture.charge(&sample.limit, *random.pick(&ENTITIES));
    let exported = fixture.export_of(&charge).await;
    assert_exported(&charge, &exported, pure, fixture.now(), "export");
}

async fn apply_deltas(fixture: &Fixture<AnyStore>, sample: &Sample, random: &mut Seed, pure: &mut Pure) {
    let action = if random.once_in(4) { Action::Refund { at: None } } else { Action::Debit { at: None } };
    let charge = fixture.charge(&sample.limit, *random.pick(&ENTITIES)).with_cost(2).with_action(action);
    if sample.limit.kind() == AlgorithmKind::Concurrency {
        let refused = fixture.store().apply_deltas(Request::new(&[charge]), fixture.now()).await;
        assert!(refused.is_err(), "a concurrency limit has leases, not deltas");
        return;
    }
    let key = IdempotencyKey::unique();
    let states = fixture.apply_deltas(key, &[charge]).await;
    fixture.store().forget_idempotency_keys(&[(charge.key(), key)]).await;
    assert!(pure.decide(&[charge], fixture.now()).is_allowed());
    assert_exported(&charge, &states[0], pure, fixture.now(), "apply_deltas");
}
