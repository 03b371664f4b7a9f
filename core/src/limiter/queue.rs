//! First come, first served, for limits that cannot reserve: callers that wait for a key queue up, and only the first
//! in the queue tries to take. One that runs out of time reads the state, for its answer.

use alloc::collections::BTreeMap;
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

/// Those who wait, by numbers in the order of their arrival. Joining and leaving, from any position, are logarithmic.
#[derive(Debug)]
struct Queue<N = u64> {
    next_number: u64,
    waiting: BTreeMap<N, Option<Waker>>,
}

impl<N> Default for Queue<N> {
    fn default() -> Self {
        Self { next_number: 0, waiting: BTreeMap::new() }
    }
}

impl<N: Ord + Copy + From<u64>> Queue<N> {
    /// Joins at the end. Returns the number.
    fn join(&mut self) -> N {
        let number = N::from(self.next_number);
        self.next_number += 1;
        self.waiting.insert(number, None);
        number
    }

    /// Returns whether it is the turn of a number. If not, the waker is called when it is.
    fn poll_turn(&mut self, number: N, waker: &Waker) -> Poll<()> {
        if self.waiting.first_key_value().is_some_and(|(first, _)| *first == number) {
            return Poll::Ready(());
        }
        let Some(waiting) = self.waiting.get_mut(&number) else { return Poll::Ready(()) };
        *waiting = Some(waker.clone());
        Poll::Pending
    }

    /// Leaves the queue. Returns the waker of the one whose turn it is now.
    fn leave(&mut self, number: N) -> Option<Waker> {
        self.waiting.remove(&number);
        self.waiting.first_entry()?.get_mut().take()
    }
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
        let number = queues.entry(id.clone()).or_default().join();
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
            queue.poll_turn(self.number, context.waker())
        })
        .await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.id) else { return };
        let next = queue.leave(self.number);
        if queue.waiting.is_empty() {
            queues.remove(&self.id);
        }
        drop(queues);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::cmp::Ordering;

    use super::*;

    std::thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// A number that counts how often it is compared.
    #[derive(Clone, Copy)]
    struct Counted(u64);

    impl From<u64> for Counted {
        fn from(number: u64) -> Self {
            Self(number)
        }
    }

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted {}

    /// Joins, polls and leaves a long queue. Returns the number of comparisons of one caller, on average.
    fn comparisons(callers: usize, leave: impl Fn(&mut Vec<Counted>) -> Option<Counted>) -> usize {
        COMPARISONS.set(0);
        let mut queue = Queue::<Counted>::default();
        let mut waiting: Vec<_> = (0..callers).map(|_| queue.join()).collect();
        for number in &waiting[1..] {
            assert!(queue.poll_turn(*number, Waker::noop()).is_pending());
        }
        while let Some(number) = leave(&mut waiting) {
            let _ = queue.leave(number);
        }
        assert!(queue.waiting.is_empty());
        COMPARISONS.get() / callers
    }

    #[test]
    fn a_caller_is_compared_with_few_others_wherever_it_leaves() {
        let middle = |waiting: &mut Vec<Counted>| {
            (!waiting.is_empty()).then(|| waiting.swap_remove(waiting.len() / 2))
        };
        // Three look-ups, of a few nodes with up to 11 numbers each.
        for compared in [
            comparisons(8_000, Vec::pop),
            comparisons(8_000, |waiting| (!waiting.is_empty()).then(|| waiting.remove(0))),
            comparisons(8_000, middle),
        ] {
            assert!(compared <= 3 * 4 * 11, "{compared} comparisons");
        }
    }

    #[test]
    fn the_next_one_is_woken_when_the_first_one_leaves() {
        let mut queue = Queue::<u64>::default();
        let [first, second, third] = [queue.join(), queue.join(), queue.join()];
        assert!(queue.poll_turn(first, Waker::noop()).is_ready());
        assert!(queue.poll_turn(third, Waker::noop()).is_pending());
        assert!(queue.leave(second).is_none(), "the first one does not wait");
        assert!(queue.leave(first).is_some());
        assert!(queue.poll_turn(third, Waker::noop()).is_ready());
    }
}
