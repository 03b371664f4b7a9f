//! The store: which state is kept where, and how a request locks all of its states.

use std::sync::atomic::{AtomicU64 as Counter, Ordering};

use smallvec::SmallVec;
use tollgate_core::store::{
    Capability, Export, Flow, IdempotencyRetention, ImmediateStore, Run, RunVerdict, State, Store, Tat,
    decide_one_by_one, settle, state_indexes,
};
use tollgate_core::{Charge, Clock, Decision, ErrorKind, Key, Limit, Request, StoreError, Time, Verdict};

use crate::config::Config;
use crate::idempotency::{IdempotencyRecords, RETENTION};
use crate::key_hash::{KeyHash, KeyHasher};
use crate::shard::Shard;
use crate::sync::{Mutex, MutexGuard, lock, yield_now};
use crate::table::{LockedSlot, Table, Updated};

/// How many shards, each with a lock of its own, record verdicts by idempotency key.
const IDEMPOTENCY_SHARDS: usize = 16;

/// Extra room per shard: in a small store, keys are distributed unevenly over the shards.
const SLACK: usize = 64;

/// A rate limit store in the memory of this process: lock-free, bounded, without background threads.
///
/// The [crate's documentation](crate) lists its guarantees.
///
/// ```
/// # mod tollgate { pub use tollgate_core::*; pub mod memory { pub use tollgate_store_memory::*; } }
/// use tollgate::{Limit, Limiter};
/// use tollgate::memory::MemoryStore;
///
/// let limiter = Limiter::new(MemoryStore::config().max_keys(100_000).build());
/// let login = Limit::per_minute(5).sliding_log().build("login")?;
/// assert!(limiter.check_now(&login, "user:42").is_allowed());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    hasher: KeyHasher,
    table: Table,
    shards: Box<[Mutex<Shard>]>,
    idempotency: Box<[Mutex<IdempotencyRecords>]>,
    spilled: Counter,
    evicted: Counter,
}

/// How full a [`MemoryStore`] is, and how often keys did not fit. Returned by [`MemoryStore::stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys whose state differs from a fresh one.
    pub live_keys: usize,
    /// Size of the lock-free table in bytes, including slots that are not in use.
    pub table_bytes: usize,
    /// How many times a key found no slot in the table and spilled into a shard, where it is still exact.
    pub spilled: u64,
    /// How many states were evicted because a shard was full. Their keys started fresh: raise [`Config::max_keys`].
    pub evicted: u64,
}

impl MemoryStore {
    /// Creates a store for a million keys.
    pub fn new() -> Self {
        Config::default().build()
    }

    /// Returns a configuration; [`Config::build`] creates the store.
    pub fn config() -> Config {
        Config::default()
    }

    pub(crate) fn from_config(config: &Config) -> Self {
        // Up to half of the entries of a shard may be expired and not yet swept.
        let per_shard = config.keys.div_ceil(config.shards).saturating_mul(2).saturating_add(SLACK);
        Self {
            hasher: KeyHasher::new(),
            // Spare slots: nearly every key is found in the first line that is probed.
            table: Table::new(config.keys.saturating_mul(7) / 4),
            shards: (0..config.shards).map(|_| Mutex::new(Shard::new(per_shard))).collect(),
            idempotency: (0..IDEMPOTENCY_SHARDS).map(|_| Mutex::default()).collect(),
            spilled: Counter::new(0),
            evicted: Counter::new(0),
        }
    }

    /// Returns how full the store is at `now`. Scans every slot: for dashboards, not for the hot path.
    pub fn stats(&self, now: Time) -> Stats {
        Stats {
            live_keys: self.table.live(now)
                + self.shards.iter().map(|shard| lock(shard).live(now)).sum::<usize>(),
            table_bytes: self.table.bytes(),
            spilled: self.spilled.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    /// Returns how many states are in shards, including expired ones. For tests.
    #[doc(hidden)]
    pub fn shard_entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    fn shard_of(&self, hash: KeyHash) -> usize {
        hash.position as usize % self.shards.len()
    }

    /// Returns a key that belongs to the shard. Positions depend on random seeds, so it tries one name after the
    /// other.
    #[cfg(all(loom, test))]
    pub(crate) fn key_in_shard(&self, limit: &Limit, shard: usize, name: &str) -> String {
        let mut keys = (0..).map(|number| format!("{name} {number}"));
        keys.find(|key| self.shard_of(self.hasher.hash(&limit.charge(key))) == shard)
            .expect("every shard has keys")
    }

    /// Decides one charge on a TAT: the hot path.
    #[inline]
    fn charge_tat(&self, flow: &Flow, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let hash = self.hasher.hash(charge);
        if flow.is_plain(charge) {
            let cost = charge.cost();
            let taken = self.table.try_advance(hash, clock, |at, now| {
                let take = flow.take(at, now, cost);
                (take, take.next())
            });
            if let Some(take) = taken {
                return take.answer(flow, cost);
            }
        }
        self.charge_tat_slow(flow, charge, hash, clock.now())
    }

    /// Decides any charge on a TAT, where the hot path could not: not a plain take, no slot, or a contended slot.
    #[inline(never)]
    fn charge_tat_slow(&self, flow: &Flow, charge: &Charge<'_>, hash: KeyHash, now: Time) -> Decision {
        match self.table.update(hash, |state| flow.apply(state, now, charge)) {
            Updated::Done(decision) => decision,
            Updated::Absent | Updated::Busy => self.charge_tat_locked(flow, charge, hash, now),
        }
    }

    /// Decides a charge on a TAT under the lock of the key's shard.
    fn charge_tat_locked(&self, flow: &Flow, charge: &Charge<'_>, hash: KeyHash, now: Time) -> Decision {
        loop {
            let mut shard = lock(&self.shards[self.shard_of(hash)]);
            match self.table.update(hash, |state| flow.apply(state, now, charge)) {
                Updated::Done(decision) => return decision,
                Updated::Busy => {
                    drop(shard);
                    yield_now();
                }
                Updated::Absent => {
                    if let Some(mut slot) = self.table.lock(hash) {
                        // The state was written under other parameters.
                        let (decision, next) = flow.apply(slot.state(), now, charge);
                        if let Some(next) = next {
                            slot.set(next);
                        }
                        return decision;
                    }
                    let stored = shard.get(hash.map_key()).filter(|state| !state.is_fresh(now));
                    let spilled = stored.and_then(State::as_flow);
                    // If the key had a slot that was taken over, its state had expired by the horizon.
                    let now = if spilled.is_none() { now.max(self.table.horizon()) } else { now };
                    let (decision, next) = flow.apply(spilled.unwrap_or_default(), now, charge);
                    if let Some(next) = next {
                        self.store_tat(&mut shard, hash, next, spilled.is_some(), now);
                    }
                    return decision;
                }
            }
        }
    }

    /// Stores the TAT of a key that has no slot: in the table, or else in the key's shard.
    fn store_tat(&self, shard: &mut Shard, hash: KeyHash, state: Tat, spilled: bool, now: Time) {
        if !spilled && (state.at == Time::EPOCH || self.table.insert(hash, state, now)) {
            shard.remove(hash.map_key());
            return;
        }
        if !spilled {
            self.spilled.fetch_add(1, Ordering::Relaxed);
        }
        self.put(shard, hash, State::from_flow(state), now);
    }

    fn put(&self, shard: &mut Shard, hash: KeyHash, state: State, now: Time) {
        if shard.put(hash.map_key(), state, now) {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decides one charge on a state that does not fit one word.
    #[inline]
    fn charge_state(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let hash = self.hasher.hash(charge);
        // The clock is read before the lock is taken: reading it stalls the memory accesses that follow.
        let now = clock.now();
        let mut shard = lock(&self.shards[self.shard_of(hash)]);
        if let Some(state) = shard.get_mut(hash.map_key()) {
            return state.apply(charge, now);
        }
        let mut state = State::default();
        let decision = state.apply(charge, now);
        self.put(&mut shard, hash, state, now);
        decision
    }

    /// Decides a request with several charges: locks all of their states first.
    fn decide_several(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (indexes, count) = state_indexes(charges);
        let mut locked = self.lock_states(charges, &indexes, count);
        let now = if locked.states.iter().any(LockedState::is_new_tat) {
            now.max(self.table.horizon())
        } else {
            now
        };
        let mut states: SmallVec<[State; 4]> =
            locked.states.iter().map(|locked| locked.before.clone()).collect();
        let verdict = settle(charges, &indexes, &mut states, now);
        for (index, state) in states.into_iter().enumerate() {
            if state != locked.states[index].before {
                self.write(&mut locked, index, state, now);
            }
        }
        verdict
    }

    /// Locks the shards of all keys, in ascending order, and then the slots of the keys that have one.
    fn lock_states<'s>(
        &'s self,
        charges: &[Charge<'s>],
        indexes: &[usize],
        count: usize,
    ) -> LockedStates<'s> {
        let mut hashes: SmallVec<[(KeyHash, &Limit); 4]> = SmallVec::new();
        for (charge, index) in charges.iter().zip(indexes) {
            if *index == hashes.len() {
                hashes.push((self.hasher.hash(charge), charge.limit()));
            }
        }
        debug_assert_eq!(hashes.len(), count, "one hash per state");
        let mut order: SmallVec<[usize; 4]> = hashes.iter().map(|(hash, _)| self.shard_of(*hash)).collect();
        order.sort_unstable();
        order.dedup();
        let shards: SmallVec<[_; 4]> =
            order.into_iter().map(|index| (index, lock(&self.shards[index]))).collect();
        let states = hashes
            .into_iter()
            .map(|(hash, limit)| {
                let is_tat = limit.as_flow().is_some();
                let slot = if is_tat { self.table.lock(hash) } else { None };
                let stored = || {
                    let index = self.shard_of(hash);
                    shards.iter().find(|(shard, _)| *shard == index)?.1.get(hash.map_key()).cloned()
                };
                let found = slot.as_ref().map(|slot| State::from_flow(slot.state())).or_else(stored);
                let is_new = found.is_none();
                LockedState { hash, is_tat, slot, is_new, before: found.unwrap_or_default() }
            })
            .collect();
        LockedStates { states, shards }
    }

    fn write(&self, locked: &mut LockedStates<'_>, index: usize, state: State, now: Time) {
        let LockedState { hash, is_tat, ref mut slot, is_new, .. } = locked.states[index];
        if let Some(slot) = slot {
            slot.set(state.as_flow().unwrap_or_default());
            return;
        }
        let home = self.shard_of(hash);
        let Some((_, shard)) = locked.shards.iter_mut().find(|(shard, _)| *shard == home) else { return };
        match state.as_flow() {
            Some(tat) if is_tat => self.store_tat(shard, hash, tat, !is_new, now),
            Some(_) | None => self.put(shard, hash, state, now),
        }
    }

    fn decide_once(&self, request: Request<'_>, now: Time) -> Verdict {
        match request.charges() {
            [charge] => Verdict::one(self.charge_now(charge, &now), now),
            [] => Verdict::new([], now),
            charges => self.decide_several(charges, now),
        }
    }
}

/// All states of a request, locked.
struct LockedStates<'s> {
    // Declared first, so that slots are unlocked before shards.
    states: SmallVec<[LockedState<'s>; 4]>,
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

struct LockedState<'s> {
    hash: KeyHash,
    is_tat: bool,
    slot: Option<LockedSlot<'s>>,
    /// The key has neither a slot nor an entry in its shard.
    is_new: bool,
    before: State,
}

impl LockedState<'_> {
    fn is_new_tat(&self) -> bool {
        self.is_tat && self.is_new
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ImmediateStore for MemoryStore {
    #[inline]
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        match charge.limit().as_flow() {
            Some(flow) => self.charge_tat(flow, charge, clock),
            None => self.charge_state(charge, clock),
        }
    }

    #[inline]
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let Some(key) = request.idempotency_key() else { return Ok(self.decide_once(request, now)) };
        let mut records = lock(&self.idempotency[(key.get() % IDEMPOTENCY_SHARDS as u128) as usize]);
        if let Some(verdict) = records.get(key) {
            return Ok(verdict);
        }
        if !records.has_room(now) {
            let message =
                "too many requests with idempotency keys within a minute; use fewer, or retry later";
            return Err(StoreError::new(ErrorKind::Full, message));
        }
        let verdict = self.decide_once(request, now);
        records.insert(key, verdict.clone(), now);
        Ok(verdict)
    }
}

impl Store for MemoryStore {
    #[inline]
    fn capability(&self) -> Capability {
        Capability::exact().with_idempotency(IdempotencyRetention::For(RETENTION))
    }

    #[inline]
    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide_now(request, now)
    }

    #[inline]
    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        charge.supported()?;
        Ok(self.charge_now(charge, clock))
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        // Executes at once. It fails only if the algorithm does not support the action, and then nothing was charged.
        let _ = self.decide_now(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let hash = self.hasher.hash(&limit.charge(key));
        let in_table = if limit.as_flow().is_some() { self.table.read(hash) } else { None };
        let state = match in_table {
            Some(state) => Some(State::from_flow(state)),
            None => lock(&self.shards[self.shard_of(hash)]).get(hash.map_key()).cloned(),
        };
        let state = state.filter(|state| !state.is_fresh(now)).map(|state| state.snapshot(limit));
        Ok(Export { state, at: now })
    }
}
