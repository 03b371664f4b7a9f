//! Work in flight beside a map from leases to expiries.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Action, LeaseId, Limit, Outcome, Time};

use super::limits::build;
use super::promises;
use super::trace::{Answer, BEGIN, cases};

const LEASE: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct Step {
    pause: u64,
    verb: Verb,
    /// 0 is anonymous.
    lease: u128,
    cost: u32,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Acquire,
    AcquireUpTo,
    Renew,
    Release,
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![3 => Just(0), 2 => 1..300_u64, 1 => LEASE - 1..=LEASE + 1, 1 => Just(5000)];
    let verb = prop_oneof![
        6 => Just(Verb::Acquire),
        2 => Just(Verb::AcquireUpTo),
        2 => Just(Verb::Renew),
        2 => Just(Verb::Release),
        1 => Just(Verb::Forget),
    ];
    let step = (pause, verb, 0..6_u128, 0..8_u32).prop_map(|(pause, verb, lease, cost)| Step {
        pause,
        verb,
        lease,
        cost: cost.max(1) - 1,
    });
    proptest::collection::vec(step, 1..50)
}

#[derive(Clone, Default)]
struct InFlight {
    places: u64,
    /// Named leases by their id, anonymous ones by numbers that no id has.
    held: BTreeMap<u128, (u64, u64)>,
    anonymous: u128,
}

impl InFlight {
    fn used(&self) -> u64 {
        self.held.values().map(|(_, places)| places).sum()
    }

    fn acquire(&mut self, now: u64, lease: u128, cost: u32, up_to: bool) -> (Outcome, u64) {
        // Asking again for a held lease keeps it, for as much as is asked now.
        let mine = self.held.get(&lease).map_or(0, |(_, places)| *places);
        let others = if cost == 0 { self.used() } else { self.used() - mine };
        let there = self.places.saturating_sub(others);
        let asked = if up_to { u64::from(cost).min(there.max(1)) } else { cost.into() };
        if asked > self.places {
            return (Outcome::NeverFits, 0);
        }
        if asked.max(1) > there {
            return (Outcome::Denied, 0);
        }
        if asked > 0 {
            self.anonymous += u128::from(lease == 0);
            let id = if lease == 0 { u128::MAX - self.anonymous } else { lease };
            self.held.insert(id, (now + LEASE, asked));
        }
        (Outcome::Allowed, asked)
    }

    fn answer(&mut self, now: u64, step: Step) -> Answer {
        self.held.retain(|_, (expires, _)| *expires > now);
        let (outcome, granted) = match step.verb {
            Verb::Acquire => self.acquire(now, step.lease, step.cost, false),
            Verb::AcquireUpTo => self.acquire(now, step.lease, step.cost, true),
            Verb::Renew => match self.held.get_mut(&step.lease) {
                None => (Outcome::Denied, 0),
                Some((expires, places)) => {
                    *expires = now + LEASE;
                    (Outcome::Allowed, *places)
                }
            },
            Verb::Release => {
                (Outcome::Allowed, self.held.remove(&step.lease).map_or(0, |(_, places)| places))
            }
            Verb::Forget => {
                self.held.clear();
                (Outcome::Allowed, 0)
            }
        };
        Answer { outcome, granted, left: i128::from(self.places) - i128::from(self.used()) }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn concurrency_is_a_map_of_leases(places in 1..6_u32, steps in steps()) {
        let limit = build(Limit::concurrent(places).lease(Duration::from_nanos(LEASE)));
        let mut model = InFlight { places: places.into(), ..InFlight::default() };
        let (mut state, mut now) = (State::default(), BEGIN);
        for step in steps {
            now += step.pause;
            let action = match step.verb {
                Verb::Acquire => Action::Take { max_wait: None },
                Verb::AcquireUpTo => Action::TakeUpTo,
                Verb::Renew => Action::Renew,
                Verb::Release => Action::Release,
                Verb::Forget => Action::Reset,
            };
            let charge = limit.charge("k").with_cost(step.cost).with_action(action).with_lease(LeaseId::new(step.lease));
            let instant = Time::from_nanos(now);
            let seen = state.apply(&charge, instant);
            let mut answer = Answer::of(&seen);
            if matches!(step.verb, Verb::Renew) && seen.is_denied() {
                // Which kind of denial, the test below looks at.
                answer.outcome = Outcome::Denied;
            }
            prop_assert_eq!(answer, model.answer(now, step), "{:?}", step);
            promises::reset_is_exact(&limit, &state, instant, &seen)?;
            // If nobody releases, leases end when they end. A lease that is gone can't be renewed by waiting.
            if !matches!(step.verb, Verb::Renew) {
                promises::retry_is_exact(&state, instant, &charge, &seen)
                    .map_err(|error| TestCaseError::fail(format!("{error} after {step:?}: {seen:?}")))?;
            }
        }
    }
}

/// No wait brings a lease back that is gone: there is no use in trying to renew it again.
#[test]
fn a_lost_lease_is_not_to_be_retried_at_once() {
    let limit = build(Limit::concurrent(3));
    let renew = limit.charge("k").with_action(Action::Renew).with_lease(LeaseId::new(7));
    let seen = State::default().apply(&renew, Time::from_nanos(BEGIN));
    assert!(seen.is_denied());
    assert_ne!(seen.retry_after(), Some(Duration::ZERO));
}

/// The places of a lease that its holder asks to enlarge are the holder's already: their end frees nothing.
#[test]
fn enlarging_a_lease_waits_for_others() {
    let limit = build(Limit::concurrent(3).lease(Duration::from_secs(10)));
    let (mut state, begin) = (State::default(), Time::from_nanos(BEGIN));
    let acquire = |cost: u32, lease: u128| limit.charge("k").with_cost(cost).with_lease(LeaseId::new(lease));
    assert!(state.apply(&acquire(1, 1), begin).is_allowed());
    let later = begin + Duration::from_secs(4);
    assert!(state.apply(&acquire(2, 2), later).is_allowed());
    assert_eq!(state.apply(&acquire(2, 1), later).retry_after(), Some(Duration::from_secs(10)));
}

/// Taking as much as there is under a lease that is held does not shrink it: its own places are there too.
#[test]
fn taking_up_to_again_keeps_what_is_held() {
    let limit = build(Limit::concurrent(3));
    let (mut state, begin) = (State::default(), Time::from_nanos(BEGIN));
    let most = limit.charge("k").with_cost(3).with_action(Action::TakeUpTo).with_lease(LeaseId::new(1));
    assert_eq!(state.apply(&most, begin).granted(), 3);
    assert_eq!(state.apply(&most, begin).granted(), 3);
}
