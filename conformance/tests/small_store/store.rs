//! A complete store: a map behind one lock. The template for a new one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate_core::store::{
    Capability, Export, Run, RunVerdict, State, Store, decide_one_by_one, settle, state_indexes,
};
use tollgate_core::{Charge, Key, Limit, Request, StoreError, Time, Verdict};

/// Expired states are kept a little longer, for callers whose clocks are behind.
const MARGIN: Duration = Duration::from_secs(10);

/// What a state belongs to: a limit's id, a namespace and an entity.
type StateKey = (u64, Vec<u8>, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct SmallStore {
    states: Mutex<HashMap<StateKey, State>>,
}

impl SmallStore {
    /// Decides by the pure function, under the lock: all states are read, changed and written in one step.
    fn settle(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let mut stored = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let (indexes, count) = state_indexes(charges);
        let mut states = vec![State::default(); count];
        for (charge, index) in charges.iter().zip(&indexes) {
            states[*index] = stored.get(&state_key(charge)).cloned().unwrap_or_default();
        }
        let verdict = settle(charges, &indexes, &mut states, now);
        for (charge, index) in charges.iter().zip(&indexes) {
            stored.insert(state_key(charge), states[*index].clone());
        }
        // Whenever the map would have to grow, so that the cost per call is constant.
        if stored.len() == stored.capacity() {
            stored.retain(|_, state| !state.is_fresh(now - MARGIN));
        }
        verdict
    }

    pub(crate) fn len(&self) -> usize {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn state_key(charge: &Charge<'_>) -> StateKey {
    let key = charge.key();
    (charge.limit().id(), key.namespace().to_vec(), key.entity().to_vec())
}

impl Store for SmallStore {
    /// It does not recognize idempotency keys. If it did, `with_idempotency` would say for how long.
    fn capability(&self) -> Capability {
        Capability::exact()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        Ok(self.settle(request.charges(), now))
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    /// Releases the slots of dropped permits. It does not wait, so it executes at once.
    fn decide_detached(&self, request: Request<'_>, now: Time) {
        if request.supported().is_ok() {
            let _ = self.settle(request.charges(), now);
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let stored = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = stored.get(&state_key(&limit.charge(key))).filter(|state| !state.is_fresh(now));
        Ok(Export { state: state.map(|state| state.snapshot(limit)), at: now })
    }
}
