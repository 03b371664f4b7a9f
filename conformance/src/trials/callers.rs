//! Many callers at once get together exactly what the pure function admits: counted, not argued.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_core::store::{Atomicity, Store};
use tollgate_core::{Decision, Limit};

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

const CALLERS: usize = 64;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("concurrent_callers", equal_charges);
    plan.add("concurrent_callers::mixed_costs", mixed_costs);
    plan.add("concurrent_callers::several_charges", several_charges);
    plan.add("concurrent_callers::opposite_orders", opposite_orders);
    plan.add("concurrent_callers::refunds_and_debits_balance", balance);
    plan.add("concurrent_callers::new_keys", new_keys);
}

/// Runs `work` on as many tasks as there are callers, started together.
async fn together<S, T, F>(stand: &Stand<S>, work: impl Fn(Stand<S>, usize) -> F) -> Vec<T>
where
    S: Store + 'static,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(CALLERS));
    let mut tasks = JoinSet::new();
    for caller in 0..CALLERS {
        let (barrier, task) = (Arc::clone(&barrier), work(Stand::clone(stand), caller));
        tasks.spawn(async move {
            barrier.wait().await;
            task.await
        });
    }
    tasks.join_all().await
}

/// Everyone asks the same at the same instant: the answers, sorted, are those of one caller asking as often.
async fn equal_charges<S: Store + 'static>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    const EACH: usize = 5;
    let told = together(&stand, |stand, _| {
        let limit = limit.clone();
        async move {
            let mut told = Vec::new();
            for _ in 0..EACH {
                told.push(stand.take(&limit, 1).await);
            }
            told
        }
    })
    .await;
    let mut pure = Pure::default();
    let charge = [stand.charge(&limit, WHO)];
    let right = (0..CALLERS * EACH).map(|_| pure.decide(&charge, stand.now()).decisions()[0]);
    let sorted = |decisions: Vec<Decision>| {
        let mut facts: Vec<_> = decisions
            .iter()
            .map(|told| (told.is_allowed(), told.remaining(), told.start_after(), told.retry_after()))
            .collect();
        facts.sort_unstable();
        facts
    };
    assert_eq!(sorted(told.concat()), sorted(right.collect()));
}

/// Whoever is told "allowed" is in the count, and nobody else is.
async fn mixed_costs<S: Store + 'static>(stand: Stand<S>) {
    let limit = Limit::per_hour(10_000).build("mixed").expect("valid");
    let granted: u32 = together(&stand, |stand, caller| {
        let limit = limit.clone();
        async move {
            let mut granted = 0;
            for round in 0..100 {
                let cost = u32::try_from((caller * 7 + round * 3) % 11 + 1).expect("small");
                granted += stand.take(&limit, cost).await.granted();
            }
            granted
        }
    })
    .await
    .iter()
    .sum();
    let left = stand.peek(&limit).await.remaining();
    assert_eq!(granted + left, 10_000, "nothing lost, nothing made");
    assert!(left < 11, "demand was four times the limit");
}

/// Requests with several charges, beside requests with one. A request that is denied by its second limit must not
/// keep anyone from the first, not even for a moment.
async fn several_charges<S: Store + 'static>(stand: Stand<S>) {
    const ROUNDS: usize = 40;
    let both = u32::try_from(CALLERS * ROUNDS / 8).expect("small");
    let alone = u32::try_from(CALLERS / 2 * ROUNDS).expect("small");
    let wide = Limit::per_hour(both + alone).build("wide").expect("valid");
    let narrow = Limit::per_hour(both).build("narrow").expect("valid");
    let passed = together(&stand, |stand, caller| {
        let (wide, narrow) = (wide.clone(), narrow.clone());
        async move {
            let mut passed = 0_u32;
            for _ in 0..ROUNDS {
                let verdict = if caller % 2 == 0 {
                    stand.decide(&[stand.charge(&wide, WHO)]).await
                } else {
                    stand.decide(&[stand.charge(&wide, WHO), stand.charge(&narrow, WHO)]).await
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
    assert_eq!(stand.peek(&wide).await.remaining(), 0);
    assert_eq!(stand.peek(&narrow).await.remaining(), 0);
}

/// Two keys in both orders: nobody waits for ever, and both keys count the same.
async fn opposite_orders<S: Store + 'static>(stand: Stand<S>) {
    let limit = Limit::per_hour(1_000).build("both").expect("valid");
    let passed: u32 = together(&stand, |stand, caller| {
        let limit = limit.clone();
        async move {
            let mut passed = 0;
            for _ in 0..40 {
                let (first, second) = if caller % 2 == 0 { ("a", "b") } else { ("b", "a") };
                let charges = [stand.charge(&limit, first), stand.charge(&limit, second)];
                passed += u32::from(stand.decide(&charges).await.is_allowed());
            }
            passed
        }
    })
    .await
    .iter()
    .sum();
    let left = stand.one(stand.charge(&limit, "a").with_cost(0)).await.remaining();
    assert_eq!(left, stand.one(stand.charge(&limit, "b").with_cost(0)).await.remaining());
    assert_eq!(passed + left, 1_000, "what passed is what is missing");
    if stand.store().capability().atomicity == Atomicity::Everywhere {
        assert_eq!(passed, 1_000, "no spurious denial");
    }
}

/// What is taken and given back leaves nothing behind.
async fn balance<S: Store + 'static>(stand: Stand<S>) {
    use tollgate_core::Action;
    let limit = Limit::per_hour(5_000).build("balance").expect("valid");
    together(&stand, |stand, caller| {
        let limit = limit.clone();
        async move {
            let cost = u32::try_from(caller % 5 + 1).expect("small");
            for _ in 0..30 {
                assert!(stand.act(&limit, cost, Action::Debit { at: None }).await.is_allowed());
                assert_eq!(stand.act(&limit, cost, Action::Refund { at: None }).await.granted(), cost);
            }
        }
    })
    .await;
    assert_eq!(stand.peek(&limit).await.remaining(), 5_000);
}

/// Every caller is the first to use a key, at the same moment: one state each, not two.
async fn new_keys<S: Store + 'static>(stand: Stand<S>) {
    const KEYS: usize = 50;
    let limit = Limit::per_hour(8).build("new").expect("valid");
    let passed = together(&stand, |stand, _| {
        let limit = limit.clone();
        async move {
            let mut passed = 0_u32;
            for key in 0..KEYS {
                passed +=
                    u32::from(stand.one(stand.charge(&limit, &format!("key {key}"))).await.is_allowed());
            }
            passed
        }
    })
    .await;
    assert_eq!(passed.iter().sum::<u32>(), 8 * u32::try_from(KEYS).expect("small"));
}
