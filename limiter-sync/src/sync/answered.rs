//! Answered calls, whose idempotency keys the central store need not keep any longer.
//!
//! A store keeps an idempotency key for minutes, and on a cluster every slot with a dirty key is a batch in every
//! round: thousands per second. So the keys are forgotten once the calls are answered, many at a time, together with
//! another call. What the central store keeps of a node is bounded by [`AT_ONCE`], [`MAX_IN_DOUBT`] and the calls in
//! flight.

use std::collections::VecDeque;

use futures_util::future::join;
use tollgate_core::IdempotencyKey;
use tollgate_core::store::Store;

use crate::local::entry::StoredKey;
use crate::node::{Node, lock};

/// How many calls are forgotten at once: enough to make the cost small beside theirs.
const AT_ONCE: usize = 512;
/// How many calls that were sent repeatedly are left to expire.
const MAX_IN_DOUBT: usize = 1_024;

/// A call that was answered.
#[derive(Debug)]
pub(super) struct AnsweredCall {
    /// The key of its first charge.
    pub(super) key: StoredKey,
    pub(super) id: IdempotencyKey,
}

/// Answered calls that the central store still knows.
#[derive(Debug, Default)]
pub(crate) struct AnsweredCalls {
    sent_once: Vec<AnsweredCall>,
    /// Calls that were sent repeatedly. An earlier copy may be delayed for minutes, in a network that was interrupted
    /// or in a server that was frozen, and would be executed if its key were forgotten. So these keys expire, except
    /// the oldest of so many that they need too much room.
    in_doubt: VecDeque<AnsweredCall>,
}

impl AnsweredCalls {
    /// Adds a call that has changed something. A store remembers no other.
    pub(super) fn add(&mut self, call: AnsweredCall, in_doubt: bool) {
        if !in_doubt {
            self.sent_once.push(call);
            return;
        }
        self.in_doubt.push_back(call);
        if self.in_doubt.len() > MAX_IN_DOUBT {
            self.sent_once.extend(self.in_doubt.pop_front());
        }
    }

    /// Takes those that can be forgotten, if there are so many.
    fn take(&mut self, at_least: usize) -> Vec<AnsweredCall> {
        if self.sent_once.len() < at_least { Vec::new() } else { std::mem::take(&mut self.sent_once) }
    }
}

impl<S: Store, C> Node<S, C> {
    /// Awaits a call. At the same time, so that it takes no round trip of its own, lets the central store forget
    /// answered calls if there are enough of them.
    pub(super) async fn and_forget_some<T>(&self, call: impl Future<Output = T>) -> T {
        join(self.forget(AT_ONCE), call).await.1
    }

    /// Lets the central store forget all answered calls.
    pub(super) async fn forget_all(&self) {
        self.forget(1).await;
    }

    async fn forget(&self, at_least: usize) {
        let answered = lock(&self.answered_calls).take(at_least);
        let keys: Vec<_> = answered.iter().map(|call| (call.key.key(), call.id)).collect();
        if !keys.is_empty() {
            self.store.forget_idempotency_keys(&keys).await;
        }
    }
}
