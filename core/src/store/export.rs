//! States that leave a store, for wrappers that keep replicas of them.

use alloc::vec::Vec;

use super::{Snapshot, Store};
use crate::charge::Request;
use crate::error::StoreError;
use crate::time::Time;

/// A state, and when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a state and its time, and nothing else")]
pub struct Export {
    /// The state; `None` if it equals a fresh one.
    pub state: Option<Snapshot>,
    /// When it was read, by the deciding clock.
    pub at: Time,
}

/// Implements [`Store::apply_deltas`] by one [`decide`](Store::decide), followed by one [`export`](Store::export) per
/// charge.
pub async fn apply_then_export<S: Store + ?Sized>(
    store: &S,
    request: Request<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let _ = store.decide(request, now).await?;
    let mut states = Vec::with_capacity(request.charges().len());
    for charge in request.charges() {
        let export = store.export(charge.limit(), charge.key(), now).await;
        // The deltas are applied by now.
        states.push(export.map_err(StoreError::with_unknown_effect)?);
    }
    Ok(states)
}
