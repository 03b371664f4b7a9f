//! Answered batches, whose idempotency keys the central store need not keep any longer.
//!
//! A store keeps an idempotency key for minutes, and on a cluster every slot with a dirty key is a batch in every
//! round: thousands per second. So the keys are forgotten once the batches are answered, many at a time, together with
//! another batch. What the central store keeps of a node is bounded by [`AT_ONCE`], [`MAX_IN_DOUBT`] and the calls in
//! flight.

use std::collections::VecDeque;

use tollgate_core::IdempotencyKey;
use tollgate_core::store::Store;

use super::batch::Batch;
use crate::local::entry::StoredKey;
use crate::node::{Node, lock};

/// How many batches are forgotten at once, by one call: enough to make its cost small beside theirs.
const AT_ONCE: usize = 512;
/// How many batches that were sent repeatedly are left to expire.
const MAX_IN_DOUBT: usize = 1_024;

/// A batch that was answered.
#[derive(Debug)]
struct AnsweredBatch {
    /// The key of its first charge.
    key: StoredKey,
    id: IdempotencyKey,
}

/// Answered batches that the central store still knows.
#[derive(Debug, Default)]
pub(crate) struct AnsweredBatches {
    sent_once: Vec<AnsweredBatch>,
    /// Batches that were sent repeatedly. An earlier copy may be delayed for minutes, in a network that was interrupted
    /// or in a server that was frozen, and would be executed if its key were forgotten. So these keys expire, except
    /// the oldest of so many that they need too much room.
    in_doubt: VecDeque<AnsweredBatch>,
}

impl AnsweredBatches {
    pub(super) fn add(&mut self, batch: &Batch) {
        // A store remembers no call that changed nothing.
        let changed_nothing = batch.charges().all(|charge| charge.cost() == 0);
        let Some(first) = batch.keys.first().filter(|_| !changed_nothing) else { return };
        let answered = AnsweredBatch { key: first.key.clone(), id: batch.id };
        if !batch.in_doubt {
            self.sent_once.push(answered);
            return;
        }
        self.in_doubt.push_back(answered);
        if self.in_doubt.len() > MAX_IN_DOUBT {
            self.sent_once.extend(self.in_doubt.pop_front());
        }
    }

    /// Takes those that can be forgotten, if there are so many.
    fn take(&mut self, at_least: usize) -> Vec<AnsweredBatch> {
        if self.sent_once.len() < at_least { Vec::new() } else { std::mem::take(&mut self.sent_once) }
    }
}

impl<S: Store, C> Node<S, C> {
    /// Lets the central store forget answered batches, if there are enough of them.
    pub(super) async fn forget_some(&self) {
        self.forget(AT_ONCE).await;
    }

    /// Lets the central store forget all answered batches.
    pub(super) async fn forget_all(&self) {
        self.forget(1).await;
    }

    async fn forget(&self, at_least: usize) {
        let answered = lock(&self.answered_batches).take(at_least);
        let keys: Vec<_> = answered.iter().map(|batch| (batch.key.key(), batch.id)).collect();
        if !keys.is_empty() {
            self.store.forget_deltas(&keys).await;
        }
    }
}
