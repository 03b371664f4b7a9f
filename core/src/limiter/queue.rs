//! First come, first served, for limits that cannot reserve: callers that wait for a key queue up, and only the first
//! in the queue tries to take. One that runs out of time reads the state, for its answer.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::charge::Charge;

/// Limits and keys, in full: keys that an attacker chooses must not end up in somebody else's queue. Sorted, so that
/// the order of the charges does not matter.
type QueueId = Vec<(u64, Vec<u8>, Vec<u8>)>;

/// The queues of all keys that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Queues {
    waiting: Mutex<BTreeMap<QueueId, Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    next_number: u64,
    waiting: VecDeque<(u64, Option<Waker>)>,
}

impl Queues {
    /// Joins the queue of these keys at its end. Dropping the ticket leaves the queue.
    ///
    /// A caller that waits for several keys queues with those that wait for the same ones: in a queue per key, somebody
    /// whose own limit is exhausted would hold up everybody else at a limit that they share.
    pub(super) fn join(&self, charges: &[Charge<'_>]) -> Ticket<'_> {
        let state = |charge: &Charge<'_>| {
            let key = charge.key();
            (charge.limit().id(), key.namespace().to_vec(), key.entity().to_vec())
        };
        let mut id: QueueId = charges.iter().map(state).collect();
        id.sort_unstable();
        id.dedup();
        let mut queues = self.lock();
        let queue = queues.entry(id.clone()).or_default();
        let number = queue.next_number;
        queue.next_number += 1;
        queue.waiting.push_back((number, None));
        Ticket { queues: self, id, number }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueId, Queue>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A position in a queue.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    queues: &'a Queues,
    id: QueueId,
    number: u64,
}

impl Ticket<'_> {
    /// Completes when this is the first in the queue.
    pub(super) async fn turn(&self) {
        poll_fn(|context| {
            let mut queues = self.queues.lock();
            let Some(queue) = queues.get_mut(&self.id) else { return Poll::Ready(()) };
            match queue.waiting.iter_mut().position(|(number, _)| *number == self.number) {
                None | Some(0) => Poll::Ready(()),
                Some(index) => {
                    queue.waiting[index].1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.id) else { return };
        queue.waiting.retain(|(number, _)| *number != self.number);
        let next = queue.waiting.front_mut().and_then(|(_, waker)| waker.take());
        if queue.waiting.is_empty() {
            queues.remove(&self.id);
        }
        drop(queues);
        if let Some(next) = next {
            next.wake();
        }
    }
}
