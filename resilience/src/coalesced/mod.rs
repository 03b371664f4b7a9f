//! Few calls for many checks: what gathers while a call is in flight goes with the next.
//!
//! # Layout
//!
//! - `lane`: who goes at once, who waits, and which calls are under way.
//! - `seats`: where callers wait, and what they are told.
//! - `gathering`: those who wait together, decided by one call.
//! - `merge`: equal requests that travel as one.
//! - `flight`: calls from their begin to their end, however that comes about.

mod flight;
mod gathering;
mod lane;
mod merge;
mod seats;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{Capability, Export, OwnedRequest, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, Key, Limit, Request, StoreError, SystemClock, Time, Verdict,
};

use flight::{Alone, Shared, start};
use gathering::Waiting;
use lane::{Arrival, Lanes, MOST_CALLS, Settings};
use seats::Told;

/// Turns many concurrent checks into few calls of the store.
///
/// A check that finds few calls under way is sent at once, by itself. Checks that arrive while as many are under way as
/// there [may be](Self::in_flight) gather, and go with the next call, all of them in one
/// [batch](Store::decide_batch): there is no timer, and nobody waits for more than the answers that are already on their
/// way. Equal checks of a batch travel as one, so that a hot key costs next to nothing.
///
/// ```
/// use tollgate_core::{Limit, Limiter};
/// use tollgate_resilience::Coalesced;
/// # use tollgate_store_memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::config().keys(1_024).build();
/// let limiter = Limiter::new(Coalesced::new(redis));
/// let api = Limit::per_second(50).build("api")?;
/// let (one, another) = tokio::join!(limiter.check(&api, "user:42"), limiter.check(&api, "user:42"));
/// assert!(one?.is_allowed() && another?.is_allowed());
/// # Ok(())
/// # }
/// ```
///
/// # What changes
///
/// - **Lanes**: checks gather only with those that the store decides in the same call ([`Store::route`]). A request whose
///   charges belong to several lanes goes to the store directly.
/// - **Order**: the requests of a lane that have gathered are decided in the order of their arrival.
/// - **Time**: those who go together are decided together, as of the latest time that one of them gave.
/// - **Failure**: a call that fails fails for everybody in it. Nobody else is affected.
/// - **A call that hangs** holds nobody up for longer than the [`patience`](Self::patience): then the next arrival
///   starts another. A call that nobody waits for any more, for instance because each of its callers has run into a
///   deadline, is given up.
/// - **A caller that goes away** before its request was sent takes it along; afterwards the request may have
///   taken effect or not.
///
/// Everything else is passed on to the store. Batches are sent by tasks of the tokio runtime that the callers run in, which has
/// to go on running. Without one, those who have waited ask the store themselves.
///
/// Clones share their lanes.
pub struct Coalesced<S, C = SystemClock> {
    shared: Arc<Shared<S, C>>,
    settings: Settings,
}

impl<S: Store + 'static> Coalesced<S> {
    /// Gathers the checks of `store`.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock::new())
    }
}

impl<S: Store + 'static, C: Clock + 'static> Coalesced<S, C> {
    /// The same, with a clock to measure the [`patience`](Self::patience) by. It decides nothing else.
    pub fn with_clock(store: S, clock: C) -> Self {
        let shared = Shared { store, clock, lanes: Lanes::default() };
        Self { shared: Arc::new(shared), settings: Settings::default() }
    }

    /// How many calls of a lane are under way at once before checks start to gather; 4 unless said, and at most 16. More of
    /// them keep a server busy while answers are handed out, fewer make batches larger. With 1, a key is never asked about
    /// by two calls at once, which stores want that would have to decide one of them again.
    #[must_use]
    pub fn in_flight(mut self, calls: u32) -> Self {
        self.settings.in_flight = calls.clamp(1, MOST_CALLS);
        self
    }

    /// How old the newest call of a lane may get before an arrival overtakes it; 10 ms unless said. Up to 16 calls of a lane are
    /// under way at once then.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// The store that is asked.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// The lane of a request, if all of its charges share one.
    fn common_lane(&self, request: Request<'_>) -> Option<u64> {
        let (first, rest) = request.charges().split_first()?;
        let lane = self.shared.store.route(first);
        rest.iter().all(|charge| self.shared.store.route(charge) == lane).then_some(lane)
    }

    /// Decides alone by `alone`, or together with others what `waiting` makes.
    async fn go<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        lane: u64,
        alone: impl FnOnce() -> F,
        waiting: impl FnOnce() -> Waiting,
        told: impl FnOnce(Verdict) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Shared { lanes, clock, .. } = &*self.shared;
        match lanes.arrive(lane, &self.settings, clock, waiting) {
            Arrival::Alone(ticket) => {
                let _until_the_end = Alone::new(&self.shared, self.settings, ticket);
                alone().await
            }
            Arrival::Wait(waiter, ticket) => {
                if let Some(ticket) = ticket {
                    start(&self.shared, self.settings, ticket);
                }
                match waiter.await {
                    Told::Answer(answer) => answer.and_then(told),
                    Told::AskYourself => alone().await,
                }
            }
        }
    }
}

impl<S: Store + 'static, C: Clock + 'static> Store for Coalesced<S, C> {
    fn capability(&self) -> Capability {
        self.shared.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let alone = || self.shared.store.decide(request, now);
        let Some(lane) = self.common_lane(request) else { return alone().await };
        self.go(lane, alone, || Waiting { request: OwnedRequest::from(request), now }, Ok).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        charge.supported()?;
        let store = &self.shared.store;
        let alone = || store.decide_one(charge, clock);
        let waiting = || Waiting { request: OwnedRequest::from(charge), now: clock.now() };
        self.go(store.route(charge), alone, waiting, only_decision).await
    }

    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
        self.shared.store.decide_batch(batch, now)
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.shared.store.route(charge)
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.shared.store.decide_detached(request, now);
    }

    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Export, StoreError>> + Send {
        self.shared.store.export(limit, key, now)
    }

    fn apply_deltas(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
        self.shared.store.apply_deltas(request, now)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what a caller does with its verdict")]
fn only_decision(verdict: Verdict) -> Result<Decision, StoreError> {
    let missing = || StoreError::new(ErrorKind::Internal, "the store answered a charge without a decision");
    verdict.decisions().first().copied().ok_or_else(missing)
}

impl<S, C> Clone for Coalesced<S, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), settings: self.settings }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Coalesced<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalesced")
            .field("store", &self.shared.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
