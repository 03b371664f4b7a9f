//! Waiting until something may pass.

use core::future::{Future, poll_fn};
use core::hash::BuildHasher;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::hash::RandomState;

use super::{Limiter, Reservation};
use crate::algorithm::AlgorithmKind;
use crate::charge::{Action, Charge};
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

    /// How long to wait for something that is due in `wait`: a random part of the jitter longer, as far as the
    /// patience goes.
    fn stretched(&self, wait: Duration, left: Duration) -> Duration {
        wait.saturating_add(self.delay().min(left.saturating_sub(wait)))
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
    ///
    /// An error on concurrency limits: a place taken this way could not be released.
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
        waitable(&charge)?;
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
            self.clock.sleep(patience.stretched(wait, patience.max_wait)).await;
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
                    self.clock.sleep(patience.stretched(wait, left)).await;
                }
                _ => return Ok(decision),
            }
        }
    }
}

/// Whether waiting makes sense for a charge.
fn waitable(charge: &Charge<'_>) -> Result<(), StoreError> {
    let refuse = |why| Err(StoreError::unsupported(charge.limit().name(), why));
    match (charge.limit().kind(), charge.get_action()) {
        (AlgorithmKind::Concurrency, _) => refuse(
            "a place taken by waiting could not be released: acquire a lease, and ask again while there is none",
        ),
        (_, Action::Take { .. }) => Ok(()),
        _ => refuse("only a take can wait"),
    }
}

impl<S: ImmediateStore, C: BlockingTimer> Limiter<S, C> {
    /// Blocks the thread until one may pass. Denied at once if that would take longer than the caller's
    /// patience. Where the algorithm reserves, first come first served; elsewhere those who block ask again at
    /// `retry_after`, in no order.
    pub fn until_ready_blocking<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        patience: impl Into<Patience>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready_blocking(limit.charge(key), patience)
    }

    /// The same for a charge with a cost.
    pub fn charge_until_ready_blocking(
        &self,
        mut charge: Charge<'_>,
        patience: impl Into<Patience>,
    ) -> Result<Decision, StoreError> {
        waitable(&charge)?;
        let (limit, patience) = (charge.limit(), patience.into());
        let deadline = self.clock.now() + patience.max_wait;
        if limit.kind().reserves() {
            charge = charge.waiting_up_to(patience.max_wait);
        }
        loop {
            let decision = self.decide_now(&charge);
            if decision.is_allowed() {
                if !decision.start_after().is_zero() {
                    self.clock.pause(patience.stretched(decision.start_after(), patience.max_wait));
                }
                return Ok(decision);
            }
            let left = deadline.since(self.clock.now());
            match decision.retry_after() {
                Some(wait) if wait <= left && !limit.kind().reserves() => {
                    self.clock.pause(patience.stretched(wait, left));
                }
                _ => return Ok(decision),
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
