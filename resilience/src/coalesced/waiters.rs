//! The callers that wait for a batch, and the replies to them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tollgate_core::{StoreError, Verdict};

/// The reply to a waiting caller.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are results, and moved once or twice")]
pub(super) enum Reply {
    /// The result of the store.
    Result(Result<Verdict, StoreError>),
    /// The request was not sent, and will not be.
    NotSent,
}

/// The waiters of one batch. One allocation for all of them, instead of a channel for each.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    table: Mutex<WaiterTable>,
}

#[derive(Debug, Default)]
struct WaiterTable {
    /// Grows on demand: a waiter that has not been polled yet may have no entry.
    states: Vec<WaiterState>,
    /// How many waiters were dropped without a reply.
    cancelled: usize,
    /// How many waiters there are, once the batch is closed.
    closed_at: Option<usize>,
    /// The task that makes the call. Woken when all waiters are cancelled.
    sender: Option<Waker>,
}

#[expect(clippy::large_enum_variant, reason = "one per waiting caller: a box would be one more allocation")]
#[derive(Debug, Default)]
enum WaiterState {
    /// The waiter has not been polled yet, or has taken its reply.
    #[default]
    Idle,
    Waiting(Waker),
    Replied(Reply),
    Cancelled,
}

impl WaiterTable {
    fn state(&mut self, index: usize) -> &mut WaiterState {
        if self.states.len() <= index {
            self.states.resize_with(index + 1, WaiterState::default);
        }
        &mut self.states[index]
    }

    fn all_cancelled(&self) -> bool {
        self.closed_at == Some(self.cancelled)
    }
}

impl Waiters {
    /// Closes the batch at `count` waiters. Returns the indexes of those that are not cancelled.
    pub(super) fn close(&self, count: usize) -> Vec<usize> {
        let mut table = self.lock();
        table.closed_at = Some(count);
        if table.cancelled == 0 {
            return (0..count).collect();
        }
        let is_cancelled = |index: &usize| matches!(table.states.get(*index), Some(WaiterState::Cancelled));
        (0..count).filter(|index| !is_cancelled(index)).collect()
    }

    /// Replies to the waiters with these indexes.
    pub(super) fn reply(&self, replies: impl IntoIterator<Item = (usize, Reply)>) {
        let mut wakers = Vec::new();
        let mut table = self.lock();
        for (index, reply) in replies {
            let state = table.state(index);
            match std::mem::replace(state, WaiterState::Replied(reply)) {
                WaiterState::Waiting(waker) => wakers.push(waker),
                WaiterState::Idle => {}
                // A cancelled waiter needs no reply, and the first reply counts.
                earlier @ (WaiterState::Cancelled | WaiterState::Replied(_)) => *state = earlier,
            }
        }
        drop(table);
        // Outside of the lock, which the woken callers take first.
        for waker in wakers {
            waker.wake();
        }
    }

    /// Returns whether all waiters are cancelled. If not, `context` is woken when they are.
    pub(super) fn all_cancelled(&self, context: &Context<'_>) -> bool {
        let mut table = self.lock();
        if !table.sender.as_ref().is_some_and(|sender| sender.will_wake(context.waker())) {
            table.sender = Some(context.waker().clone());
        }
        table.all_cancelled()
    }

    fn lock(&self) -> MutexGuard<'_, WaiterTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for its reply. Dropping it cancels the request if it has not been sent.
#[derive(Debug)]
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    index: usize,
    /// Whether the reply has been taken.
    replied: bool,
}

impl Waiter {
    pub(super) fn new(waiters: &Arc<Waiters>, index: usize) -> Self {
        Self { waiters: Arc::clone(waiters), index, replied: false }
    }
}

impl Future for Waiter {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let this = &mut *self;
        let mut table = this.waiters.lock();
        let state = table.state(this.index);
        match state {
            WaiterState::Replied(_) => {
                let WaiterState::Replied(reply) = std::mem::take(state) else {
                    unreachable!("matched just now")
                };
                this.replied = true;
                Poll::Ready(reply)
            }
            WaiterState::Waiting(waker) if waker.will_wake(context.waker()) => Poll::Pending,
            WaiterState::Waiting(_) | WaiterState::Idle | WaiterState::Cancelled => {
                *state = WaiterState::Waiting(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.replied {
            return;
        }
        let sender = {
            let mut table = self.waiters.lock();
            let state = table.state(self.index);
            *state = WaiterState::Cancelled;
            table.cancelled += 1;
            if table.all_cancelled() { table.sender.take() } else { None }
        };
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}
