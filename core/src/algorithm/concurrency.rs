//! Concurrency: at most N in flight. Each holds a lease with an expiry, so that the place of a holder
//! that crashed comes back.

use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask, LeaseId};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// Work in flight.
#[derive(Clone, Debug)]
pub(crate) struct Concurrency {
    count: u32,
    /// How long a lease lasts unless it is renewed.
    lease: u64,
}

/// Who is in flight, the earliest expiry first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases {
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    expires: u64,
    id: LeaseId,
    places: u64,
}

impl Leases {
    fn used(&self) -> u64 {
        self.held.iter().fold(0, |sum, held| sum.saturating_add(held.places))
    }

    fn insert(&mut self, held: Held) {
        // Anonymous places that end together are one entry, so that merging can tell views of them apart.
        let same = |other: &&mut Held| {
            held.id == LeaseId::ANONYMOUS && other.id == held.id && other.expires == held.expires
        };
        if let Some(same) = self.held.iter_mut().find(same) {
            same.places = same.places.saturating_add(held.places);
            return;
        }
        let after = self.held.partition_point(|other| other.expires <= held.expires);
        self.held.insert(after, held);
    }

    /// Takes the lease out, if it is held. Nobody can name an anonymous one.
    fn remove(&mut self, id: LeaseId) -> Option<Held> {
        let index = self.held.iter().position(|held| held.id == id && id != LeaseId::ANONYMOUS)?;
        Some(self.held.remove(index))
    }
}

impl Concurrency {
    pub(crate) fn new(count: u32, lease: u64) -> Self {
        Self { count, lease }
    }

    fn answer(&self, leases: &Leases, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let left = i64::from(self.count).saturating_sub_unsigned(leases.used());
        let reset = ahead(self.fresh_at(leases).nanos(), now);
        Count { limit: self.count, left, reset }.answer(outcome, granted, wait)
    }

    fn take(&self, leases: &mut Leases, now: Time, cost: u32, id: LeaseId) -> Decision {
        let asked = cost.max(1);
        if asked > self.count {
            return self.answer(leases, now, Outcome::NeverFits, 0, 0);
        }
        // Who asks again for a lease they hold keeps it, for as much as they ask now.
        let mine = if cost > 0 { leases.remove(id) } else { None };
        let mut excess = leases.used().saturating_add(asked.into()).saturating_sub(self.count.into());
        if excess > 0 {
            // Nobody knows when work ends; at the latest its lease does.
            let mut wait = 0;
            for held in &leases.held {
                excess = excess.saturating_sub(held.places);
                wait = ahead(held.expires, now);
                if excess == 0 {
                    break;
                }
            }
            if let Some(mine) = mine {
                leases.insert(mine);
            }
            return self.answer(leases, now, Outcome::Denied, 0, wait);
        }
        if cost > 0 {
            let expires = now.nanos().saturating_add(self.lease);
            leases.insert(Held { expires, id, places: cost.into() });
        }
        self.answer(leases, now, Outcome::Allowed, cost, 0)
    }
}

impl Rules for Concurrency {
    type State = Leases;

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Leases, now: Time, ask: &Ask) -> Decision {
        state.held.retain(|held| held.expires > now.nanos());
        match ask.action {
            Action::Take { .. } => self.take(state, now, ask.cost, ask.lease),
            Action::TakeUpTo => {
                // What its own lease holds is there for it too.
                let named = ask.lease != LeaseId::ANONYMOUS;
                let mine = state
                    .held
                    .iter()
                    .find(|held| named && held.id == ask.lease)
                    .map_or(0, |held| held.places);
                let there = u64::from(self.count).saturating_sub(state.used().saturating_sub(mine));
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(state, now, part.max(ask.cost.min(1)), ask.lease)
            }
            Action::Renew => match state.remove(ask.lease) {
                // A lease that has ended may be another's place by now: its holder must acquire again.
                None => self.answer(state, now, Outcome::LeaseLost, 0, 0),
                Some(held) => {
                    let granted = u32::try_from(held.places).unwrap_or(u32::MAX);
                    state.insert(Held { expires: now.nanos().saturating_add(self.lease), ..held });
                    self.answer(state, now, Outcome::Allowed, granted, 0)
                }
            },
            Action::Release => {
                let places = state.remove(ask.lease).map_or(0, |held| held.places);
                self.answer(state, now, Outcome::Allowed, u32::try_from(places).unwrap_or(u32::MAX), 0)
            }
            Action::Reset => {
                state.held.clear();
                self.answer(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Debit { .. } | Action::Refund { .. } => self.take(state, now, 0, LeaseId::ANONYMOUS),
        }
    }

    fn fresh_at(&self, state: &Leases) -> Time {
        state.held.last().map_or(Time::EPOCH, |last| Time::from_nanos(last.expires))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the id")]
    fn words(state: &Leases) -> Vec<u64> {
        let halves = |id: u128| [(id >> 64) as u64, id as u64];
        state
            .held
            .iter()
            .flat_map(|held| {
                let [high, low] = halves(held.id.get());
                [held.expires, high, low, held.places]
            })
            .collect()
    }

    fn from_words(words: &[u64]) -> Option<Leases> {
        let (leases, []) = words.as_chunks::<4>() else { return None };
        let held: Vec<_> = leases
            .iter()
            .map(|&[expires, high, low, places]| Held {
                expires,
                id: LeaseId::new(u128::from(high) << 64 | u128::from(low)),
                places,
            })
            .collect();
        held.is_sorted_by_key(|held| held.expires).then_some(Leases { held })
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::charge::Action;
    use crate::worked_example::Example;

    const ACQUIRE: Action = Action::Take { max_wait: None };

    #[test]
    fn the_place_of_a_crashed_holder_comes_back_after_its_lease() {
        let mut flight = Example::new(Limit::concurrent(20).lease(Duration::from_secs(30)));
        assert!((1..=20).all(|id| flight.lease(ACQUIRE, id).is_allowed()));
        flight.advance(Duration::from_secs(10));
        let full = flight.lease(ACQUIRE, 21);
        assert_eq!((full.is_denied(), full.retry_after()), (true, Some(Duration::from_secs(20))));
        // Holders 2 to 20 live and renew; the first was killed.
        assert!((2..=20).all(|id| flight.lease(Action::Renew, id).is_allowed()));
        flight.advance(Duration::from_secs(20));
        assert!(flight.lease(ACQUIRE, 21).is_allowed());
        assert!(flight.lease(ACQUIRE, 22).is_denied());
        assert!(flight.lease(Action::Renew, 1).is_denied(), "its place is another's now");
    }

    #[test]
    fn a_release_frees_the_place_once() {
        let mut flight = Example::new(Limit::concurrent(1));
        assert!(flight.lease(ACQUIRE, 1).is_allowed());
        assert!(flight.lease(ACQUIRE, 2).is_denied());
        assert_eq!(flight.lease(Action::Release, 2).granted(), 0, "not the holder");
        assert_eq!(flight.lease(Action::Release, 1).granted(), 1);
        assert_eq!(flight.lease(Action::Release, 1).granted(), 0, "already gone");
        assert!(flight.lease(ACQUIRE, 2).is_allowed());
    }

    #[test]
    fn asking_again_for_a_held_lease_keeps_it() {
        let mut flight = Example::new(Limit::concurrent(1).lease(Duration::from_secs(5)));
        assert!(flight.lease(ACQUIRE, 1).is_allowed());
        flight.advance(Duration::from_secs(3));
        assert!(flight.lease(ACQUIRE, 1).is_allowed());
        flight.advance(Duration::from_secs(3));
        assert!(flight.lease(ACQUIRE, 2).is_denied());
    }
}
