//! What was decided elsewhere is booked, all of it once, and what is there then comes back.

use std::time::Duration;

use tollgate_core::store::{Export, IdempotencyRetention, State, Store};
use tollgate_core::{Action, AlgorithmKind, Charge, IdempotencyKey, Request};

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::seed::Seed;
use crate::stand::Stand;

/// How often each trace exchanges.
const STEPS: u64 = 40;
const WHOM: [&str; 3] = ["one", "two", "three"];

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("exchange", exchange);
    plan.each("exchange_is_booked_once", once);
}

/// What somebody who looks would be told by the state that came back.
fn seen(charge: &Charge<'_>, told: &Export) -> tollgate_core::Decision {
    let mut state = match &told.state {
        Some(snapshot) => State::from_snapshot(charge.limit(), snapshot).expect("a good snapshot"),
        None => State::default(),
    };
    state.apply(&look(charge), told.at)
}

fn look<'a>(charge: &Charge<'a>) -> Charge<'a> {
    charge.limit().charge(charge.key()).with_cost(0)
}

async fn told<S: Store>(stand: &Stand<S>, id: IdempotencyKey, charges: &[Charge<'_>]) -> Vec<Export> {
    let told = stand.store().apply_deltas(Request::new(charges).with_idempotency_key(id), stand.now()).await;
    let told = told.expect("the store exchanges");
    assert_eq!(told.len(), charges.len(), "one state per charge");
    told
}

/// Debits and refunds of now and earlier, on one entity and on several, between checks, while the numbers change.
async fn exchange<S: Store>(mut stand: Stand<S>, sample: Sample) {
    let (mut pure, mut random) = (Pure::default(), Seed::new(7));
    for step in 0..STEPS {
        stand.advance(Duration::from_micros(random.below(300_000)));
        if random.once_in(12) {
            stand.advance(Duration::from_secs(random.below(100)));
        }
        let limit = match step * 3 / STEPS {
            1 => &sample.changed[0],
            2 => &sample.changed[1],
            _ => &sample.limit,
        };
        let check = [stand.charge(limit, random.pick(&WHOM)).with_cost(1 + small(&mut random, 3))];
        assert_eq!(stand.decide(&check).await, pure.decide(&check, stand.now()), "step {step}");
        if limit.kind() == AlgorithmKind::Concurrency {
            let debit = [stand.charge(limit, WHOM[0]).with_action(Action::Debit { at: None })];
            let refused = stand.store().apply_deltas(Request::new(&debit), stand.now()).await;
            assert!(refused.is_err(), "nothing to debit");
            continue;
        }
        let scattered = random.once_in(2);
        let charges: Vec<_> = (0..=random.below(5))
            .map(|_| {
                let whom = if scattered { random.pick(&WHOM) } else { &WHOM[0] };
                let ago = stand.now() - Duration::from_micros(random.below(2_000_000));
                // Of a full bucket that blocks, stores may forget when it was used last.
                let at = if random.once_in(3) || limit.block_time().is_some() { None } else { Some(ago) };
                let refund = random.once_in(8);
                let action = if refund { Action::Refund { at } } else { Action::Debit { at } };
                stand.charge(limit, *whom).with_cost(small(&mut random, 5)).with_action(action)
            })
            .collect();
        let told = told(&stand, IdempotencyKey::unique(), &charges).await;
        assert!(pure.decide(&charges, stand.now()).is_allowed());
        for (charge, told) in charges.iter().zip(&told) {
            let right = pure.decide(&[look(charge)], stand.now());
            assert_eq!(stand.one(look(charge)).await, right.decisions()[0], "step {step}: {charges:?}");
            assert_eq!(seen(charge, told), right.decisions()[0], "step {step}: {charges:?}");
        }
    }
}

/// A repetition books nothing, and brings back what there is by now.
async fn once<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    let remembers = stand.store().capability().idempotency != IdempotencyRetention::None;
    if limit.kind() == AlgorithmKind::Concurrency || !remembers {
        return;
    }
    let at = Some(stand.now());
    stand.advance(Duration::from_millis(1));
    let id = IdempotencyKey::unique();
    let debit = Action::Debit { at };
    let charges = [
        stand.charge(&limit, "one").with_cost(2).with_action(debit),
        stand.charge(&limit, "one").with_cost(1).with_action(debit),
        stand.charge(&limit, "one").with_cost(0).with_action(debit),
    ];
    let mut pure = Pure::default();
    assert!(pure.decide(&charges, stand.now()).is_allowed());
    for _ in 0..3 {
        let told = told(&stand, id, &charges).await;
        for (charge, told) in charges.iter().zip(&told) {
            let right = pure.decide(&[look(charge)], stand.now());
            assert_eq!(seen(charge, told), right.decisions()[0]);
        }
        let other = [stand.charge(&limit, "one")];
        assert_eq!(stand.decide(&other).await, pure.decide(&other, stand.now()), "booked once");
    }
}

fn small(random: &mut Seed, bound: u64) -> u32 {
    u32::try_from(random.below(bound)).unwrap_or(0)
}
