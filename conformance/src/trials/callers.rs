//! Concurrent callers are granted in total exactly what the pure function grants.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_core::store::{Atomicity, Store};
use tollgate_core::{Decision, Limit};

use super::Plan;
use crate::compare::Shown;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

const CALLERS: usize = 64;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, replay_steps: usize) {
    plan.each("concurrent_callers", equal_charges);
    let each = (replay_steps / 4).max(50);
    plan.add("concurrent_callers::no_update_is_lost", move |fixture| no_update_is_lost(fixture, each));
    plan.add("concurrent_callers::mixed_costs", mixed_costs);
    plan.add("concurrent_callers::several_charges", several_charges);
    plan.add("concurrent_callers::opposite_orders", opposite_orders);
    plan.add("concurrent_callers::refunds_and_debits_balance", balance);
    plan.add("concurrent_callers::new_keys", new_keys);
}

/// Runs `work` on as many tasks as there are callers, started together.
async fn together<S, T, F>(fixture: &Fixture<S>, work: impl Fn(Fixture<S>, usize) -> F) -> Vec<T>
where
    S: Store + 'static,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(CALLERS));
    let mut tasks = JoinSet::new();
    for caller in 0..CALLERS {
        let (barrier, task) = (Arc::clone(&barrier), work(Fixture::clone(fixture), caller));
        tasks.spawn(async move {
            barrier.wait().await;
            task.await
        });
    }
    tasks.join_all().await
}

/// All callers send the same charge at the same instant. Sorted, their decisions equal those of one sequential caller.
async fn equal_charges<S: Store + 'static>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    const EACH: usize = 5;
    let decisions = together(&fixture, |fixture, _| {
        let limit = limit.clone();
        async move {
            let mut decisions = Vec::new();
            for _ in 0..EACH {
                decisions.push(fixture.take(&limit, 1).await);
            }
            decisions
        }
    })
    .await;
    let mut pure = Pure::default();
    let charge = [fixture.charge(&limit, ENTITY)];
    let expected = (0..CALLERS * EACH).map(|_| pure.decide(&charge, fixture.now()).decisions()[0]);
    let sorted = |decisions: Vec<Decision>| {
        let mut fields: Vec<_> = decisions
            .iter()
            .map(|one| (one.is_allowed(), one.remaining(), one.start_after(), one.retry_after()))
            .collect();
        fields.sort_unstable();
        fields
    };
    let (decided, expected) = (sorted(decisions.concat()), sorted(expected.collect()));
    let different = decided.iter().zip(&expected).find(|(decided, expected)| decided != expected);
    assert!(
        different.is_none(),
        "{CALLERS} callers, {EACH} takes each of {}: the first decisions that differ, sorted, as (allowed, remaining, \
         start_after, retry_after): decided by the store and expected: {different:?}",
        Shown(&charge[0]),
    );
}

/// Takes far below the limit, so that every one of them writes. A store that unlocks between reading a state and
/// writing it loses some.
async fn no_update_is_lost<S: Store + 'static>(fixture: Fixture<S>, each: usize) {
    const CAPACITY: u32 = 1_000_000;
    let limits = [Limit::per_day(CAPACITY), Limit::per_day(CAPACITY).fixed_window()];
    for limit in limits.map(|limit| limit.build("wide").expect("valid")) {
        let granted: u32 = together(&fixture, |fixture, caller| {
            let limit = limit.clone();
            async move {
                let mut granted = 0;
                for _ in 0..each {
                    // Both ways to decide a charge have to lock the same state.
                    granted += if caller % 2 == 0 {
                        fixture.take(&limit, 1).await.granted()
                    } else {
                        fixture.decide(&[fixture.charge(&limit, ENTITY)]).await.decisions()[0].granted()
                    };
                }
                granted
            }
        })
        .await
        .iter()
        .sum();
        let left = fixture.peek(&limit).await.remaining();
        let expected = CAPACITY - granted;
        assert_eq!(left, expected, "{CALLERS} callers were granted {granted}, and the store has {left} left");
    }
}

/// The debited total equals the sum of all grants.
async fn mixed_costs<S: Store + 'static>(fixture: Fixture<S>) {
    let limit = Limit::per_hour(10_000).build("mixed").expect("valid");
    let granted: u32 = together(&fixture, |fixture, caller| {
        let limit = limit.clone();
        async move {
            let mut granted = 0;
            for round in 0..100 {
                let cost = u32::try_from((caller * 7 + round * 3) % 11 + 1).expect("small");
                granted += fixture.take(&limit, cost).await.granted();
            }
            granted
        }
    })
    .await
    .iter()
    .sum();
    let left = fixture.peek(&limit).await.remaining();
    assert_eq!(granted + left, 10_000, "every grant is debited once");
    assert!(left < 11, "demand was four times the limit");
}

/// Requests with several charges, beside requests with one. A request that its second limit denies never takes a token
/// of the first, not even for a moment.
async fn several_charges<S: Store + 'static>(fixture: Fixture<S>) {
    const ROUNDS: usize = 40;
    let both = u32::try_from(CALLERS * ROUNDS / 8).expect("small");
    let alone = u32::try_from(CALLERS / 2 * ROUNDS).expect("small");
    let wide = Limit::per_hour(both + alone).build("wide").expect("valid");
    let narrow = Limit::per_hour(both).build("narrow").expect("valid");
    let passed = together(&fixture, |fixture, caller| {
        let (wide, narrow) = (wide.clone(), narrow.clone());
        async move {
            let mut passed = 0_u32;
            for _ in 0..ROUNDS {
                let verdict = if caller % 2 == 0 {
                    fixture.decide(&[fixture.charge(&wide, ENTITY)]).await
                } else {
                    fixture.decide(&[fixture.charge(&wide, ENTITY), fixture.charge(&narrow, ENTITY)]).await
                };
                passed += u32::from(verdict.is_allowed());
            }
            (caller % 2 == 0, passed)
        }
    })
    .await;
    let sum =
        |single| passed.iter().filter(|(kind, _)| *kind == single).map(|(_, passed)| passed).sum::<u32>();
    assert_eq!(sum(true), alone, "no spurious denial");
    assert_eq!(sum(false), both, "no over-admission");
    assert_eq!(fixture.peek(&wide).await.remaining(), 0);
    assert_eq!(fixture.peek(&narrow).await.remaining(), 0);
}

/// Two keys in both orders: no deadlock, and both keys count the same.
async fn opposite_orders<S: Store + 'static>(fixture: Fixture<S>) {
    let limit = Limit::per_hour(1_000).build("both").expect("valid");
    let passed: u32 = together(&fixture, |fixture, caller| {
        let limit = limit.clone();
        async move {
            let mut passed = 0;
            for _ in 0..40 {
                let (first, second) = if caller % 2 == 0 { ("a", "b") } else { ("b", "a") };
                let charges = [fixture.charge(&limit, first), fixture.charge(&limit, second)];
                passed += u32::from(fixture.decide(&charges).await.is_allowed());
            }
            passed
        }
    })
    .await
    .iter()
    .sum();
    let left = fixture.one(fixture.charge(&limit, "a").with_cost(0)).await.remaining();
    assert_eq!(left, fixture.one(fixture.charge(&limit, "b").with_cost(0)).await.remaining());
    assert_eq!(passed + left, 1_000, "every admitted request is debited once");
    if fixture.store().capability().atomicity == Atomicity::Everywhere {
        assert_eq!(passed, 1_000, "no spurious denial");
    }
}

/// Debits and refunds of the same amounts cancel out.
async fn balance<S: Store + 'static>(fixture: Fixture<S>) {
    use tollgate_core::Action;
    let limit = Limit::per_hour(5_000).build("balance").expect("valid");
    together(&fixture, |fixture, caller| {
        let limit = limit.clone();
        async move {
            let cost = u32::try_from(caller % 5 + 1).expect("small");
            for _ in 0..30 {
                assert!(fixture.act(&limit, cost, Action::Debit { at: None }).await.is_allowed());
                assert_eq!(fixture.act(&limit, cost, Action::Refund { at: None }).await.granted(), cost);
            }
        }
    })
    .await;
    assert_eq!(fixture.peek(&limit).await.remaining(), 5_000);
}

/// All callers create the same new keys at the same moment: each key gets one state, not two.
async fn new_keys<S: Store + 'static>(fixture: Fixture<S>) {
    const KEYS: usize = 50;
    let limit = Limit::per_hour(8).build("new").expect("valid");
    let passed = together(&fixture, |fixture, _| {
        let limit = limit.clone();
        async move {
            let mut passed = 0_u32;
            for key in 0..KEYS {
                passed +=
                    u32::from(fixture.one(fixture.charge(&limit, &format!("key {key}"))).await.is_allowed());
            }
            passed
        }
    })
    .await;
    assert_eq!(passed.iter().sum::<u32>(), 8 * u32::try_from(KEYS).expect("small"));
}
