//! What another store granted while the store was away, to be told to it when it is back.
//!
//! Only of limits that remember for long: of one that is as good as new within seconds there is nothing to tell. The
//! list is bounded by keys; what does not fit is counted. Each amount is told as a debit at the instant it was
//! granted, under an operation id of its own, so that a telling that failed can be repeated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::{Equivalent, IndexMap};
use tollgate_core::store::OwnedKey;
use tollgate_core::{Action, Charge, Decision, ErrorKind, IdempotencyKey, Key, Limit, Time};

use super::policy::Shared;

/// Amounts of one key are told apart to this part of the time that the limit remembers.
const GRAIN: u32 = 16;
/// The most amounts of one key: twice as many as there are grains that a limit remembers, and what was given back.
const MOST_AMOUNTS: usize = 4 * GRAIN as usize;
/// How many entries are looked at when there is no room for another.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct HandOver {
    most_keys: usize,
    /// Limits that remember for less are not told of.
    shortest: Duration,
    /// Whether there is anything on the list: read on every call, so it does not take the lock.
    waiting: AtomicBool,
    list: Mutex<List>,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    owed: IndexMap<Whom, Owed>,
    /// Where it was last looked for entries that need not be told any more.
    looked_at: usize,
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
    /// How long the limit remembers.
    memory: Duration,
    amounts: Vec<Amount>,
}

/// What was granted within a short time; below zero is more given back than granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    since: Time,
    at: Time,
    sum: i64,
    /// Once it has been tried to tell: the same id from then on, and nothing is added any more.
    id: Option<IdempotencyKey>,
}

impl Amount {
    /// Adds another of about the same time, if that is as good as both. What was granted is booked at the later
    /// instant, to be remembered for long enough, and what was given back at the earlier, to count in no later window:
    /// so a sum of both stays where it is, and only if something granted is left.
    fn joined(self, new: Self) -> Option<Self> {
        let sum = self.sum.checked_add(new.sum)?;
        let at = match (self.sum >= 0, new.sum >= 0) {
            (true, true) => self.at.max(new.at),
            (true, false) if sum >= 0 => self.at,
            (false, false) => self.at.min(new.at),
            _ => return None,
        };
        self.id.is_none().then_some(Self { at, sum, ..self })
    }
}

/// One amount on its way to the store.
#[derive(Debug)]
pub(crate) struct Telling {
    limit: Limit,
    memory: Duration,
    key: OwnedKey,
    amount: Amount,
}

impl Telling {
    /// Names it, if it has no id yet: it is about to be told.
    pub(crate) fn name(&mut self) -> IdempotencyKey {
        *self.amount.id.get_or_insert_with(IdempotencyKey::unique)
    }

    /// Both are about the same key.
    pub(crate) fn is_about(&self, other: &Self) -> bool {
        self.limit.id() == other.limit.id() && self.key == other.key
    }

    /// The charge for a store whose clock is `ahead` nanoseconds ahead of the callers'.
    pub(crate) fn charge(&self, ahead: i64) -> Charge<'_> {
        let at = Some(Time::from_nanos(self.amount.at.nanos().saturating_add_signed(ahead)));
        let action = if self.amount.sum < 0 { Action::Refund { at } } else { Action::Debit { at } };
        let cost =
            u32::try_from(self.amount.sum.unsigned_abs()).unwrap_or(Limit::MAX_COUNT).min(Limit::MAX_COUNT);
        self.limit.charge(self.key.as_key()).with_cost(cost).with_action(action)
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
        self.lock().owed.len()
    }

    /// So much cannot be told.
    pub(crate) fn lose(&self, amount: u64) {
        self.lost.fetch_add(amount, Ordering::Relaxed);
    }

    /// How much could not be told since this was last asked.
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
        let (sum, at) = match charge.action() {
            _ if decision.is_denied() || granted == 0 => return 0,
            Action::Refund { at } => (-granted, at.unwrap_or(now)),
            Action::Debit { at } => (granted, at.unwrap_or(now)),
            _ => (granted, now),
        };
        let amount = Amount { since: at, at, sum, id: None };
        let sought = Sought { limit: shared.whole.id(), key: charge.key() };
        let mut list = self.lock();
        let lost = if let Some(owed) = list.owed.get_mut(&sought) {
            owed.add(amount, now)
        } else if list.owed.len() < self.most_keys || list.makes_room(now) {
            let whom = Whom { limit: sought.limit, key: charge.key().into() };
            list.owed.insert(whom, Owed { limit: shared.whole.clone(), memory, amounts: vec![amount] });
            self.waiting.store(true, Ordering::Relaxed);
            0
        } else {
            sum.unsigned_abs()
        };
        self.lose(lost);
        lost
    }

    /// Takes the amounts of some keys off the list, about `most` of them; those of the keys that came last first.
    pub(crate) fn take(&self, most: usize) -> Taken<'_> {
        let mut list = self.lock();
        let (mut tellings, mut keys) = (Vec::new(), 0);
        while tellings.len() < most
            && let Some((whom, Owed { limit, memory, amounts })) = list.owed.pop()
        {
            keys += 1;
            let amounts = amounts.into_iter().filter(|amount| amount.sum != 0);
            tellings.extend(amounts.map(|amount| {
                let (limit, key) = (limit.clone(), whom.key.clone());
                Telling { limit, memory, key, amount }
            }));
        }
        self.waiting.store(!list.owed.is_empty(), Ordering::Relaxed);
        Taken { handover: self, tellings, keys }
    }

    /// Back onto the list: it could not be told. It has been there, so it fits.
    fn put_back(&self, tellings: Vec<Telling>) {
        let mut list = self.lock();
        for Telling { limit, memory, key, amount } in tellings {
            let whom = Whom { limit: limit.id(), key };
            let owed = list.owed.entry(whom).or_insert_with(|| Owed { limit, memory, amounts: Vec::new() });
            self.lose(owed.add(amount, amount.at));
        }
        self.waiting.store(!list.owed.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was taken off the list. Whatever it still holds when it is dropped goes back: nobody was told.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    handover: &'a HandOver,
    tellings: Vec<Telling>,
    /// How many keys they are about.
    pub(crate) keys: usize,
}

impl Taken<'_> {
    /// Names them all: they are about to be told.
    pub(crate) fn name(&mut self) -> Vec<IdempotencyKey> {
        self.tellings.iter_mut().map(Telling::name).collect()
    }

    pub(crate) fn tellings(&self) -> &[Telling] {
        &self.tellings
    }

    /// Sorts them by how each was answered: what was told, whether something is still to be told and goes back, and what
    /// no repetition will make right.
    pub(crate) fn settle(
        mut self,
        answers: impl Iterator<Item = Option<ErrorKind>>,
    ) -> (Vec<Telling>, bool, Vec<Telling>) {
        let (mut told, mut lost, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        // One without an answer has an unknown one.
        let answers = answers.chain(std::iter::repeat(Some(ErrorKind::Internal)));
        for (telling, answer) in std::mem::take(&mut self.tellings).into_iter().zip(answers) {
            match answer {
                None => told.push(telling),
                Some(ErrorKind::Unsupported | ErrorKind::Corrupt) => lost.push(telling),
                Some(_) => missed.push(telling),
            }
        }
        self.tellings = missed;
        (told, !self.tellings.is_empty(), lost)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.tellings.is_empty() {
            self.handover.put_back(std::mem::take(&mut self.tellings));
        }
    }
}

impl List {
    /// Looks at a few entries, and drops those that no limit remembers any more. Whether there is room then.
    fn makes_room(&mut self, now: Time) -> bool {
        let before = self.owed.len();
        for _ in 0..LOOKS.min(before) {
            self.looked_at = (self.looked_at + 1) % self.owed.len().max(1);
            if self.owed.get_index(self.looked_at).is_some_and(|(_, owed)| owed.is_over(now)) {
                self.owed.swap_remove_index(self.looked_at);
            }
        }
        self.owed.len() < before
    }
}

impl Owed {
    /// The limit remembers nothing of it any more: windows that slide look back for two periods.
    fn is_over(&self, now: Time) -> bool {
        self.amounts.iter().all(|amount| now.since(amount.at) > 2 * self.memory)
    }

    /// Adds an amount. How much is lost by that, if there are too many.
    fn add(&mut self, new: Amount, now: Time) -> u64 {
        let grain = self.memory / GRAIN;
        let near = |amount: &Amount| new.at >= amount.since && new.at.since(amount.since) <= grain;
        // The newest first: that is where nearly all belong.
        let joined = |(index, amount): (usize, &Amount)| {
            let joins = new.id.is_none() && near(amount);
            joins.then(|| amount.joined(new)).flatten().map(|sum| (index, sum))
        };
        if let Some((index, sum)) = self.amounts.iter().enumerate().rev().find_map(joined) {
            self.amounts[index] = sum;
            return 0;
        }
        // What no limit remembers any more need not be told.
        let memory = self.memory;
        self.amounts.retain(|amount| now.since(amount.at) <= 2 * memory);
        let lost = if self.amounts.len() >= MOST_AMOUNTS { self.amounts.remove(0).sum } else { 0 };
        self.amounts.push(new);
        lost.unsigned_abs()
    }
}
