//! A store with one fault.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_conformance::Subject;
use tollgate_core::store::{
    Capability, Export, IdempotencyRetention, Run, RunVerdict, State, Store, Tat, decide_one_by_one, settle,
    state_indexes,
};
use tollgate_core::{AlgorithmKind, Charge, IdempotencyKey, Key, Limit, Request, StoreError, Time, Verdict};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Expired states are never removed.
    KeepsExpired,
    /// All states are dropped when there are a hundred.
    WipesAtHundred,
    /// The lock is released between reading and writing.
    UnlocksBeforeWriting,
    /// An entry of a log that has several counts a nanosecond too long.
    LogEndsLate,
    /// The parts of a key are joined, and braces in an entity are not encoded.
    BracesNotEncoded,
    /// A new state is stored as one of the first charge's parameters.
    FirstParameters,
    /// A state that equals a fresh one is dropped at once. Not a fault while the clock moves forward.
    ForgetsFresh,
    /// It claims to recognize idempotency keys, and does not.
    ClaimsIdempotency,
    /// All states are dropped with forgotten deltas.
    ForgetsStates,
}

type States = HashMap<Vec<u8>, State>;

#[derive(Debug)]
pub(crate) struct Faulty {
    fault: Fault,
    states: Mutex<States>,
}

impl Faulty {
    fn lock(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, limit: &Limit, key: Key<'_>) -> Vec<u8> {
        let (namespace, entity) = (key.namespace(), key.entity());
        let blocks = u8::from(limit.block_time().is_some());
        let suffix = format!("{}~{}{blocks}", limit.name(), limit.kind() as u8);
        if self.fault == Fault::BracesNotEncoded {
            let namespace = String::from_utf8_lossy(namespace).replace(':', "%3a").replace('{', "%7b");
            return [namespace.as_bytes(), b":{", entity, b"}:", suffix.as_bytes()].concat();
        }
        let lengths = format!("{} {} ", namespace.len(), entity.len());
        [lengths.as_bytes(), namespace, entity, suffix.as_bytes()].concat()
    }

    fn settle(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let names: Vec<_> = charges.iter().map(|charge| self.name(charge.limit(), charge.key())).collect();
        let (indexes, count) = state_indexes(charges);
        let mut states = vec![State::default(); count];
        let mut guard = Some(self.lock());
        for (name, index) in names.iter().zip(&indexes) {
            let found = guard.as_ref().and_then(|stored| stored.get(name));
            states[*index] = found.cloned().unwrap_or_default();
        }
        if self.fault == Fault::UnlocksBeforeWriting {
            guard = None;
            // Real stores are not this fast: others get the time that a slower one would leave them.
            std::thread::yield_now();
        }
        let before = states.clone();
        let verdict = settle(charges, &indexes, &mut states, self.time_of(charges, &indexes, &before, now));
        let mut stored = guard.unwrap_or_else(|| self.lock());
        for (name, index) in names.into_iter().zip(&indexes) {
            let first = indexes.iter().position(|other| other == index).unwrap_or(0);
            let is_new = before[*index] == State::default();
            stored.insert(name, self.to_store(states[*index].clone(), charges[first].limit(), is_new));
        }
        self.remove_expired(&mut stored, now);
        Verdict::new(verdict.decisions().iter().copied(), now)
    }

    fn time_of(&self, charges: &[Charge<'_>], indexes: &[usize], states: &[State], now: Time) -> Time {
        let ends_now = |(charge, index): (&Charge<'_>, &usize)| {
            let limit = charge.limit();
            let snapshot = states[*index].snapshot(limit);
            let entries = snapshot.words().len() / 2;
            let instants = snapshot.words().iter().step_by(2).take(entries);
            limit.kind() == AlgorithmKind::SlidingLog
                && entries > 1
                && instants.into_iter().any(|at| Time::from_nanos(*at) + limit.period() == now)
        };
        let late = self.fault == Fault::LogEndsLate && charges.iter().zip(indexes).any(ends_now);
        if late { now - Duration::from_nanos(1) } else { now }
    }

    fn to_store(&self, state: State, first: &Limit, is_new: bool) -> State {
        match (state.as_flow(), first.as_flow()) {
            (Some(tat), Some(flow)) if self.fault == Fault::FirstParameters && is_new => {
                State::from_flow(Tat { digest: flow.digest(), ..tat })
            }
            _ => state,
        }
    }

    fn remove_expired(&self, stored: &mut States, now: Time) {
        match self.fault {
            Fault::KeepsExpired => {}
            Fault::ForgetsFresh => stored.retain(|_, state| !state.is_fresh(now)),
            Fault::WipesAtHundred if stored.len() >= 100 => stored.clear(),
            _ if stored.len() == stored.capacity() => {
                stored.retain(|_, state| !state.is_fresh(now - Duration::from_secs(10)));
            }
            _ => {}
        }
    }
}

impl Store for Faulty {
    fn capability(&self) -> Capability {
        match self.fault {
            Fault::ClaimsIdempotency => {
                Capability::exact().with_idempotency(IdempotencyRetention::For(Duration::from_secs(60)))
            }
            _ => Capability::exact(),
        }
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        Ok(self.settle(request.charges(), now))
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        if request.supported().is_ok() {
            let _ = self.settle(request.charges(), now);
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let stored = self.lock();
        let state = stored.get(&self.name(limit, key)).filter(|state| !state.is_fresh(now));
        Ok(Export { state: state.map(|state| state.snapshot(limit)), at: now })
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        if self.fault == Fault::ForgetsStates && !answered.is_empty() {
            self.lock().clear();
        }
    }
}

impl Subject for Fault {
    type Store = Faulty;

    async fn open(&self) -> Faulty {
        Faulty { fault: *self, states: Mutex::default() }
    }

    fn replay_steps(&self) -> usize {
        match self {
            // As many as a store in the same process has by default.
            Self::UnlocksBeforeWriting => 1_500,
            _ => 300,
        }
    }

    async fn held_states(&self, store: &Faulty, _: Time) -> Option<usize> {
        Some(store.lock().len())
    }
}
