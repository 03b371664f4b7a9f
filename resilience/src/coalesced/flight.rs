//! Calls from their begin to their end, however that comes about: answered, failed, given up, panicked.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tollgate_core::Clock;
use tollgate_core::store::Store;

use super::gathering::Gathering;
use super::lane::{Lanes, Settings, Ticket};

/// What callers and calls share.
#[derive(Debug)]
pub(super) struct Shared<S, C> {
    pub(super) store: S,
    /// For the patience.
    pub(super) clock: C,
    pub(super) lanes: Lanes,
}

/// The call of somebody who goes alone. When it is dropped, for whatever reason, those who have gathered are next.
#[derive(Debug)]
pub(super) struct Alone<'a, S: Store + 'static, C: Clock + 'static> {
    shared: &'a Arc<Shared<S, C>>,
    settings: Settings,
    ticket: Ticket,
}

impl<'a, S: Store + 'static, C: Clock + 'static> Alone<'a, S, C> {
    pub(super) fn new(shared: &'a Arc<Shared<S, C>>, settings: Settings, ticket: Ticket) -> Self {
        Self { shared, settings, ticket }
    }
}

impl<S: Store + 'static, C: Clock + 'static> Drop for Alone<'_, S, C> {
    fn drop(&mut self) {
        let next = self.shared.lanes.end(&self.ticket, &self.settings, &self.shared.clock);
        if let Some(ticket) = next {
            start(self.shared, self.settings, ticket);
        }
    }
}

/// Starts a call for those who have gathered. It has a task of its own, so that it outlives any of them.
pub(super) fn start<S, C>(shared: &Arc<Shared<S, C>>, settings: Settings, ticket: Ticket)
where
    S: Store + 'static,
    C: Clock + 'static,
{
    let flight = Flight { shared: Arc::clone(shared), settings, ticket: Some(ticket) };
    // Without a runtime the flight ends here, which leaves those who wait to themselves.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(flight.go());
    }
}

/// Calls for those who have gathered, one after the other.
#[derive(Debug)]
struct Flight<S: Store, C: Clock> {
    shared: Arc<Shared<S, C>>,
    settings: Settings,
    /// None once it has landed.
    ticket: Option<Ticket>,
}

impl<S: Store, C: Clock> Flight<S, C> {
    async fn go(mut self) {
        while let Some(gathering) = self.next() {
            gathering.decide(&self.shared.store).await;
            // Those who have just been answered often ask again at once. They gather before the next call
            // begins, instead of all but the first having to wait for it.
            yield_now().await;
        }
    }

    fn next(&mut self) -> Option<Gathering> {
        let Shared { lanes, clock, .. } = &*self.shared;
        let (ticket, gathering) = lanes.next(&self.ticket.take()?, &self.settings, clock)?;
        self.ticket = Some(ticket);
        Some(gathering)
    }
}

impl<S: Store, C: Clock> Drop for Flight<S, C> {
    /// It has not landed by itself: the store panicked, or the runtime is gone. Whoever waits shall not wait for that.
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            for gathering in self.shared.lanes.give_up(&ticket) {
                gathering.dismiss();
            }
        }
    }
}
