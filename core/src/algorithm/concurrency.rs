//! Concurrency: at most N slots in use. Each holder has a lease that expires, so that the slot of a crashed holder is
//! freed.

use alloc::vec::Vec;

use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, LeaseId, Operation};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// The parameters of a concurrency limit.
#[derive(Clone, Debug)]
pub(crate) struct Concurrency {
    count: u32,
    /// How long a lease lasts if it is not renewed.
    lease: u64,
}

/// The leases that are held, the earliest expiry first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leases {
    held: Vec<HeldLease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldLease {
    expires: u64,
    id: LeaseId,
    slots: u64,
}

impl Leases {
    fn used(&self) -> u64 {
        self.held.iter().fold(0, |sum, held| sum.saturating_add(held.slots))
    }

    /// Returns the slots that a lease holds. Anonymous leases have no identity, so that is 0 for them.
    fn slots_of(&self, id: LeaseId) -> u64 {
        self.position(id).map_or(0, |index| self.held[index].slots)
    }

    fn position(&self, id: LeaseId) -> Option<usize> {
        self.held.iter().position(|held| held.id == id && id != LeaseId::ANONYMOUS)
    }

    fn insert(&mut self, lease: HeldLease) {
        // Anonymous leases with the same expiry are one entry, which keeps the state small.
        let same = |held: &&mut HeldLease| {
            lease.id == LeaseId::ANONYMOUS && held.id == lease.id && held.expires == lease.expires
        };
        if let Some(same) = self.held.iter_mut().find(same) {
            same.slots = same.slots.saturating_add(lease.slots);
            return;
        }
        let after = self.held.partition_point(|held| held.expires <= lease.expires);
        self.held.insert(after, lease);
    }

    /// Removes a lease, if it is held and not anonymous.
    fn remove(&mut self, id: LeaseId) -> Option<HeldLease> {
        self.position(id).map(|index| self.held.remove(index))
    }

    /// Returns when `slots` slots will have been freed, if no lease is renewed or released.
    fn frees_at(&self, slots: u64) -> u64 {
        let (mut missing, mut expires) = (slots, 0);
        for held in &self.held {
            missing = missing.saturating_sub(held.slots);
            expires = held.expires;
            if missing == 0 {
                break;
            }
        }
        expires
    }
}

impl Concurrency {
    pub(crate) fn new(count: u32, lease: u64) -> Self {
        Self { count, lease }
    }

    fn decision(&self, leases: &Leases, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let reset = nanos_until(self.fresh_at(leases).nanos(), now);
        Balance::used(self.count, leases.used(), reset).decision(outcome, granted, wait)
    }

    fn take(&self, leases: &mut Leases, now: Time, cost: u32, id: LeaseId) -> Decision {
        let needed = cost.max(1);
        if needed > self.count {
            return self.decision(leases, now, Outcome::NeverFits, 0, 0);
        }
        // A holder that acquires its lease again keeps it, with as many slots as it acquires now.
        let own = if cost > 0 { leases.remove(id) } else { None };
        let excess = leases.used().saturating_add(needed.into()).saturating_sub(self.count.into());
        if excess > 0 {
            // Work may end earlier, but the expiry of its lease is the only time that is known.
            let wait = nanos_until(leases.frees_at(excess), now);
            if let Some(own) = own {
                leases.insert(own);
            }
            return self.decision(leases, now, Outcome::Denied, 0, wait);
        }
        if cost > 0 {
            let expires = now.nanos().saturating_add(self.lease);
            leases.insert(HeldLease { expires, id, slots: cost.into() });
        }
        self.decision(leases, now, Outcome::Allowed, cost, 0)
    }
}

impl Decide for Concurrency {
    type State = Leases;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::Concurrency
    }

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Leases, now: Time, operation: &Operation) -> Decision {
        let Operation { cost, lease, action } = *operation;
        state.held.retain(|held| held.expires > now.nanos());
        match action {
            Action::Take { .. } => self.take(state, now, cost, lease),
            Action::TakeUpTo => {
                // The slots of the caller's own lease are available to it.
                let used_by_others = state.used().saturating_sub(state.slots_of(lease));
                let available = u64::from(self.count).saturating_sub(used_by_others);
                self.take(state, now, take_up_to_cost(cost, available), lease)
            }
            Action::Renew => match state.remove(lease) {
                // The slot of an expired lease may be in use again: its holder must acquire a new lease.
                None => self.decision(state, now, Outcome::LeaseLost, 0, 0),
                Some(held) => {
                    state.insert(HeldLease { expires: now.nanos().saturating_add(self.lease), ..held });
                    self.decision(state, now, Outcome::Allowed, saturate(held.slots), 0)
                }
            },
            Action::Release => {
                let slots = state.remove(lease).map_or(0, |held| held.slots);
                self.decision(state, now, Outcome::Allowed, saturate(slots), 0)
            }
            Action::Reset => {
                state.held.clear();
                self.decision(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Debit { .. } | Action::Refund { .. } => self.take(state, now, 0, LeaseId::ANONYMOUS),
        }
    }

    fn fresh_at(&self, state: &Leases) -> Time {
        state.held.last().map_or(Time::EPOCH, |last| Time::from_nanos(last.expires))
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the id")]
    fn to_words(state: &Leases) -> Vec<u64> {
        let halves = |id: u128| [(id >> 64) as u64, id as u64];
        state
            .held
            .iter()
            .flat_map(|held| {
                let [high, low] = halves(held.id.get());
                [held.expires, high, low, held.slots]
            })
            .collect()
    }

    fn from_words(words: &[u64]) -> Option<Leases> {
        let (leases, []) = words.as_chunks::<4>() else { return None };
        let held: Vec<_> = leases
            .iter()
            .map(|&[expires, high, low, slots]| HeldLease {
                expires,
                id: LeaseId::new(u128::from(high) << 64 | u128::from(low)),
                slots,
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
    fn the_slot_of_a_crashed_holder_is_freed_when_its_lease_expires() {
        let mut limit = Example::new(Limit::concurrent(20).lease(Duration::from_secs(30)));
        assert!((1..=20).all(|id| limit.lease(ACQUIRE, id).is_allowed()));
        limit.advance(Duration::from_secs(10));
        let full = limit.lease(ACQUIRE, 21);
        assert_eq!((full.is_denied(), full.retry_after()), (true, Some(Duration::from_secs(20))));
        // Holders 2 to 20 renew; the first one has crashed.
        assert!((2..=20).all(|id| limit.lease(Action::Renew, id).is_allowed()));
        limit.advance(Duration::from_secs(20));
        assert!(limit.lease(ACQUIRE, 21).is_allowed());
        assert!(limit.lease(ACQUIRE, 22).is_denied());
        assert!(limit.lease(Action::Renew, 1).is_denied(), "another holder has its slot");
    }

    #[test]
    fn a_release_frees_the_slot_once() {
        let mut limit = Example::new(Limit::concurrent(1));
        assert!(limit.lease(ACQUIRE, 1).is_allowed());
        assert!(limit.lease(ACQUIRE, 2).is_denied());
        assert_eq!(limit.lease(Action::Release, 2).granted(), 0, "not the holder");
        assert_eq!(limit.lease(Action::Release, 1).granted(), 1);
        assert_eq!(limit.lease(Action::Release, 1).granted(), 0, "already released");
        assert!(limit.lease(ACQUIRE, 2).is_allowed());
    }

    #[test]
    fn acquiring_a_held_lease_again_keeps_it() {
        let mut limit = Example::new(Limit::concurrent(1).lease(Duration::from_secs(5)));
        assert!(limit.lease(ACQUIRE, 1).is_allowed());
        limit.advance(Duration::from_secs(3));
        assert!(limit.lease(ACQUIRE, 1).is_allowed());
        limit.advance(Duration::from_secs(3));
        assert!(limit.lease(ACQUIRE, 2).is_denied());
    }
}
