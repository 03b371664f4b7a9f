//! Deletes the idempotency records of calls that were answered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::{IdempotencyKey, Key};

use crate::store::Inner;

/// See [`Store::forget_idempotency_keys`](tollgate_core::store::Store::forget_idempotency_keys).
pub(crate) async fn forget(inner: &Inner, answered: &[(Key<'_>, IdempotencyKey)]) {
    let sent_once = inner.repeated_calls.without(answered).into_iter();
    let names: Vec<_> = sent_once.map(|(key, id)| inner.names.idempotency_record(key, id)).collect();
    if !names.is_empty() {
        inner.topology.delete(&names, inner.deadline()).await;
    }
}

/// The idempotency keys of calls that this store has sent twice, because the connection ended before the reply. The
/// first call may still be on its way somewhere, and would be executed if its record were missing. So their
/// records are left to expire.
#[derive(Debug, Default)]
pub(crate) struct RepeatedCalls(Mutex<VecDeque<IdempotencyKey>>);

impl RepeatedCalls {
    /// More than the calls that are in flight when a connection ends.
    const MAX: usize = 1_024;

    fn lock(&self) -> MutexGuard<'_, VecDeque<IdempotencyKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the keys of a call, in place of the oldest if there are too many.
    pub(crate) fn add(&self, added: impl Iterator<Item = IdempotencyKey>) {
        let mut keys = self.lock();
        keys.extend(added);
        let too_many = keys.len().saturating_sub(Self::MAX);
        keys.drain(..too_many);
    }

    fn without<'a>(&self, answered: &[(Key<'a>, IdempotencyKey)]) -> Vec<(Key<'a>, IdempotencyKey)> {
        let keys = self.lock();
        answered.iter().filter(|(_, key)| !keys.contains(key)).copied().collect()
    }
}
