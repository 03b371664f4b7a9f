//! Waiting until a charge passes.

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

/// How long a caller would wait, and with how much jitter. A plain [`Duration`] is a wait without jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    max_wait: Duration,
    jitter: Duration,
}

impl Wait {
    /// Creates a wait of at most `max_wait`, without jitter.
    pub const fn up_to(max_wait: Duration) -> Self {
        Self { max_wait, jitter: Duration::ZERO }
    }

    /// Adds a random delay of up to `jitter`, so that callers that wait for the same instant do not start together. The
    /// delay stays within the maximum wait.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// How long to wait for what is due in `wait`: a random part of the jitter longer, within the maximum wait.
    fn with_delay(&self, wait: Duration, left: Duration) -> Duration {
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

impl From<Duration> for Wait {
    fn from(max_wait: Duration) -> Self {
        Self::up_to(max_wait)
    }
}

impl<S: Store, C: Timer> Limiter<S, C> {
    /// Waits until one unit passes, first come, first served. Denied if that takes longer than `wait`: at once where the
    /// algorithm reserves, otherwise at the latest when `wait` has elapsed.
    ///
    /// Where the algorithm reserves, the charge is debited at once and the order is the store's. Elsewhere waiting means
    /// retrying at `retry_after`, and the order is that of this limiter. Dropping the future
    /// cancels the wait and refunds the charge, except for the part that later callers already wait behind, as far as the
    /// store can do that without blocking.
    ///
    /// An error on concurrency limits: a slot acquired this way could not be released.
    pub async fn until_ready<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready(limit.charge(key), wait).await
    }

    /// Waits as [`until_ready`](Self::until_ready) does, for a charge with a cost.
    pub async fn charge_until_ready(
        &self,
        charge: Charge<'_>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        let wait = wait.into();
        waitable(&charge)?;
        if charge.limit().kind().reserves() {
            self.reserved(charge, wait).await
        } else {
            self.queued(charge, wait).await
        }
    }

    async fn reserved(&self, charge: Charge<'_>, wait: Wait) -> Result<Decision, StoreError> {
        let reservation = self.reserve_charge(charge, wait.max_wait).await?;
        let (decision, start) = (*reservation.decision(), reservation.start_after());
        if decision.is_allowed() && !start.is_zero() {
            let guard = CancelOnDrop { limiter: self, reservation: Some(reservation) };
            self.clock.sleep(wait.with_delay(start, wait.max_wait)).await;
            guard.started();
        }
        Ok(decision)
    }

    async fn queued(&self, charge: Charge<'_>, wait: Wait) -> Result<Decision, StoreError> {
        let deadline = self.clock.now() + wait.max_wait;
        let ticket = self.queues.join(&charge);
        let mut turn = pin!(ticket.turn());
        let mut too_late = pin!(self.clock.sleep(wait.max_wait));
        let first = poll_fn(|context| match turn.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => too_late.as_mut().poll(context).map(|()| false),
        })
        .await;
        if !first {
            // Others are still before this caller: peek, and take nothing.
            let seen = self.charge(charge.with_cost(0)).await?;
            return Ok(seen.denied_in_queue());
        }
        loop {
            let decision = self.charge(charge).await?;
            let left = deadline.since(self.clock.now());
            match decision.retry_after() {
                Some(pause) if pause <= left => {
                    self.clock.sleep(wait.with_delay(pause, left)).await;
                }
                _ => return Ok(decision),
            }
        }
    }
}

/// Whether waiting makes sense for a charge.
fn waitable(charge: &Charge<'_>) -> Result<(), StoreError> {
    let refuse = |why| Err(StoreError::unsupported(charge.limit().name(), why));
    match (charge.limit().kind(), charge.action()) {
        (AlgorithmKind::Concurrency, _) => refuse(
            "a slot acquired by waiting could not be released: acquire a lease, and retry while none is free",
        ),
        (_, Action::Take { .. }) => Ok(()),
        _ => refuse("only a take can wait"),
    }
}

impl<S: ImmediateStore, C: BlockingTimer> Limiter<S, C> {
    /// Blocks the thread until one unit passes. Denied if that would take longer than `wait`. Where the algorithm
    /// reserves, first come, first served; elsewhere blocked threads retry at `retry_after`, in no order.
    pub fn until_ready_blocking<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready_blocking(limit.charge(key), wait)
    }

    /// Blocks as [`until_ready_blocking`](Self::until_ready_blocking) does, for a charge with a cost.
    pub fn charge_until_ready_blocking(
        &self,
        mut charge: Charge<'_>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        waitable(&charge)?;
        let (limit, wait) = (charge.limit(), wait.into());
        let deadline = self.clock.now() + wait.max_wait;
        if limit.kind().reserves() {
            charge = charge.with_max_wait(wait.max_wait);
        }
        loop {
            let decision = self.decide_now(&charge);
            if decision.is_allowed() {
                if !decision.start_after().is_zero() {
                    self.clock.pause(wait.with_delay(decision.start_after(), wait.max_wait));
                }
                return Ok(decision);
            }
            let left = deadline.since(self.clock.now());
            match decision.retry_after() {
                Some(pause) if pause <= left && !limit.kind().reserves() => {
                    self.clock.pause(wait.with_delay(pause, left));
                }
                _ => return Ok(decision),
            }
        }
    }
}

/// Cancels the reservation if its caller is dropped before it starts.
struct CancelOnDrop<'l, 'c, S: Store, C: Clock> {
    limiter: &'l Limiter<S, C>,
    reservation: Option<Reservation<'c>>,
}

impl<S: Store, C: Clock> CancelOnDrop<'_, '_, S, C> {
    fn started(mut self) {
        self.reservation = None;
    }
}

impl<S: Store, C: Clock> Drop for CancelOnDrop<'_, '_, S, C> {
    fn drop(&mut self) {
        if let Some(reservation) = &self.reservation {
            self.limiter.cancel_detached(reservation);
        }
    }
}
