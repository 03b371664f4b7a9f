//! Compares the concurrency limit with a map from leases to expiries.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Action, LeaseId, Limit, Outcome, Time};

use super::counting::Answer;
use super::guarantees;
use super::limits::build;
use super::trace::{START, cases};

const LEASE: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct Step {
    pause: u64,
    action: LeaseAction,
    /// 0 is anonymous.
    lease: u128,
    cost: u32,
}

#[derive(Clone, Copy, Debug)]
enum LeaseAction {
    Acquire,
    AcquireUpTo,
    Renew,
    Release,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![3 => Just(0), 2 => 1..300_u64, 1 => LEASE - 1..=LEASE + 1, 1 => Just(5000)];
    let action = prop_oneof![
        6 => Just(LeaseAction::Acquire),
        2 => Just(LeaseAction::AcquireUpTo),
        2 => Just(LeaseAction::Renew),
        2 => Just(LeaseAction::Release),
        1 => Just(LeaseAction::Reset),
    ];
    let step = (pause, action, 0..6_u128, 0..8_u32).prop_map(|(pause, action, lease, cost)| Step {
        pause,
        action,
        lease,
        cost: cost.max(1) - 1,
    });
    proptest::collection::vec(step, 1..50)
}

#[derive(Clone, Default)]
struct LeaseMap {
    slots: u64,
    /// Named leases by their id, anonymous ones by ids that no named lease has.
    held: BTreeMap<u128, (u64, u64)>,
    anonymous: u128,
}

impl LeaseMap {
    fn used(&self) -> u64 {
        self.held.values().map(|(_, slots)| slots).sum()
    }

    fn acquire(&mut self, now: u64, lease: u128, cost: u32, up_to: bool) -> (Outcome, u64) {
        // Acquiring a held lease again keeps it, with as many slots as are acquired now.
        let own = self.held.get(&lease).map_or(0, |(_, slots)| *slots);
        let others = if cost == 0 { self.used() } else { self.used() - own };
        let available = self.slots.saturating_sub(others);
        let needed = if up_to { u64::from(cost).min(available.max(1)) } else { cost.into() };
        if needed > self.slots {
            return (Outcome::NeverFits, 0);
        }
        if needed.max(1) > available {
            return (Outcome::Denied, 0);
        }
        if needed > 0 {
            self.anonymous += u128::from(lease == 0);
            let id = if lease == 0 { u128::MAX - self.anonymous } else { lease };
            self.held.insert(id, (now + LEASE, needed));
        }
        (Outcome::Allowed, needed)
    }

    fn answer(&mut self, now: u64, step: Step) -> Answer {
        self.held.retain(|_, (expires, _)| *expires > now);
        let (outcome, granted) = match step.action {
            LeaseAction::Acquire => self.acquire(now, step.lease, step.cost, false),
            LeaseAction::AcquireUpTo => self.acquire(now, step.lease, step.cost, true),
            LeaseAction::Renew => match self.held.get_mut(&step.lease) {
                None => (Outcome::Denied, 0),
                Some((expires, slots)) => {
                    *expires = now + LEASE;
                    (Outcome::Allowed, *slots)
                }
            },
            LeaseAction::Release => {
                (Outcome::Allowed, self.held.remove(&step.lease).map_or(0, |(_, slots)| slots))
            }
            LeaseAction::Reset => {
                self.held.clear();
                (Outcome::Allowed, 0)
            }
        };
        Answer { outcome, granted, left: i128::from(self.slots) - i128::from(self.used()) }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_concurrency_limit_is_a_map_of_leases(slots in 1..6_u32, steps in steps()) {
        let limit = build(Limit::concurrent(slots).lease(Duration::from_nanos(LEASE)));
        let mut model = LeaseMap { slots: slots.into(), ..LeaseMap::default() };
        let (mut state, mut now) = (State::default(), START);
        for step in steps {
            now += step.pause;
            let action = match step.action {
                LeaseAction::Acquire => Action::Take { max_wait: None },
                LeaseAction::AcquireUpTo => Action::TakeUpTo,
                LeaseAction::Renew => Action::Renew,
                LeaseAction::Release => Action::Release,
                LeaseAction::Reset => Action::Reset,
            };
            let charge = limit.charge("k").with_cost(step.cost).with_action(action);
            let charge = charge.with_lease(LeaseId::new(step.lease));
            let instant = Time::from_nanos(now);
            let decision = state.apply(&charge, instant);
            let mut answer = Answer::of(&decision);
            if matches!(step.action, LeaseAction::Renew) && decision.is_denied() {
                // The outcome of a denied renewal has its own test.
                answer.outcome = Outcome::Denied;
            }
            prop_assert_eq!(answer, model.answer(now, step), "{:?}", step);
            guarantees::reset_is_exact(&limit, &state, instant, &decision)?;
            // A lost lease cannot be renewed by waiting.
            if !matches!(step.action, LeaseAction::Renew) {
                guarantees::retry_is_exact(&state, instant, &charge, &decision)
                    .map_err(|error| TestCaseError::fail(format!("{error} after {step:?}: {decision:?}")))?;
            }
        }
    }
}

/// A lost lease cannot be renewed later either.
#[test]
fn a_lost_lease_has_no_immediate_retry() {
    let limit = build(Limit::concurrent(3));
    let renew = limit.charge("k").with_action(Action::Renew).with_lease(LeaseId::new(7));
    let decision = State::default().apply(&renew, Time::from_nanos(START));
    assert!(decision.is_denied());
    assert_ne!(decision.retry_after(), Some(Duration::ZERO));
}

/// The holder of a lease that is to grow has its slots already: their expiry frees nothing for it.
#[test]
fn a_lease_that_grows_waits_for_others() {
    let limit = build(Limit::concurrent(3).lease(Duration::from_secs(10)));
    let (mut state, start) = (State::default(), Time::from_nanos(START));
    let acquire = |cost: u32, lease: u128| limit.charge("k").with_cost(cost).with_lease(LeaseId::new(lease));
    assert!(state.apply(&acquire(1, 1), start).is_allowed());
    let later = start + Duration::from_secs(4);
    assert!(state.apply(&acquire(2, 2), later).is_allowed());
    assert_eq!(state.apply(&acquire(2, 1), later).retry_after(), Some(Duration::from_secs(10)));
}

/// A take-up-to with a held lease does not shrink it: its own slots are available to it.
#[test]
fn a_repeated_take_up_to_keeps_the_held_slots() {
    let limit = build(Limit::concurrent(3));
    let (mut state, start) = (State::default(), Time::from_nanos(START));
    let most = limit.charge("k").with_cost(3).with_action(Action::TakeUpTo).with_lease(LeaseId::new(1));
    assert_eq!(state.apply(&most, start).granted(), 3);
    assert_eq!(state.apply(&most, start).granted(), 3);
}
