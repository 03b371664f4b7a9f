//! Those who wait together, decided by one call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tollgate_core::store::{OwnedRequest, Store};
use tollgate_core::{ErrorKind, StoreError, Time};

use super::merge::Merged;
use super::seats::{Seats, Told, Waiter};

/// Requests of one batch: what comes on top waits for the next. As many as stores send in one piece, and few enough
/// for one batch to be handed out while the next is being decided.
const MOST_REQUESTS: usize = 256;

/// A request whose caller waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: OwnedRequest,
    pub(super) now: Time,
}

/// Those who wait for the same call. Whoever has not been told anything when it is dropped is told that nobody knows.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// In the order of arrival, which is also the order of the seats.
    waiting: Vec<Waiting>,
    seats: Arc<Seats>,
    /// Everybody has been told.
    done: bool,
}

impl Gathering {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_REQUESTS
    }

    pub(super) fn join(&mut self, waiting: Waiting) -> Waiter {
        let waiter = Waiter::new(&self.seats, self.waiting.len());
        self.waiting.push(waiting);
        waiter
    }

    /// Decides for everybody who still waits, unless all of them leave before there is an answer.
    pub(super) async fn decide(mut self, store: &impl Store) {
        let present = self.seats.close(self.waiting.len());
        let Some(now) = present.iter().map(|number| self.waiting[*number].now).max() else { return };
        // Side by side, because runs refer to them.
        let (mut charges, mut ends) = (Vec::with_capacity(present.len()), Vec::with_capacity(present.len()));
        for number in &present {
            charges.extend(self.waiting[*number].request.charges());
            ends.push(charges.len());
        }
        let mut begin = 0;
        let merged = Merged::of(present.iter().zip(ends).map(|(number, end)| {
            let own = &charges[begin..end];
            begin = end;
            self.waiting[*number].request.request(own)
        }));
        let mut call = pin!(store.decide_batch(merged.runs(), now));
        let answers = poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(answers) => Poll::Ready(Some(answers)),
            Poll::Pending if self.seats.everybody_left(context) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(answers) = answers.await {
            let told = merged.hand_out(answers).map(Told::Answer);
            self.seats.tell(present.iter().copied().zip(told));
        }
        self.done = true;
    }

    /// Nothing will be sent: everybody asks for themselves.
    pub(super) fn dismiss(mut self) {
        self.tell_all(|| Told::AskYourself);
    }

    fn tell_all(&mut self, told: impl Fn() -> Told) {
        self.seats.tell((0..self.waiting.len()).map(|number| (number, told())));
        self.done = true;
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if !self.done {
            let lost = StoreError::new(ErrorKind::Internal, "the call of a batch ended without an answer");
            let lost = lost.with_unknown_effect();
            self.tell_all(|| Told::Answer(Err(lost.clone())));
        }
    }
}
