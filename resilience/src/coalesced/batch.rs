//! A batch: requests that wait together and are decided by one call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tollgate_core::store::{OwnedRequest, Store};
use tollgate_core::{ErrorKind, StoreError, Time};

use super::merge::MergedRuns;
use super::stats::BatchCounters;
use super::waiters::{Reply, Waiter, Waiters};

/// The most requests of one batch: as many as stores send in one piece, and few enough to deliver one batch while the
/// next is being decided.
const MAX_REQUESTS: usize = 256;

/// A request whose caller waits.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) request: OwnedRequest,
    pub(super) now: Time,
}

/// Requests for the same call. Callers without a reply when it is dropped get an error whose effect is unknown.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of arrival, which is also the order of the waiters.
    requests: Vec<QueuedRequest>,
    waiters: Arc<Waiters>,
    /// Whether every waiter has a reply.
    replied: bool,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= MAX_REQUESTS
    }

    pub(super) fn join(&mut self, request: QueuedRequest) -> Waiter {
        let waiter = Waiter::new(&self.waiters, self.requests.len());
        self.requests.push(request);
        waiter
    }

    /// Decides the requests whose callers still wait. The call is abandoned once no caller waits.
    pub(super) async fn decide(mut self, store: &impl Store, counters: &BatchCounters) {
        let waiting = self.waiters.close(self.requests.len());
        let Some(now) = waiting.iter().map(|index| self.requests[*index].now).max() else { return };
        // All charges in one vector, because runs borrow from it.
        let (mut charges, mut ends) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
        for index in &waiting {
            charges.extend(self.requests[*index].request.charges());
            ends.push(charges.len());
        }
        let mut start = 0;
        let merged = MergedRuns::new(waiting.iter().zip(ends).map(|(index, end)| {
            let own = &charges[start..end];
            start = end;
            self.requests[*index].request.request(own)
        }));
        counters.record_batch(waiting.len(), merged.runs().len());
        let mut call = pin!(store.decide_batch(merged.runs(), now));
        let results = poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(results) => Poll::Ready(Some(results)),
            Poll::Pending if self.waiters.all_cancelled(context) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match results.await {
            Some(results) => {
                let replies = merged.split(results).map(Reply::Result);
                self.waiters.reply(waiting.iter().copied().zip(replies));
            }
            None => counters.record_abandoned(),
        }
        self.replied = true;
    }

    /// Replies to every caller that nothing was sent: it calls the store itself.
    pub(super) fn dismiss(mut self) {
        self.reply_all(|| Reply::NotSent);
    }

    fn reply_all(&mut self, reply: impl Fn() -> Reply) {
        self.waiters.reply((0..self.requests.len()).map(|index| (index, reply())));
        self.replied = true;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.replied {
            let lost = StoreError::new(ErrorKind::Internal, "the call of a batch ended without a result");
            let lost = lost.with_unknown_effect();
            self.reply_all(|| Reply::Result(Err(lost.clone())));
        }
    }
}
