//! The store: which state is kept where.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64 as Counter, Ordering};

use tollgate_core::store::{
    Capability, Export, Flow, IdempotencyRetention, ImmediateStore, Run, RunVerdict, State, Store,
    WindowLimit, decide_one_by_one,
};
use tollgate_core::{
    AlgorithmKind, Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Time,
    Verdict,
};

use crate::config::Config;
use crate::idempotency::{IdempotencyRecords, RETENTION};
use crate::key_hash::{KeyHash, KeyHasher, NO_DIGEST};
use crate::shard::{Entry, Shard, Usage};
use crate::stats::{Evictions, Stats};
use crate::sync::{Mutex, MutexGuard, lock, yield_now};
use crate::table::{Form, Table, TatTable, Updated, WindowsTable};

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
pub struct MemoryStore {
    pub(crate) hasher: KeyHasher,
    tats: OnceLock<TatTable>,
    windows: OnceLock<WindowsTable>,
    /// How many slots each table has.
    slots: usize,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    idempotency: Box<[Mutex<IdempotencyRecords>]>,
    spilled: Counter,
    evictions: Evictions,
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
        // Spare slots: nearly every key is found in the first line that is probed.
        let slots = config.keys.saturating_mul(7) / 4;
        if !cfg!(loom) {
            // The larger table is allocated on trial: what does not fit fails here, and not at the first check.
            drop(WindowsTable::new(slots));
        }
        Self {
            hasher: KeyHasher::new(),
            // Loom does not know that the cells synchronize the threads that share what is in them.
            tats: if cfg!(loom) { OnceLock::from(TatTable::new(slots)) } else { OnceLock::new() },
            windows: if cfg!(loom) { OnceLock::from(WindowsTable::new(slots)) } else { OnceLock::new() },
            slots,
            shards: (0..config.shards).map(|_| Mutex::new(Shard::new(per_shard))).collect(),
            idempotency: (0..IDEMPOTENCY_SHARDS).map(|_| Mutex::default()).collect(),
            spilled: Counter::new(0),
            evictions: Evictions::default(),
        }
    }

    /// Returns how full the store is at `now`. Scans every slot: for dashboards, not for the hot path.
    pub fn stats(&self, now: Time) -> Stats {
        Stats {
            live_keys: self.tats.get().map_or(0, |tats| tats.live(now))
                + self.windows.get().map_or(0, |windows| windows.live(now))
                + self.shards.iter().map(|shard| lock(shard).live(now)).sum::<usize>(),
            table_bytes: self.table_bytes(),
            spilled: self.spilled.load(Ordering::Relaxed),
            evicted: self.evictions.all.load(Ordering::Relaxed),
            evicted_exhausted: self.evictions.exhausted.load(Ordering::Relaxed),
            evicted_leases: self.evictions.leases.load(Ordering::Relaxed),
        }
    }

    /// Returns how many states are in shards, including expired ones. For tests.
    #[doc(hidden)]
    pub fn shard_entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn table_bytes(&self) -> usize {
        self.tats.get().map_or(0, TatTable::bytes) + self.windows.get().map_or(0, WindowsTable::bytes)
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    pub(crate) fn shard_of(&self, hash: KeyHash) -> usize {
        hash.position as usize % self.shards.len()
    }

    /// Returns the digest of a limit's parameters that tags contain. Never zero.
    pub(crate) fn digest(&self, limit: &Limit) -> u16 {
        match (limit.as_flow(), limit.as_window()) {
            (Some(flow), _) => flow.digest(),
            (None, Some(window)) => self.windows().digest(window),
            (None, None) => NO_DIGEST,
        }
    }

    /// Returns a key that belongs to the shard. Positions depend on random seeds, so it tries one name after the
    /// other.
    #[cfg(all(loom, test))]
    pub(crate) fn key_in_shard(&self, limit: &Limit, shard: usize, name: &str) -> String {
        let mut keys = (0..).map(|number| format!("{name} {number}"));
        keys.find(|key| self.shard_of(self.hasher.hash(&limit.charge(key), self.digest(limit))) == shard)
            .expect("every shard has keys")
    }

    /// Decides one charge on a TAT: the hot path.
    #[inline]
    fn charge_tat(&self, flow: &Flow, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let hash = self.hasher.hash(charge, flow.digest());
        if flow.is_plain(charge) {
            let cost = charge.cost();
            let taken = self.tats().try_advance(hash, clock, |at, now| {
                let take = flow.take(at, now, cost);
                (take, take.next())
            });
            if let Some(take) = taken {
                return take.answer(flow, cost);
            }
        }
        self.charge_tat_slow(charge, hash, clock.now())
    }

    /// Decides any charge on a TAT, where the hot path could not: not a plain take, no slot, or a contended slot.
    #[inline(never)]
    fn charge_tat_slow(&self, charge: &Charge<'_>, hash: KeyHash, now: Time) -> Decision {
        self.charge_in(self.tats(), charge, hash, now)
    }

    /// Decides one charge on windows: the hot path. A function of its own, like [`charge_state`](Self::charge_state),
    /// so that the hot path of TATs is small.
    #[inline(never)]
    fn charge_windows(&self, limit: WindowLimit<'_>, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let windows = self.windows();
        let hash = self.hasher.hash(charge, windows.digest(limit));
        // The clock is read before the state: reading it stalls the memory accesses that follow.
        let now = clock.now();
        if limit.is_plain(charge) {
            let cost = charge.cost();
            let taken = windows.try_take(hash, limit, cost, |windows| limit.take(windows, now, cost));
            if let Some(take) = taken {
                return limit.answer(&take, now, cost);
            }
        }
        self.charge_windows_slow(charge, hash, now)
    }

    /// Decides any charge on windows, where the hot path could not: not an allowed plain take, no slot, a contended
    /// slot, or no window under way.
    #[inline(never)]
    fn charge_windows_slow(&self, charge: &Charge<'_>, hash: KeyHash, now: Time) -> Decision {
        self.charge_in(self.windows(), charge, hash, now)
    }

    /// Decides one charge on a state in this table.
    #[inline]
    fn charge_in<F: Form<COLD>, const SLOTS: usize, const COLD: usize>(
        &self,
        table: &Table<F, SLOTS, COLD>,
        charge: &Charge<'_>,
        hash: KeyHash,
        now: Time,
    ) -> Decision {
        match table.update(hash, charge, now) {
            Updated::Done(decision) => decision,
            Updated::Absent | Updated::Busy => self.charge_locked(table, charge, hash, now),
        }
    }

    /// Decides a charge under the lock of the key's shard: the key has no slot, or its slot is contended, was written
    /// under other parameters, or has no room for the next state.
    #[inline(never)]
    fn charge_locked<F: Form<COLD>, const SLOTS: usize, const COLD: usize>(
        &self,
        table: &Table<F, SLOTS, COLD>,
        charge: &Charge<'_>,
        hash: KeyHash,
        now: Time,
    ) -> Decision {
        let kind = charge.limit().kind();
        loop {
            let mut shard = lock(&self.shards[self.shard_of(hash)]);
            match table.update(hash, charge, now) {
                Updated::Done(decision) => return decision,
                Updated::Busy => {
                    drop(shard);
                    yield_now();
                    continue;
                }
                Updated::Absent => {}
            }
            if let Some(mut slot) = table.lock(hash) {
                let mut state = slot.state();
                let decision = state.apply(charge, now);
                if !slot.set(&state) {
                    let entry = Entry { state, usage: Usage::of(&decision) };
                    self.spill(&mut shard, hash, kind, entry, now);
                }
                return decision;
            }
            let stored = shard.get(kind, hash.map_key()).filter(|state| !state.is_fresh(now)).cloned();
            // If the key had a slot that was taken over, or an entry that was removed, its state had expired by the
            // horizon.
            let now = if stored.is_none() { now.max(shard.horizon().max(table.horizon())) } else { now };
            let mut state = stored.clone().unwrap_or_default();
            let decision = state.apply(charge, now);
            let entry = Entry { state, usage: Usage::of(&decision) };
            self.store(table, &mut shard, hash, kind, Change { stored: stored.as_ref(), entry }, now);
            return decision;
        }
    }

    /// Stores the state of a key that has no slot: in the table, or else in the key's shard.
    pub(crate) fn store<F: Form<COLD>, const SLOTS: usize, const COLD: usize>(
        &self,
        table: &Table<F, SLOTS, COLD>,
        shard: &mut Shard,
        hash: KeyHash,
        kind: AlgorithmKind,
        change: Change<'_>,
        now: Time,
    ) {
        let Change { stored, entry } = change;
        match stored {
            Some(stored) if *stored == entry.state => return,
            None if entry.state == State::default() => return,
            Some(stored) if !F::may_return(stored, &entry.state) => {}
            Some(_) | None => {
                let state = F::from_core(&entry.state);
                if state.is_some_and(|state| state == F::State::default() || table.insert(hash, state, now)) {
                    shard.remove(kind, hash.map_key(), now);
                    return;
                }
            }
        }
        if stored.is_some() {
            self.put(shard, hash, kind, entry, now);
        } else {
            self.spill(shard, hash, kind, entry, now);
        }
    }

    /// Puts a state that has no slot into the key's shard.
    pub(crate) fn spill(
        &self,
        shard: &mut Shard,
        hash: KeyHash,
        kind: AlgorithmKind,
        entry: Entry,
        now: Time,
    ) {
        self.spilled.fetch_add(1, Ordering::Relaxed);
        self.put(shard, hash, kind, entry, now);
    }

    pub(crate) fn put(&self, shard: &mut Shard, hash: KeyHash, kind: AlgorithmKind, entry: Entry, now: Time) {
        if let Some(evicted) = shard.put(kind, hash.map_key(), entry, now) {
            self.evictions.count(evicted);
        }
    }

    /// Returns the table of TATs. A table is allocated once it is needed.
    #[inline]
    pub(crate) fn tats(&self) -> &TatTable {
        self.tats.get_or_init(|| TatTable::new(self.slots))
    }

    /// Returns the table of windows.
    #[inline]
    pub(crate) fn windows(&self) -> &WindowsTable {
        self.windows.get_or_init(|| WindowsTable::new(self.slots))
    }

    /// Decides one charge on a state that no table keeps.
    #[inline(never)]
    fn charge_state(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let hash = self.hasher.hash(charge, NO_DIGEST);
        // The clock is read before the lock is taken: reading it stalls the memory accesses that follow.
        let now = clock.now();
        let (mut shard, kind) = (lock(&self.shards[self.shard_of(hash)]), charge.limit().kind());
        if let Some(entry) = shard.get_mut(kind, hash.map_key()) {
            let decision = entry.state.apply(charge, now);
            entry.usage = Usage::of(&decision);
            return decision;
        }
        let now = now.max(shard.horizon());
        let mut state = State::default();
        let decision = state.apply(charge, now);
        self.put(&mut shard, hash, kind, Entry { state, usage: Usage::of(&decision) }, now);
        decision
    }

    fn decide_once(&self, request: Request<'_>, now: Time) -> Verdict {
        match request.charges() {
            [charge] => Verdict::one(self.charge_now(charge, &now), now),
            [] => Verdict::new([], now),
            charges => self.decide_several(charges, now),
        }
    }
}

/// The next state of a key that has no slot, and the one in its shard, if there is one.
pub(crate) struct Change<'s> {
    pub(crate) stored: Option<&'s State>,
    pub(crate) entry: Entry,
}

/// Where the states of a limit are kept, if there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Tat,
    Windows,
    Shard,
}

impl Kept {
    pub(crate) fn of(limit: &Limit) -> Self {
        match (limit.as_flow(), limit.as_window()) {
            (Some(_), _) => Self::Tat,
            (None, Some(_)) => Self::Windows,
            (None, None) => Self::Shard,
        }
    }
}

/// Shows how often keys did not fit, and neither keys nor the secret seeds of their hashes.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("table_bytes", &self.table_bytes())
            .field("spilled", &self.spilled)
            .field("evicted", &self.evictions.all)
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    fn idempotency_records(&self, key: IdempotencyKey) -> MutexGuard<'_, IdempotencyRecords> {
        lock(&self.idempotency[(key.get() % IDEMPOTENCY_SHARDS as u128) as usize])
    }
}

impl ImmediateStore for MemoryStore {
    #[inline]
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        if let Some(flow) = charge.limit().as_flow() {
            self.charge_tat(flow, charge, clock)
        } else if let Some(window) = charge.limit().as_window() {
            self.charge_windows(window, charge, clock)
        } else {
            self.charge_state(charge, clock)
        }
    }

    #[inline]
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let Some(key) = request.idempotency_key() else { return Ok(self.decide_once(request, now)) };
        let mut records = self.idempotency_records(key);
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

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        for (_, key) in answered {
            self.idempotency_records(*key).forget(*key);
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        // Executes at once. It fails only if the algorithm does not support the action, and then nothing was charged.
        let _ = self.decide_now(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let hash = self.hasher.hash(&limit.charge(key), self.digest(limit));
        // Under the lock, no state moves between a table and the shard.
        let shard = lock(&self.shards[self.shard_of(hash)]);
        let in_table = match Kept::of(limit) {
            Kept::Tat => self.tats().read(hash).map(State::from_flow),
            Kept::Windows => self.windows().read(hash).map(State::from_windows),
            Kept::Shard => None,
        };
        let state = in_table.or_else(|| shard.get(limit.kind(), hash.map_key()).cloned());
        let state = state.filter(|state| !state.is_fresh(now)).map(|state| state.snapshot(limit));
        Ok(Export { state, at: now })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::shard::map_hash;

    /// A map looks for an entry from the bucket of the lowest bits on, and compares the highest seven. 4,096 even
    /// hashes have about 2,590 distinct values in their lowest twelve bits.
    #[test]
    fn the_hashes_of_a_shard_differ_in_the_bits_that_its_map_uses() {
        let limit = Limit::per_hour(1).sliding_log().build("log").expect("valid");
        for _ in 0..4 {
            let store = MemoryStore::config().max_keys(1).build();
            let hashes = (0..)
                .map(|number| store.hasher.hash(&limit.charge(&format!("user-{number:07}")), NO_DIGEST))
                .filter(|hash| store.shard_of(*hash) == 7)
                .map(|hash| map_hash(hash.map_key()));
            let hashes: Vec<u64> = hashes.take(4_096).collect();
            let distinct =
                |bits: fn(u64) -> u64| hashes.iter().map(|hash| bits(*hash)).collect::<HashSet<_>>().len();
            let (low, high) = (distinct(|hash| hash & 0xfff), distinct(|hash| hash >> 57));
            assert!(low > 2_400 && high == 128, "{low} of the lowest bits, {high} of the highest");
        }
    }
}
