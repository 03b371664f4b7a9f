//! Waiting until something may pass.

use core::future::{Future, poll_fn};
use core::hash::BuildHasher;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::hash::RandomState;

use super::{Limiter, Reservation};
use crate::charge::Charge;
use crate::clock::{BlockingTimer, Clock, Timer};
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, Store};

/// How long a caller would wait. A plain [`Duration`] is one without jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    max_wait: Duration,
    jitter: Duration,
}

impl Patience {
    /// Waits at most `max_wait`.
    pub const fn up_to(max_wait: Duration) -> Self {
        Self { max_wait, jitter: Duration::ZERO }
    }

    /// Starts up to `jitter` later than it could, at random, so that those who wait for the same instant
    /// do not all start together.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    fn delay(&self) -> Duration {
        match u64::try_from(self.jitter.as_nanos()) {
            Ok(0) => Duration::ZERO,
            Ok(most) => Duration::from_nanos(RandomState::new().hash_one(most) % most),
            Err(_) => self.jitter,
        }
    }
}

impl From<Duration> for Patience {
    fn from(max_wait: Duration) -> Self {
        Self::up_to(max_wait)
    }
}

impl<S: Store, C: Timer> Limiter<S, C> {
    /// Waits until one may pass, first come first served. Denied at once if that would take longer than the
    /// caller's patience.
    ///
    /// Where the algorithm reserves, the place is debited at once and the order is the store's. Elsewhere
    /// waiting means asking again at `retry_after`, and the order is that of this limiter. Dropping the
    /// future gives back what no later caller queued behind, as far as the store can do that without waiting.
    pub async fn until_ready<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        patience: impl Into<Patience>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready(limit.charge(key), patience).await
    }

    /// The same for a charge with a cost.
    pub async fn charge_until_ready(
        &self,
        charge: Charge<'_>,
        patience: impl Into<Patience>,
    ) -> Result<Decision, StoreError> {
        let patience = patience.into();
        if charge.limit().kind().reserves() {
            self.reserved(charge, patience).await
        } else {
            self.in_line(charge, patience).await
        }
    }

    async fn reserved(&self, charge: Charge<'_>, patience: Patience) -> Result<Decision, StoreError> {
        let reservation = self.reserve_charge(charge, patience.max_wait).await?;
        let wait = reservation.start_after();
        if reservation.is_allowed() && !wait.is_zero() {
            let undo = Undo { limiter: self, reservation: Some(reservation) };
            self.clock.sleep(wait + patience.delay()).await;
            undo.started();
        }
        Ok(*reservation.decision())
    }

    async fn in_line(&self, charge: Charge<'_>, patience: Patience) -> Result<Decision, StoreError> {
        let deadline = self.clock.now() + patience.max_wait;
        let place = self.line.join(&charge);
        let mut turn = pin!(place.first());
        let mut too_late = pin!(self.clock.sleep(patience.max_wait));
        let first = poll_fn(|context| match turn.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => too_late.as_mut().poll(context).map(|()| false),
        })
        .await;
        if !first {
            // Others are still before us: say what there is, and take nothing.
            let seen = self.charge(charge.cost(0)).await?;
            return Ok(seen.denied_in_line());
        }
        loop {
            let decision = self.charge(charge).await?;
            let left = deadline.since(self.clock.now());
            match decision.retry_after() {
                Some(wait) if wait <= left => {
                    self.clock.sleep(wait + patience.delay().min(left.saturating_sub(wait))).await;
                }
                _ => return Ok(decision),
            }
        }
    }
}

impl<S: ImmediateStore, C: BlockingTimer> Limiter<S, C> {
    /// Blocks the thread until one may pass. Denied at once if that would take longer than the caller's
    /// patience.
    pub fn until_ready_blocking<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        patience: impl Into<Patience>,
    ) -> Decision {
        let (patience, mut charge) = (patience.into(), limit.charge(key));
        let deadline = self.clock.now() + patience.max_wait;
        if limit.kind().reserves() {
            charge = charge.waiting_up_to(patience.max_wait);
        }
        loop {
            let decision = self.decide_now(&charge);
            if decision.is_allowed() {
                if !decision.start_after().is_zero() {
                    self.clock.pause(decision.start_after() + patience.delay());
                }
                return decision;
            }
            let left = deadline.since(self.clock.now());
            match decision.retry_after() {
                Some(wait) if wait <= left && !limit.kind().reserves() => {
                    self.clock.pause(wait + patience.delay().min(left.saturating_sub(wait)));
                }
                _ => return decision,
            }
        }
    }
}

/// Gives the reservation back if its caller is dropped before it starts.
struct Undo<'l, 'c, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    reservation: Option<Reservation<'c>>,
}

impl<S: Store, C: Clock> Undo<'_, '_, S, C> {
    fn started(mut self) {
        self.reservation = None;
    }
}

impl<S: Store, C: Clock> Drop for Undo<'_, '_, S, C> {
    fn drop(&mut self) {
        if let Some(reservation) = &self.reservation {
            self.limiter.cancel_detached(reservation);
        }
    }
}
