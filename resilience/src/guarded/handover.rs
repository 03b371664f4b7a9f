//! What another store granted while the store was away, to be told to it when it is back.
//!
//! Only of limits that remember for long: of one that is as good as new within seconds there is nothing to tell. The
//! list is bounded by keys; what does not fit is counted. Each amount is told as a debit at the instant it was
//! granted, under an operation id of its own, so that a telling that failed can be repeated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::{Equivalent, IndexMap};
use tollgate_core::{Action, Charge, Decision, Key, Limit, MAX_COUNT, OperationId, OwnedKey, Time};

use super::policy::Shared;

/// Amounts of one key are told apart to this part of the time that the limit remembers.
const GRAIN: u32 = 16;
/// The most amounts of one key; older ones are added up.
const MOST_AMOUNTS: usize = 3 * GRAIN as usize;

#[derive(Debug)]
pub(crate) struct HandOver {
    most_keys: usize,
    /// Limits that remember for less are not told of.
    shortest: Duration,
    /// Whether there is anything on the list: read on every call, so it does not take the lock.
    waiting: AtomicBool,
    list: Mutex<IndexMap<Whom, Owed>>,
    lost: AtomicU64,
}

/// Whose state: a limit by its id, and a key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Whom {
    limit: u64,
    key: OwnedKey,
}

/// The same, to look for. Hashes like [`Whom`], because a key's twin hashes like the key.
#[derive(Hash)]
struct Sought<'a> {
    limit: u64,
    key: Key<'a>,
}

impl Equivalent<Whom> for Sought<'_> {
    fn equivalent(&self, whom: &Whom) -> bool {
        self.limit == whom.limit && self.key == whom.key.as_key()
    }
}

/// What the store has to be told of one state.
#[derive(Debug)]
struct Owed {
    limit: Limit,
    amounts: Vec<Amount>,
}

/// What was granted within a short time; below zero is more given back than granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    since: Time,
    at: Time,
    sum: i64,
    /// Once it has been tried to tell: the same id from then on, and nothing is added any more.
    id: Option<OperationId>,
}

/// One amount on its way to the store.
#[derive(Debug)]
pub(crate) struct Telling {
    limit: Limit,
    key: OwnedKey,
    amount: Amount,
    pub(crate) id: OperationId,
}

impl Telling {
    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(crate) fn key(&self) -> Key<'_> {
        self.key.as_key()
    }

    /// The charge for a store whose clock is `ahead` nanoseconds ahead of the callers'.
    pub(crate) fn charge(&self, ahead: i64) -> Charge<'_> {
        let at = Some(Time::from_nanos(self.amount.at.nanos().saturating_add_signed(ahead)));
        let action = if self.amount.sum < 0 { Action::Refund { at } } else { Action::Debit { at } };
        let cost = u32::try_from(self.amount.sum.unsigned_abs()).unwrap_or(MAX_COUNT).min(MAX_COUNT);
        self.limit.charge(self.key()).cost(cost).action(action)
    }

    /// How much it is about.
    pub(crate) fn sum(&self) -> u64 {
        self.amount.sum.unsigned_abs()
    }
}

impl Default for HandOver {
    fn default() -> Self {
        Self::new(10_000, Duration::from_secs(10))
    }
}

impl HandOver {
    pub(crate) fn new(most_keys: usize, shortest: Duration) -> Self {
        Self {
            most_keys,
            shortest,
            waiting: AtomicBool::new(false),
            list: Mutex::default(),
            lost: AtomicU64::new(0),
        }
    }

    /// Whether there is something to tell.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many keys are on the list.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How much did not fit on the list since this was last asked.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Remembers what the other store granted. How much was lost, if the list is full.
    #[inline]
    pub(crate) fn note(&self, shared: &Shared, charge: &Charge<'_>, decision: &Decision, now: Time) -> u64 {
        match shared.memory.filter(|memory| *memory >= self.shortest) {
            Some(memory) => self.add(shared, memory, charge, decision, now),
            None => 0,
        }
    }

    fn add(
        &self,
        shared: &Shared,
        memory: Duration,
        charge: &Charge<'_>,
        decision: &Decision,
        now: Time,
    ) -> u64 {
        let granted = i64::from(decision.granted());
        let (sum, at) = match charge.get_action() {
            _ if decision.is_denied() || granted == 0 => return 0,
            Action::Refund { at } => (-granted, at.unwrap_or(now)),
            Action::Debit { at } => (granted, at.unwrap_or(now)),
            _ => (granted, now),
        };
        let sought = Sought { limit: shared.whole.id(), key: charge.key() };
        let mut list = self.lock();
        if let Some(owed) = list.get_mut(&sought) {
            owed.add(Amount { since: at, at, sum, id: None }, memory, now);
            return 0;
        }
        if list.len() >= self.most_keys {
            self.lost.fetch_add(sum.unsigned_abs(), Ordering::Relaxed);
            return sum.unsigned_abs();
        }
        let whom = Whom { limit: sought.limit, key: charge.key().into() };
        let amounts = vec![Amount { since: at, at, sum, id: None }];
        list.insert(whom, Owed { limit: shared.whole.clone(), amounts });
        self.waiting.store(true, Ordering::Relaxed);
        0
    }

    /// Takes about `most` amounts off the list, those of the keys that came last first.
    pub(crate) fn take(&self, most: usize) -> Taken<'_> {
        let mut list = self.lock();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((whom, owed)) = list.pop()
        {
            taken.extend(owed.amounts.into_iter().filter(|amount| amount.sum != 0).map(|amount| Telling {
                limit: owed.limit.clone(),
                key: whom.key.clone(),
                amount,
                id: amount.id.unwrap_or_else(OperationId::unique),
            }));
        }
        self.waiting.store(!list.is_empty(), Ordering::Relaxed);
        Taken { handover: self, tellings: taken }
    }

    /// Back onto the list: it could not be told. It has been there, so it fits.
    fn put_back(&self, tellings: Vec<Telling>) {
        let mut list = self.lock();
        for Telling { limit, key, amount, id } in tellings {
            let whom = Whom { limit: limit.id(), key };
            let owed = list.entry(whom).or_insert_with(|| Owed { limit, amounts: Vec::new() });
            owed.amounts.push(Amount { id: Some(id), ..amount });
        }
        self.waiting.store(!list.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, IndexMap<Whom, Owed>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was taken off the list. Whatever it still holds when it is dropped goes back: nobody was told.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    handover: &'a HandOver,
    tellings: Vec<Telling>,
}

impl Taken<'_> {
    pub(crate) fn tellings(&self) -> &[Telling] {
        &self.tellings
    }

    /// Keeps those of which `still_owed` says so; it is asked about each in turn.
    pub(crate) fn keep(&mut self, still_owed: impl FnMut(&Telling) -> bool) {
        self.tellings.retain(still_owed);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.tellings.is_empty() {
            self.handover.put_back(std::mem::take(&mut self.tellings));
        }
    }
}

impl Owed {
    fn add(&mut self, new: Amount, memory: Duration, now: Time) {
        let grain = memory / GRAIN;
        let joins = |amount: &&mut Amount| {
            amount.id.is_none() && new.at >= amount.since && new.at.since(amount.since) <= grain
        };
        // The newest first: that is where nearly all belong.
        if let Some(amount) = self.amounts.iter_mut().rev().find(joins) {
            amount.sum = amount.sum.saturating_add(new.sum);
            // The latest instant of all: it is remembered until then, and never shorter.
            amount.at = amount.at.max(new.at);
            return;
        }
        // What no limit remembers any more need not be told.
        self.amounts.retain(|amount| now.since(amount.at) <= 2 * memory);
        if self.amounts.len() >= MOST_AMOUNTS
            && let Some(amount) = self.amounts.iter_mut().rev().find(|amount| amount.id.is_none())
        {
            amount.sum = amount.sum.saturating_add(new.sum);
            amount.at = amount.at.max(new.at);
            return;
        }
        self.amounts.push(new);
    }
}
