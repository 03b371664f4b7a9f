//! Compares requests of several charges with a simple model: apply all charges to copies, and keep the copies if all
//! pass.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{State, settle, state_indexes};
use tollgate_core::{Action, AlgorithmKind, Charge, Limit, LimitBuilder, Outcome, Time};

use super::guarantees;
use super::limits::builders;
use super::trace::{START, cases};

/// Returns a few limits, with and without a block time, with distinct names.
fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let named = |limits: Vec<(LimitBuilder, bool)>| {
        let name = |(index, (limit, block)): (usize, (LimitBuilder, bool))| {
            let limit = if block { limit.block_for(Duration::from_secs(2)) } else { limit };
            limit.build(&format!("limit {index}")).expect("valid parameters")
        };
        limits.into_iter().enumerate().map(name).collect()
    };
    proptest::collection::vec((builders(), any::<bool>()), 1..4).prop_map(named)
}

/// The index of a limit, one of two keys, a cost and an action.
type RandomCharge = (proptest::sample::Index, bool, u32, u8);

fn charges<'l>(limits: &'l [Limit], random: &[RandomCharge]) -> Vec<Charge<'l>> {
    let charge = |(limit, key, cost, action): &RandomCharge| {
        let limit = limit.get(limits);
        let action = match action {
            0 => Action::TakeUpTo,
            1 => Action::Debit { at: None },
            2 => Action::Refund { at: None },
            // Not a whole number of tokens, so that rounding does not decide. And not of a bucket refilled by interval:
            // just before a refill it starts something sooner than when it is full, so waiting does not only help.
            3 if limit.kind().reserves() && limit.kind() != AlgorithmKind::IntervalBucket => {
                Action::Take { max_wait: Some(limit.period() * 37 / 100) }
            }
            _ => Action::Take { max_wait: None },
        };
        let charge = limit.charge(if *key { "a" } else { "b" }).with_cost(*cost);
        let with_action = charge.with_action(action);
        if with_action.supported().is_ok() { with_action } else { charge }
    };
    random.iter().map(charge).collect()
}

fn requests() -> impl Strategy<Value = Vec<(u64, Vec<RandomCharge>)>> {
    let charge = (any::<proptest::sample::Index>(), any::<bool>(), 0..5_u32, 0..10_u8);
    proptest::collection::vec((0..1500_u64, proptest::collection::vec(charge, 1..5)), 1..15)
}

/// Returns the state of a charge. There is one state per limit and key.
fn state_of<'s>(limits: &[Limit], states: &'s mut [State], charge: &Charge<'_>) -> &'s mut State {
    let limit = limits.iter().position(|limit| limit.id() == charge.limit().id()).expect("one of them");
    let first = charge.same_state(&limits[limit].charge("a"));
    &mut states[2 * limit + usize::from(!first)]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn all_charges_are_debited_or_none_is(limits in limits(), requests in requests()) {
        let mut states = vec![State::default(); 2 * limits.len()];
        let period = super::trace::period(&limits[0]);
        let mut now = START;
        for (pause, random) in requests {
            now += period / 1000 * pause;
            let instant = Time::from_nanos(now);
            let charges = charges(&limits, &random);

            // The model: one after the other, on copies.
            let mut copies = states.clone();
            let expected: Vec<_> =
                charges.iter().map(|charge| state_of(&limits, &mut copies, charge).apply(charge, instant)).collect();
            let passes = expected.iter().all(tollgate_core::Decision::is_allowed);

            // Charges with the same limit and key share a state.
            let (indexes, count) = state_indexes(&charges);
            let mut own = vec![State::default(); count];
            for (charge, index) in charges.iter().zip(&indexes) {
                own[*index] = state_of(&limits, &mut states, charge).clone();
            }
            let before = own.clone();
            let verdict = settle(&charges, &indexes, &mut own, instant);

            prop_assert_eq!(verdict.is_allowed(), passes, "{:?}", expected);
            if passes {
                prop_assert_eq!(verdict.decisions(), &expected[..]);
            } else {
                for (index, decision) in verdict.decisions().iter().enumerate() {
                    prop_assert_eq!(decision.granted(), 0, "charge {} was debited", index);
                }
                // Nothing was debited: the states of allowed charges are unchanged.
                for (index, (before, after)) in before.iter().zip(&own).enumerate() {
                    let decided = || charges.iter().zip(&indexes).zip(verdict.decisions());
                    let of_slot = || decided().filter(|((_, of), _)| **of == index);
                    if of_slot().all(|(_, decision)| decision.is_allowed()) {
                        let ((charge, _), _) = of_slot().next().expect("a index has a charge");
                        let peek = charge.limit().charge("k").with_cost(0);
                        prop_assert_eq!(before.clone().apply(&peek, instant), after.clone().apply(&peek, instant));
                    }
                }
                // The most restrictive decision has the longest wait, or can never pass.
                let most_restrictive = verdict.most_restrictive().expect("there are charges");
                prop_assert!(most_restrictive.is_denied());
                if most_restrictive.outcome() == Outcome::Denied {
                    let longest = verdict.decisions().iter().filter_map(tollgate_core::Decision::retry_after).max();
                    prop_assert_eq!(most_restrictive.retry_after(), longest);
                }
            }
            for (charge, index) in charges.iter().zip(&indexes) {
                *state_of(&limits, &mut states, charge) = own[*index].clone();
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Whoever waits exactly as long as a denial reports, alone, passes; and does not if no retry can succeed.
    #[test]
    fn a_request_passes_at_its_retry_after(limits in limits(), requests in requests()) {
        let mut states = vec![State::default(); 2 * limits.len()];
        let period = super::trace::period(&limits[0]);
        let mut now = START;
        for (pause, random) in requests {
            now += period / 1000 * pause;
            let charges = charges(&limits, &random);
            let (indexes, count) = state_indexes(&charges);
            let mut own = vec![State::default(); count];
            for (charge, index) in charges.iter().zip(&indexes) {
                own[*index] = state_of(&limits, &mut states, charge).clone();
            }
            let verdict = settle(&charges, &indexes, &mut own, Time::from_nanos(now));
            let at = |then: Time| settle(&charges, &indexes, &mut own.clone(), then);
            if let Some(wait) = verdict.retry_after() {
                let then = at(Time::from_nanos(now) + wait);
                prop_assert!(then.is_allowed(), "denied at retry_after {:?}: {:?}", wait, then);
                let takes = charges.iter().all(|charge| charge.action().is_plain_take());
                if takes && charges.iter().all(|charge| guarantees::has_exact_retry(charge.limit())) {
                    let early = at(Time::from_nanos(now) + wait.saturating_sub(Duration::from_nanos(1)));
                    prop_assert!(early.is_denied(), "allowed before retry_after {:?}: {:?}", wait, early);
                }
            } else if verdict.is_denied() {
                let fresh = own.iter().map(State::fresh_at).max().expect("a state").max(Time::from_nanos(now));
                prop_assert!(at(fresh).is_denied(), "no retry_after, but it passes: {:?}", verdict);
            }
            for (charge, index) in charges.iter().zip(&indexes) {
                *state_of(&limits, &mut states, charge) = own[*index].clone();
            }
        }
    }
}

/// A charge whose limit had room is reported as allowed: its limit is not why the request was denied.
#[test]
fn a_charge_whose_limit_had_room_is_reported_as_allowed() {
    let (a, b) =
        (Limit::per_second(1).build("a").expect("valid"), Limit::per_hour(1).build("b").expect("valid"));
    let now = Time::from_nanos(START);
    let mut states = vec![State::default(); 2];
    for (limit, state) in [&a, &b].into_iter().zip(&mut states) {
        assert!(state.apply(&limit.charge("k"), now).is_allowed());
    }
    let delayed = a.charge("k").with_max_wait(Duration::from_secs(2));
    let verdict = settle(&[delayed, b.charge("k")], &[0, 1], &mut states, now);
    assert!(verdict.is_denied());
    assert!(
        verdict.decisions()[0].is_allowed(),
        "it starts within its maximum wait: {:?}",
        verdict.decisions()[0]
    );
    let debit = a.charge("k").with_action(Action::Debit { at: None });
    let verdict = settle(&[debit, b.charge("k")], &[0, 1], &mut states, now);
    assert!(verdict.decisions()[0].is_allowed(), "a debit always passes: {:?}", verdict.decisions()[0]);
}
