//! The store: which state lives where, and how a request reaches all of its states at once.

use std::sync::atomic::{AtomicU64 as Counter, Ordering};

use smallvec::SmallVec;
use tollgate_core::store::{
    Capability, Export, Flow, IdempotencyRetention, ImmediateStore, Run, RunVerdict, State, Store, Tat,
    decide_one_by_one, settle, slots,
};
use tollgate_core::{Charge, Clock, Decision, ErrorKind, Key, Limit, Request, StoreError, Time, Verdict};

use crate::config::Config;
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::operations::{MEMORY, Operations};
use crate::shard::Shard;
use crate::sync::{Mutex, MutexGuard, give_way, lock};
use crate::table::{Locked, Table, Updated};

/// How many parts remember operation ids.
const OPERATION_PARTS: usize = 16;

/// How many more states than its share a shard has room for, for stores so small that shares differ much.
const SLACK: usize = 64;

/// The store in this process's memory. See the [crate's documentation](crate) for what it promises.
#[derive(Debug)]
pub struct MemoryStore {
    prints: Fingerprints,
    table: Table,
    shards: Box<[Mutex<Shard>]>,
    operations: Box<[Mutex<Operations>]>,
    spilled: Counter,
    evicted: Counter,
}

/// What a store holds, and what did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys with a state that is not as good as none.
    pub live_keys: usize,
    /// Bytes that the table of one-word states takes, used or not.
    pub table_bytes: usize,
    /// Keys that found no slot in the table so far and were put behind a lock; still exact.
    pub spilled: u64,
    /// States that had to go because there was no room; their keys started anew.
    pub evicted: u64,
}

impl MemoryStore {
    /// A store for a million keys.
    pub fn new() -> Self {
        Config::default().build()
    }

    /// Chooses how many keys; [`Config::build`] makes the store.
    pub fn config() -> Config {
        Config::default()
    }

    pub(crate) fn with(config: &Config) -> Self {
        // Keys fall unevenly on shards, and up to half of a shard may be past and not yet swept.
        let per_shard = config.keys.div_ceil(config.shards).saturating_mul(2).saturating_add(SLACK);
        Self {
            prints: Fingerprints::new(),
            // Room to spare, so that a key lies in the first line it is looked for in, nearly always.
            table: Table::new(config.keys.saturating_mul(7) / 4),
            shards: (0..config.shards).map(|_| Mutex::new(Shard::new(per_shard))).collect(),
            operations: (0..OPERATION_PARTS).map(|_| Mutex::default()).collect(),
            spilled: Counter::new(0),
            evicted: Counter::new(0),
        }
    }

    /// What the store holds at `now`. Looks at every slot: for dashboards, not for the hot path.
    pub fn stats(&self, now: Time) -> Stats {
        Stats {
            live_keys: self.table.live(now)
                + self.shards.iter().map(|shard| lock(shard).live(now)).sum::<usize>(),
            table_bytes: self.table.bytes(),
            spilled: self.spilled.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    /// How many states lie behind locks, past ones included.
    #[doc(hidden)]
    pub fn entries_behind_locks(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
    fn shard_of(&self, print: Fingerprint) -> usize {
        print.place as usize % self.shards.len()
    }

    /// The first key of that name and a number that belongs to the shard: where keys go is secret and random.
    #[cfg(all(loom, test))]
    pub(crate) fn key_in_shard(&self, limit: &Limit, shard: usize, name: &str) -> String {
        let mut keys = (0..).map(|number| format!("{name} {number}"));
        keys.find(|key| self.shard_of(self.prints.of(&limit.charge(key))) == shard).expect("there are many")
    }

    /// One charge on a state that fits a word.
    #[inline]
    fn charge_flow(&self, flow: &Flow, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let print = self.prints.of(charge);
        if flow.is_plain(charge) {
            let cost = charge.cost();
            let taken = self.table.try_advance(print, clock, |at, now| {
                let take = flow.take(at, now, cost);
                (take, take.next())
            });
            if let Some(take) = taken {
                return take.answer(flow, cost);
            }
        }
        self.charge_flow_again(flow, charge, print, clock.now())
    }

    /// Anything but a plain take, or the key has no slot, or somebody else was faster.
    #[inline(never)]
    fn charge_flow_again(&self, flow: &Flow, charge: &Charge<'_>, print: Fingerprint, now: Time) -> Decision {
        match self.table.update(print, |state| flow.apply(state, now, charge)) {
            Updated::Done(decision) => decision,
            Updated::Absent | Updated::Busy => self.charge_flow_locked(flow, charge, print, now),
        }
    }

    fn charge_flow_locked(
        &self,
        flow: &Flow,
        charge: &Charge<'_>,
        print: Fingerprint,
        now: Time,
    ) -> Decision {
        loop {
            let mut shard = lock(&self.shards[self.shard_of(print)]);
            match self.table.update(print, |state| flow.apply(state, now, charge)) {
                Updated::Done(decision) => return decision,
                Updated::Busy => {
                    drop(shard);
                    give_way();
                }
                Updated::Absent => {
                    if let Some(mut slot) = self.table.lock(print) {
                        // Other numbers wrote it.
                        let (decision, next) = flow.apply(slot.state(), now, charge);
                        if let Some(next) = next {
                            slot.set(next);
                        }
                        return decision;
                    }
                    let stored = shard.get(print.whole()).filter(|state| !state.is_fresh(now));
                    let spilled = stored.and_then(State::as_flow);
                    // What this key may have had in a slot that was taken over ended before the horizon.
                    let now = if spilled.is_none() { now.max(self.table.horizon()) } else { now };
                    let (decision, next) = flow.apply(spilled.unwrap_or_default(), now, charge);
                    if let Some(next) = next {
                        self.store_flow(&mut shard, print, next, spilled.is_some(), now);
                    }
                    return decision;
                }
            }
        }
    }

    /// Stores the state of a key that has no slot: in the table, or else in its shard.
    fn store_flow(&self, shard: &mut Shard, print: Fingerprint, state: Tat, spilled: bool, now: Time) {
        if !spilled && (state.at == Time::EPOCH || self.table.insert(print, state, now)) {
            shard.remove(print.whole());
            return;
        }
        if !spilled {
            self.spilled.fetch_add(1, Ordering::Relaxed);
        }
        self.put(shard, print, State::from_flow(state), now);
    }

    fn put(&self, shard: &mut Shard, print: Fingerprint, state: State, now: Time) {
        if shard.put(print.whole(), state, now) {
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One charge on any other state.
    #[inline]
    fn charge_state(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let print = self.prints.of(charge);
        // Nothing is read from memory behind the lock yet that the clock could hold up.
        let now = clock.now();
        let mut shard = lock(&self.shards[self.shard_of(print)]);
        if let Some(state) = shard.get_mut(print.whole()) {
            return state.apply(charge, now);
        }
        let mut state = State::default();
        let decision = state.apply(charge, now);
        self.put(&mut shard, print, state, now);
        decision
    }

    /// Several charges: locks everything they touch, and decides.
    fn decide_several(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (slots, count) = slots(charges);
        let mut held = self.hold(charges, &slots, count);
        let now = if held.states.iter().any(Held::is_new_flow) { now.max(self.table.horizon()) } else { now };
        let mut states: SmallVec<[State; 4]> = held.states.iter().map(|held| held.before.clone()).collect();
        let verdict = settle(charges, &slots, &mut states, now);
        for (index, state) in states.into_iter().enumerate() {
            if state != held.states[index].before {
                self.write(&mut held, index, state, now);
            }
        }
        verdict
    }

    /// Locks the shards of all keys in one order, and then the slots of those that have one.
    fn hold<'s>(&'s self, charges: &[Charge<'s>], slots: &[usize], count: usize) -> HeldStates<'s> {
        let mut prints: SmallVec<[(Fingerprint, &Limit); 4]> = SmallVec::new();
        for (charge, slot) in charges.iter().zip(slots) {
            if *slot == prints.len() {
                prints.push((self.prints.of(charge), charge.limit()));
            }
        }
        debug_assert_eq!(prints.len(), count, "one fingerprint per state");
        let mut order: SmallVec<[usize; 4]> = prints.iter().map(|(print, _)| self.shard_of(*print)).collect();
        order.sort_unstable();
        order.dedup();
        let shards: SmallVec<[_; 4]> =
            order.into_iter().map(|index| (index, lock(&self.shards[index]))).collect();
        let states = prints
            .into_iter()
            .map(|(print, limit)| {
                let is_flow = limit.as_flow().is_some();
                let slot = if is_flow { self.table.lock(print) } else { None };
                let stored = || {
                    let index = self.shard_of(print);
                    shards.iter().find(|(shard, _)| *shard == index)?.1.get(print.whole()).cloned()
                };
                let known = slot.as_ref().map(|slot| State::from_flow(slot.state())).or_else(stored);
                let new = known.is_none();
                Held { print, is_flow, slot, new, before: known.unwrap_or_default() }
            })
            .collect();
        HeldStates { states, shards }
    }

    fn write(&self, held: &mut HeldStates<'_>, index: usize, state: State, now: Time) {
        let Held { print, is_flow, ref mut slot, new, .. } = held.states[index];
        if let Some(slot) = slot {
            slot.set(state.as_flow().unwrap_or_default());
            return;
        }
        let home = self.shard_of(print);
        let Some((_, shard)) = held.shards.iter_mut().find(|(shard, _)| *shard == home) else { return };
        match state.as_flow() {
            Some(full_at) if is_flow => self.store_flow(shard, print, full_at, !new, now),
            _ => self.put(shard, print, state, now),
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

/// The states of a request, locked.
struct HeldStates<'s> {
    // Slots are unlocked before shards.
    states: SmallVec<[Held<'s>; 4]>,
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

struct Held<'s> {
    print: Fingerprint,
    is_flow: bool,
    slot: Option<Locked<'s>>,
    /// It was neither in the table nor in its shard.
    new: bool,
    before: State,
}

impl Held<'_> {
    fn is_new_flow(&self) -> bool {
        self.is_flow && self.new
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
            Some(flow) => self.charge_flow(flow, charge, clock),
            None => self.charge_state(charge, clock),
        }
    }

    #[inline]
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let Some(id) = request.idempotency_key() else { return Ok(self.decide_once(request, now)) };
        let mut operations = lock(&self.operations[(id.get() % OPERATION_PARTS as u128) as usize]);
        if let Some(answer) = operations.answer(id) {
            return Ok(answer);
        }
        if !operations.has_room(now) {
            let why =
                "too many named calls within a minute to remember them all; name fewer, or try again later";
            return Err(StoreError::new(ErrorKind::Full, why));
        }
        let verdict = self.decide_once(request, now);
        operations.remember(id, verdict.clone(), now);
        Ok(verdict)
    }
}

impl Store for MemoryStore {
    #[inline]
    fn capability(&self) -> Capability {
        Capability::exact().with_idempotency(IdempotencyRetention::For(MEMORY))
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
        // Refused only if the algorithm cannot do that, and then there is nothing to give back.
        let _ = self.decide_now(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let print = self.prints.of(&limit.charge(key));
        let in_table = if limit.as_flow().is_some() { self.table.read(print) } else { None };
        let state = match in_table {
            Some(state) => Some(State::from_flow(state)),
            None => lock(&self.shards[self.shard_of(print)]).get(print.whole()).cloned(),
        };
        let state = state.filter(|state| !state.is_fresh(now)).map(|state| state.snapshot(limit));
        Ok(Export { state, at: now })
    }
}
