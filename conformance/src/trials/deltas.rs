//! Deltas that were granted elsewhere are applied, in full and once, and the resulting states come back.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind, IdempotencyKey, Request};

use super::Plan;
use super::trace::not_before_last_use;
use crate::compare::assert_exported;
use crate::fixture::{Fixture, peek_of};
use crate::pure::Pure;
use crate::samples::Sample;
use crate::seed::Seed;

/// How many batches of deltas a trace applies.
const STEPS: u64 = 40;
const ENTITIES: [&str; 3] = ["one", "two", "three"];

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("apply_deltas", apply_deltas);
}

pub(super) fn plan_forgetting<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("forgotten_deltas_keep_their_effect", forgotten);
}

pub(super) fn plan_repetitions<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("deltas_are_applied_once", applied_once);
    plan.each("forgotten_deltas_are_the_named_ones", forgotten_by_name);
}

/// Debits and refunds of now and of earlier instants, on one entity and on several, between checks, while parameters
/// change.
async fn apply_deltas<S: Store>(mut fixture: Fixture<S>, sample: Sample) {
    let (mut pure, mut random) = (Pure::default(), Seed::new(7));
    for step in 0..STEPS {
        fixture.advance(Duration::from_micros(random.below(300_000)));
        if random.once_in(12) {
            fixture.advance(Duration::from_secs(random.below(100)));
        }
        let limit = match step * 3 / STEPS {
            1 => &sample.changed[0],
            2 => &sample.changed[1],
            _ => &sample.limit,
        };
        let check = [fixture.charge(limit, random.pick(&ENTITIES)).with_cost(1 + small(&mut random, 3))];
        let _ = fixture.agrees(&mut pure, &check, &format!("step {step}")).await;
        if limit.kind() == AlgorithmKind::Concurrency {
            let debit = [fixture.charge(limit, ENTITIES[0]).with_action(Action::Debit { at: None })];
            let refused = fixture.store().apply_deltas(Request::new(&debit), fixture.now()).await;
            assert!(refused.is_err(), "a concurrency limit has leases, not deltas");
            continue;
        }
        let scattered = random.once_in(2);
        let charges: Vec<_> = (0..=random.below(5))
            .map(|_| {
                let entity = if scattered { random.pick(&ENTITIES) } else { &ENTITIES[0] };
                let ago = fixture.now() - Duration::from_micros(random.below(2_000_000));
                let at = if random.once_in(3) { None } else { Some(ago) };
                let refund = random.once_in(8);
                let action = if refund { Action::Refund { at } } else { Action::Debit { at } };
                let charge =
                    fixture.charge(limit, *entity).with_cost(small(&mut random, 5)).with_action(action);
                not_before_last_use(charge, &pure, fixture.now())
            })
            .collect();
        let states = fixture.apply_deltas(IdempotencyKey::unique(), &charges).await;
        assert!(pure.decide(&charges, fixture.now()).is_allowed());
        for (charge, state) in charges.iter().zip(&states) {
            let context = format!("step {step}, after the deltas");
            let _ = fixture.one_agrees(&mut pure, peek_of(charge), &context).await;
            assert_exported(charge, state, &mut pure, fixture.now(), &context);
        }
    }
}

/// A repetition applies nothing, and returns the current states.
async fn applied_once<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let debit = Action::Debit { at: Some(fixture.now()) };
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, debit).await;
    }
    fixture.advance(Duration::from_millis(1));
    let key = IdempotencyKey::unique();
    let charges = [2, 1, 0].map(|cost| fixture.charge(&limit, "one").with_cost(cost).with_action(debit));
    let mut pure = Pure::default();
    assert!(pure.decide(&charges, fixture.now()).is_allowed());
    for _ in 0..3 {
        let states = fixture.apply_deltas(key, &charges).await;
        for (charge, state) in charges.iter().zip(&states) {
            assert_exported(charge, state, &mut pure, fixture.now(), "the state that apply_deltas returned");
        }
        let other = [fixture.charge(&limit, "one")];
        let _ = fixture.agrees(&mut pure, &other, "after deltas that are applied once").await;
    }
}

/// Forgetting changes no state and prevents no later call, whether the key was used, was forgotten before, or never
/// existed.
async fn forgotten<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let debit = Action::Debit { at: Some(fixture.now()) };
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, debit).await;
    }
    fixture.advance(Duration::from_millis(1));
    let mut pure = Pure::default();
    for round in 0..4 {
        let key = IdempotencyKey::unique();
        let charges = ["one", "two", "one"]
            .map(|entity| fixture.charge(&limit, entity).with_cost(1).with_action(debit));
        let _ = fixture.apply_deltas(key, &charges).await;
        assert!(pure.decide(&charges, fixture.now()).is_allowed());
        let first = charges[0].key();
        let unknown = (fixture.charge(&limit, "three").key(), IdempotencyKey::unique());
        fixture.store().forget_idempotency_keys(&[(first, key), unknown, (first, key)][..round]).await;
        for charge in &charges {
            let exported = fixture.export_of(charge).await;
            assert_exported(charge, &exported, &mut pure, fixture.now(), "after deltas that were forgotten");
        }
        for entity in ["one", "three"] {
            let check = [fixture.charge(&limit, entity)];
            let _ = fixture.agrees(&mut pure, &check, "after deltas that were forgotten").await;
        }
    }
}

/// Other deltas are still recognized, also those of the same entity.
async fn forgotten_by_name<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let debit = Action::Debit { at: Some(fixture.now()) };
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, debit).await;
    }
    fixture.advance(Duration::from_millis(1));
    let charges = [fixture.charge(&limit, "one").with_cost(2).with_action(debit)];
    let keys = [(); 3].map(|()| IdempotencyKey::unique());
    let mut pure = Pure::default();
    for key in keys {
        let _ = fixture.apply_deltas(key, &charges).await;
        assert!(pure.decide(&charges, fixture.now()).is_allowed());
    }
    fixture.store().forget_idempotency_keys(&[(charges[0].key(), keys[1])]).await;
    for key in [keys[0], keys[2]] {
        let states = fixture.apply_deltas(key, &charges).await;
        assert_exported(
            &charges[0],
            &states[0],
            &mut pure,
            fixture.now(),
            "a repetition after another was forgotten",
        );
    }
}

fn small(random: &mut Seed, bound: u64) -> u32 {
    u32::try_from(random.below(bound)).unwrap_or(0)
}
