//! Requests of several charges beside a naive model: try them all on copies, keep the copies if all pass.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{State, settle, slots};
use tollgate_core::{Action, Charge, Limit, LimitBuilder, Outcome, Time};

use super::limits::builders;
use super::trace::{BEGIN, cases};

/// A few limits, blocking or not, under names of their own.
fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let named = |limits: Vec<(LimitBuilder, bool)>| {
        let name = |(index, (limit, block)): (usize, (LimitBuilder, bool))| {
            let limit = if block { limit.block_for(Duration::from_secs(2)) } else { limit };
            limit.build(&format!("limit {index}")).expect("numbers within bounds")
        };
        limits.into_iter().enumerate().map(name).collect()
    };
    proptest::collection::vec((builders(), any::<bool>()), 1..4).prop_map(named)
}

/// Which limit, which of two keys, how much, and what.
type Wish = (proptest::sample::Index, bool, u32, u8);

fn charges<'l>(limits: &'l [Limit], wishes: &[Wish]) -> Vec<Charge<'l>> {
    let charge = |(limit, key, cost, verb): &Wish| {
        let limit = limit.get(limits);
        let action = match verb {
            0 => Action::TakeUpTo,
            1 => Action::Debit { at: None },
            2 => Action::Refund { at: None },
            3 if limit.kind().reserves() => Action::Take { max_wait: Some(limit.period() / 3) },
            _ => Action::Take { max_wait: None },
        };
        let charge = limit.charge(if *key { "a" } else { "b" }).with_cost(*cost);
        let acted = charge.with_action(action);
        if acted.supported().is_ok() { acted } else { charge }
    };
    wishes.iter().map(charge).collect()
}

fn requests() -> impl Strategy<Value = Vec<(u64, Vec<Wish>)>> {
    let wish = (any::<proptest::sample::Index>(), any::<bool>(), 0..5_u32, 0..10_u8);
    proptest::collection::vec((0..1500_u64, proptest::collection::vec(wish, 1..5)), 1..15)
}

/// All states there can be: every limit under both keys.
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
        let mut now = BEGIN;
        for (pause, wishes) in requests {
            now += period / 1000 * pause;
            let instant = Time::from_nanos(now);
            let charges = charges(&limits, &wishes);

            // The naive way: one after the other, on copies.
            let mut copies = states.clone();
            let alone: Vec<_> =
                charges.iter().map(|charge| state_of(&limits, &mut copies, charge).apply(charge, instant)).collect();
            let passes = alone.iter().all(tollgate_core::Decision::is_allowed);

            // Charges with the same limit and key share a state; each gets its own.
            let (slots, count) = slots(&charges);
            let mut own = vec![State::default(); count];
            for (charge, slot) in charges.iter().zip(&slots) {
                own[*slot] = state_of(&limits, &mut states, charge).clone();
            }
            let before = own.clone();
            let verdict = settle(&charges, &slots, &mut own, instant);

            // Whoever blocks denies what comes after it on the same key, even alone: only the first counts.
            prop_assert_eq!(verdict.is_allowed(), passes, "{:?}", alone);
            if passes {
                prop_assert_eq!(verdict.decisions(), &alone[..]);
            } else {
                for (index, decision) in verdict.decisions().iter().enumerate() {
                    prop_assert_eq!(decision.granted(), 0, "charge {} was debited", index);
                }
                // Nothing was debited: whoever was not denied has lost nothing.
                for (slot, (before, after)) in before.iter().zip(&own).enumerate() {
                    let of_slot = || charges.iter().zip(&slots).zip(verdict.decisions()).filter(|((_, of), _)| **of == slot);
                    if of_slot().all(|(_, decision)| decision.is_allowed()) {
                        let ((charge, _), _) = of_slot().next().expect("a slot has a charge");
                        let look = charge.limit().charge("k").with_cost(0);
                        prop_assert_eq!(before.clone().apply(&look, instant), after.clone().apply(&look, instant));
                    }
                }
                // The tight one waits longest, or can never pass.
                let tight = verdict.most_restrictive().expect("there are charges");
                prop_assert!(tight.is_denied());
                if tight.outcome() == Outcome::Denied {
                    let longest = verdict.decisions().iter().filter_map(tollgate_core::Decision::retry_after).max();
                    prop_assert_eq!(tight.retry_after(), longest);
                }
            }
            for (charge, slot) in charges.iter().zip(&slots) {
                *state_of(&limits, &mut states, charge) = own[*slot].clone();
            }
        }
    }
}

/// A charge that would have passed says so, whatever it does: its limit is not why the request was denied.
#[test]
fn a_charge_that_had_room_is_not_denied_by_another() {
    let (a, b) =
        (Limit::per_second(1).build("a").expect("valid"), Limit::per_hour(1).build("b").expect("valid"));
    let now = Time::from_nanos(BEGIN);
    let mut states = vec![State::default(); 2];
    for (limit, state) in [&a, &b].into_iter().zip(&mut states) {
        assert!(state.apply(&limit.charge("k"), now).is_allowed());
    }
    let due_soon = a.charge("k").with_max_wait(Duration::from_secs(2));
    let verdict = settle(&[due_soon, b.charge("k")], &[0, 1], &mut states, now);
    assert!(verdict.is_denied());
    assert!(
        verdict.decisions()[0].is_allowed(),
        "it becomes due within its wait: {:?}",
        verdict.decisions()[0]
    );
    let debit = a.charge("k").with_action(Action::Debit { at: None });
    let verdict = settle(&[debit, b.charge("k")], &[0, 1], &mut states, now);
    assert!(verdict.decisions()[0].is_allowed(), "a debit always passes: {:?}", verdict.decisions()[0]);
}
