//! Deletes the idempotency records of deltas that were answered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{IdempotencyKey, Key};

use crate::store::Inner;

/// See [`Store::forget_deltas`](tollgate_core::store::Store::forget_deltas).
pub(crate) async fn forget(inner: &Inner, answered: &[(Key<'_>, IdempotencyKey)]) {
    let sent_once = inner.repeated_deltas.without(answered).into_iter();
    let names: Vec<_> = sent_once.map(|(key, id)| inner.names.idempotency_record(key, id)).collect();
    if !names.is_empty() {
        inner.topology.delete(&names, inner.deadline()).await;
    }
}

/// The idempotency keys of deltas whose call this store has sent twice, because the connection ended before the reply.
/// The first call may still be on its way somewhere, and would be executed if its record were missing. So their
/// records are left to expire.
#[derive(Debug, Default)]
pub(crate) struct RepeatedDeltas(Mutex<VecDeque<IdempotencyKey>>);

impl RepeatedDeltas {
    /// More than the calls that are in flight when a connection ends.
    const MAX: usize = 1_024;

    fn lock(&self) -> MutexGuard<'_, VecDeque<IdempotencyKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a key, in place of the oldest if there are too many.
    pub(crate) fn add(&self, key: IdempotencyKey) {
        let mut keys = self.lock();
        if keys.len() == Self::MAX {
            keys.pop_front();
        }
        keys.push_back(key);
    }

    fn without<'a>(&self, answered: &[(Key<'a>, IdempotencyKey)]) -> Vec<(Key<'a>, IdempotencyKey)> {
        let keys = self.lock();
        answered.iter().filter(|(_, key)| !keys.contains(key)).copied().collect()
    }
}
