//! Pending deltas: what fallback stores granted and the store has not received yet.
//!
//! Only of limits with a long reset time: the state of others equals a fresh one soon. The number of keys is bounded;
//! what does not fit is counted as lost. Each delta has an idempotency key of its own, so that it can be sent again.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::{Equivalent, IndexMap};
use tollgate_core::store::OwnedKey;
use tollgate_core::{Action, Charge, Decision, ErrorKind, IdempotencyKey, Key, Limit, Time};

use super::delta::{Delta, KeyDeltas};
use super::shares::LimitShare;

/// How many entries are examined for eviction when there is no room for another.
const EVICTION_SCAN: usize = 16;

pub(super) struct PendingDeltas {
    max_keys: usize,
    /// Limits with a shorter reset time are not reconciled.
    min_reset: Duration,
    /// Whether `table` has entries. Read on every call, without the lock.
    non_empty: AtomicBool,
    table: Mutex<PendingTable>,
    lost: AtomicU64,
}

/// Shows how many deltas were lost, and not the keys of the others.
impl fmt::Debug for PendingDeltas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingDeltas")
            .field("max_keys", &self.max_keys)
            .field("min_reset", &self.min_reset)
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PendingTable {
    entries: IndexMap<StateKey, KeyDeltas>,
    /// The entry that the last scan for eviction ended at.
    scanned: usize,
}

/// Identifies a state: the id of a limit, and a key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StateKey {
    limit: u64,
    key: OwnedKey,
}

/// The borrowed form of [`StateKey`], for lookups. Hashes alike, because an owned key hashes like the key.
#[derive(Hash)]
struct StateKeyRef<'a> {
    limit: u64,
    key: Key<'a>,
}

impl Equivalent<StateKey> for StateKeyRef<'_> {
    fn equivalent(&self, owned: &StateKey) -> bool {
        self.limit == owned.limit && self.key == owned.key.as_key()
    }
}

/// One delta that is being sent to the store.
#[derive(Debug)]
pub(super) struct OutgoingDelta {
    limit: Limit,
    reset_time: Duration,
    key: OwnedKey,
    delta: Delta,
}

impl OutgoingDelta {
    pub(super) fn same_state(&self, other: &Self) -> bool {
        self.limit.id() == other.limit.id() && self.key == other.key
    }

    /// Returns the charge for a store whose clock is `clock_offset` nanoseconds ahead of the callers' clock.
    pub(super) fn charge(&self, clock_offset: i64) -> Charge<'_> {
        let at = Some(Time::from_nanos(self.delta.at.nanos().saturating_add_signed(clock_offset)));
        let action = if self.delta.sum < 0 { Action::Refund { at } } else { Action::Debit { at } };
        let cost = u32::try_from(self.tokens()).unwrap_or(Limit::MAX_COUNT).min(Limit::MAX_COUNT);
        self.limit.charge(self.key.as_key()).with_cost(cost).with_action(action)
    }

    /// Returns how many tokens it debits or refunds.
    pub(super) fn tokens(&self) -> u64 {
        self.delta.sum.unsigned_abs()
    }
}

impl PendingDeltas {
    pub(super) fn new(max_keys: usize, min_reset: Duration) -> Self {
        Self {
            max_keys,
            min_reset,
            non_empty: AtomicBool::new(false),
            table: Mutex::default(),
            lost: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.non_empty.load(Ordering::Relaxed)
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Records tokens that cannot be reconciled.
    pub(super) fn record_lost(&self, tokens: u64) {
        self.lost.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Returns how many tokens were lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Adds what a fallback store granted. Returns how much was lost, if there is no room.
    #[inline]
    pub(super) fn add(&self, share: &LimitShare, charge: &Charge<'_>, decision: &Decision, now: Time) -> u64 {
        match share.reset_time.filter(|reset_time| *reset_time >= self.min_reset) {
            Some(reset_time) => self.add_to_table(&share.limit, reset_time, charge, decision, now),
            None => 0,
        }
    }

    fn add_to_table(
        &self,
        limit: &Limit,
        reset_time: Duration,
        charge: &Charge<'_>,
        decision: &Decision,
        now: Time,
    ) -> u64 {
        let granted = i64::from(decision.granted());
        let delta = match charge.action() {
            _ if decision.is_denied() || granted == 0 => return 0,
            Action::Refund { at } => Delta::new(-granted, at.unwrap_or(now)),
            Action::Debit { at } => Delta::new(granted, at.unwrap_or(now)),
            action if action.is_take() => Delta::new(granted, now),
            // Neither a renewal nor a release of a slot consumes anything.
            _ => return 0,
        };
        let state = StateKeyRef { limit: limit.id(), key: charge.key() };
        let mut table = self.lock();
        let lost = if let Some(entry) = table.entries.get_mut(&state) {
            entry.add(delta, now)
        } else if table.entries.len() < self.max_keys || table.evict_expired(now) {
            let mut entry = KeyDeltas::new(limit.clone(), reset_time);
            entry.add(delta, now);
            table.entries.insert(StateKey { limit: state.limit, key: charge.key().into() }, entry);
            self.non_empty.store(true, Ordering::Relaxed);
            0
        } else {
            delta.sum.unsigned_abs()
        };
        self.record_lost(lost);
        lost
    }

    /// Removes the deltas of some keys, about `max` of them; those of the newest keys first.
    pub(super) fn take(&self, max: usize) -> DeltaBatch<'_> {
        let mut table = self.lock();
        let (mut deltas, mut keys) = (Vec::new(), 0);
        while deltas.len() < max
            && let Some((state, entry)) = table.entries.pop()
        {
            keys += 1;
            let KeyDeltas { limit, reset_time, deltas: of_key } = entry;
            let of_key = of_key.into_iter().filter(|delta| delta.sum != 0);
            deltas.extend(of_key.map(|delta| {
                let (limit, key) = (limit.clone(), state.key.clone());
                OutgoingDelta { limit, reset_time, key, delta }
            }));
        }
        self.non_empty.store(!table.entries.is_empty(), Ordering::Relaxed);
        DeltaBatch { pending: self, deltas, keys }
    }

    /// Adds deltas again that were not sent. They were in the table before, so there is room.
    fn put_back(&self, deltas: Vec<OutgoingDelta>) {
        let mut table = self.lock();
        for OutgoingDelta { limit, reset_time, key, delta } in deltas {
            let state = StateKey { limit: limit.id(), key };
            let entry = table.entries.entry(state).or_insert_with(|| KeyDeltas::new(limit, reset_time));
            self.record_lost(entry.add(delta, delta.at));
        }
        self.non_empty.store(!table.entries.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingTable {
    /// Examines a few entries and removes expired ones. Returns whether there is room now.
    fn evict_expired(&mut self, now: Time) -> bool {
        let before = self.entries.len();
        for _ in 0..EVICTION_SCAN.min(before) {
            self.scanned = (self.scanned + 1) % self.entries.len().max(1);
            if self.entries.get_index(self.scanned).is_some_and(|(_, entry)| entry.is_expired(now)) {
                self.entries.swap_remove_index(self.scanned);
            }
        }
        self.entries.len() < before
    }
}

/// Deltas that were removed from [`PendingDeltas`]. What it still holds when it is dropped is pending again.
#[derive(Debug)]
pub(super) struct DeltaBatch<'a> {
    pending: &'a PendingDeltas,
    deltas: Vec<OutgoingDelta>,
    /// How many keys the deltas belong to.
    pub(super) keys: usize,
}

/// What became of the deltas of a batch.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) applied: Vec<OutgoingDelta>,
    /// A retry does not help.
    pub(super) lost: Vec<OutgoingDelta>,
    /// Whether there are others, which are pending again.
    pub(super) incomplete: bool,
}

impl DeltaBatch<'_> {
    /// Returns the idempotency key of each delta, which is created by the first attempt to send it.
    pub(super) fn idempotency_keys(&mut self) -> Vec<IdempotencyKey> {
        let key = |outgoing: &mut OutgoingDelta| {
            *outgoing.delta.idempotency_key.get_or_insert_with(IdempotencyKey::unique)
        };
        self.deltas.iter_mut().map(key).collect()
    }

    pub(super) fn deltas(&self) -> &[OutgoingDelta] {
        &self.deltas
    }

    /// Sorts the deltas by the result of each: `None`, or the kind of its error.
    pub(super) fn settle(mut self, results: impl Iterator<Item = Option<ErrorKind>>) -> Settled {
        let (mut settled, mut unsent) = (Settled::default(), Vec::new());
        // A missing result is an unknown one.
        let results = results.chain(std::iter::repeat(Some(ErrorKind::Internal)));
        for (delta, result) in std::mem::take(&mut self.deltas).into_iter().zip(results) {
            match result {
                None => settled.applied.push(delta),
                Some(ErrorKind::Unsupported | ErrorKind::Corrupt) => settled.lost.push(delta),
                Some(_) => unsent.push(delta),
            }
        }
        settled.incomplete = !unsent.is_empty();
        self.deltas = unsent;
        settled
    }
}

impl Drop for DeltaBatch<'_> {
    fn drop(&mut self) {
        if !self.deltas.is_empty() {
            self.pending.put_back(std::mem::take(&mut self.deltas));
        }
    }
}
