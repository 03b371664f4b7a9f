//! Concurrency: at most N slots in use. Each holder has a lease that expires, so that the slot of a crashed holder is
//! freed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::sum_tree::{Entry, SumTree};
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

/// The leases that are held.
///
/// Behind one pointer: a store has many states of other algorithms, which take as much room as the largest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    trees: Box<LeaseTrees>,
}

#[derive(Clone, Debug, Default)]
struct LeaseTrees {
    /// The earliest expiry first.
    held: SumTree<HeldLease>,
    /// Where every held lease is in `held`. Leases in `expired` may be here, too.
    by_name: SumTree<Place>,
    /// Leases that have expired and are to be removed from `by_name`. Any number of them can expire at once, so they are
    /// removed a few at a time.
    expired: SumTree<HeldLease>,
    next_number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldLease {
    expires: u64,
    /// Orders leases with the same expiry. No lease has the number of an earlier one.
    number: u64,
    id: LeaseId,
    slots: u64,
}

impl HeldLease {
    fn name(&self) -> Name {
        Name::of(self.id, self.expires)
    }
}

impl Entry for HeldLease {
    type Key = (u64, u64);

    fn key(&self) -> (u64, u64) {
        (self.expires, self.number)
    }

    fn weight(&self) -> u64 {
        self.slots
    }
}

/// What identifies a lease: its id, or its expiry if it is anonymous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    id: LeaseId,
    expires: u64,
}

impl Name {
    fn of(id: LeaseId, expires: u64) -> Self {
        Self { id, expires: if id == LeaseId::ANONYMOUS { expires } else { 0 } }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    name: Name,
    /// The key in `held`.
    key: (u64, u64),
}

impl Entry for Place {
    type Key = Name;

    fn key(&self) -> Name {
        self.name
    }

    fn weight(&self) -> u64 {
        1
    }
}

impl Leases {
    fn used(&self) -> u64 {
        self.trees.held.sum()
    }

    /// Returns the slots that a lease holds. Anonymous leases have no identity, so that is 0 for them.
    fn slots_of(&self, id: LeaseId) -> u64 {
        self.get(id).map_or(0, |held| held.slots)
    }

    fn get(&self, id: LeaseId) -> Option<&HeldLease> {
        if id == LeaseId::ANONYMOUS { None } else { self.named(Name::of(id, 0)) }
    }

    fn named(&self, name: Name) -> Option<&HeldLease> {
        self.trees.held.get(self.trees.by_name.get(name)?.key)
    }

    fn insert(&mut self, expires: u64, id: LeaseId, slots: u64) {
        self.forget_expired();
        let name = Name::of(id, expires);
        // Anonymous leases with the same expiry are one entry, which keeps the state small.
        let same = if id == LeaseId::ANONYMOUS { self.named(name).copied() } else { None };
        let trees = &mut *self.trees;
        if let Some(same) = same {
            trees.held.insert(HeldLease { slots: same.slots.saturating_add(slots), ..same });
            return;
        }
        let lease = HeldLease { expires, number: trees.next_number, id, slots };
        trees.next_number += 1;
        trees.held.insert(lease);
        trees.by_name.insert(Place { name, key: lease.key() });
    }

    /// Removes a lease, if it is held and not anonymous.
    fn remove(&mut self, id: LeaseId) -> Option<HeldLease> {
        let held = *self.get(id)?;
        self.trees.held.remove(held.key());
        self.trees.by_name.remove(held.name());
        Some(held)
    }

    fn remove_expired(&mut self, now: u64) {
        if self.trees.held.first().is_some_and(|first| first.expires <= now) {
            let expired = self.trees.held.split_front(|(expires, _), _| expires <= now);
            self.trees.expired.append(expired);
        }
    }

    /// Removes expired leases from the index: more than one for each insertion, so that most of it is held leases.
    fn forget_expired(&mut self) {
        let trees = &mut *self.trees;
        for _ in 0..2 {
            let Some(expired) = trees.expired.pop_first() else { return };
            // Its id may have been acquired again.
            if trees.by_name.get(expired.name()).is_some_and(|place| place.key == expired.key()) {
                trees.by_name.remove(expired.name());
            }
        }
    }

    /// Returns when `slots` slots will have been freed, if no lease is renewed or released.
    fn frees_at(&self, slots: u64) -> u64 {
        let held = &self.trees.held;
        let last = held.first_behind(|_, sum| sum < slots).map(|lease| lease.expires);
        last.unwrap_or_else(|| self.last_expiry())
    }

    /// Returns when the last lease expires; zero if none is held.
    fn last_expiry(&self) -> u64 {
        self.trees.held.last_key().map_or(0, |(expires, _)| expires)
    }
}

/// Compares the leases that are held, in the order of their expiries.
impl PartialEq for Leases {
    fn eq(&self, other: &Self) -> bool {
        let parts = |lease: &HeldLease| (lease.expires, lease.id, lease.slots);
        self.trees.held.iter().map(parts).eq(other.trees.held.iter().map(parts))
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
                leases.insert(own.expires, own.id, own.slots);
            }
            return self.decision(leases, now, Outcome::Denied, 0, wait);
        }
        if cost > 0 {
            let expires = now.nanos().saturating_add(self.lease);
            leases.insert(expires, id, cost.into());
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
        state.remove_expired(now.nanos());
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
                    state.insert(now.nanos().saturating_add(self.lease), lease, held.slots);
                    self.decision(state, now, Outcome::Allowed, saturate(held.slots), 0)
                }
            },
            Action::Release => {
                let slots = state.remove(lease).map_or(0, |held| held.slots);
                self.decision(state, now, Outcome::Allowed, saturate(slots), 0)
            }
            Action::Reset => {
                *state = Leases::default();
                self.decision(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Debit { .. } | Action::Refund { .. } => self.take(state, now, 0, LeaseId::ANONYMOUS),
        }
    }

    fn fresh_at(&self, state: &Leases) -> Time {
        Time::from_nanos(state.last_expiry())
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the id")]
    fn to_words(state: &Leases) -> Vec<u64> {
        let halves = |id: u128| [(id >> 64) as u64, id as u64];
        let held = state.trees.held.iter();
        held.flat_map(|held| {
            let [high, low] = halves(held.id.get());
            [held.expires, high, low, held.slots]
        })
        .collect()
    }

    fn from_words(words: &[u64]) -> Option<Leases> {
        let (leases, []) = words.as_chunks::<4>() else { return None };
        if !leases.is_sorted_by_key(|[expires, ..]| *expires) {
            return None;
        }
        let mut state = Leases::default();
        for &[expires, high, low, slots] in leases {
            let id = LeaseId::new(u128::from(high) << 64 | u128::from(low));
            if state.named(Name::of(id, expires)).is_some() {
                return None;
            }
            state.insert(expires, id, slots);
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::Limit;
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

    #[test]
    fn leases_that_expire_leave_the_index() {
        let (limit, mut leases) = (Concurrency::new(100, 1_000), Leases::default());
        for number in 0..2_000_u64 {
            // A hundred are acquired at once, and all of them expire before the next hundred. The same id is the first
            // and the last of each hundred, so that it is held again before its expired lease leaves the index.
            let now = Time::from_nanos(number / 100 * 5_000);
            let id = if matches!(number % 100, 0 | 99) { 1 } else { number + 2 };
            let acquire = Operation { cost: 1, action: ACQUIRE, lease: LeaseId::new(id.into()) };
            assert!(limit.decide(&mut leases, now, &acquire).is_allowed());
            for id in [1, id] {
                assert_eq!(leases.slots_of(LeaseId::new(id.into())), 1, "lease {id} is held");
            }
            let LeaseTrees { held, by_name, expired, .. } = &*leases.trees;
            assert!(expired.len() <= 100, "those of one round");
            assert!(by_name.len() <= held.len() + expired.len());
        }
    }

    #[test]
    fn a_lease_that_is_there_twice_is_corrupt() {
        let twice = |id: u64, expires: [u64; 2]| expires.map(|expires| [expires, 0, id, 1]).concat();
        assert!(Concurrency::from_words(&twice(7, [100, 200])).is_none(), "an id");
        assert!(Concurrency::from_words(&twice(0, [100, 100])).is_none(), "an expiry of anonymous slots");
        assert!(Concurrency::from_words(&twice(0, [100, 200])).is_some());
    }
}
