//! Reservations: debited now, started later.

use core::time::Duration;

use super::Limiter;
use crate::charge::{Charge, IdempotencyKey};
use crate::clock::Clock;
use crate::decision::{Balance, Decision, Source};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, RawDecision, Store};
use crate::time::Time;

/// A charge that was debited now to start later. Dropping it changes nothing: the debit stands.
///
/// It is refunded at most once, however often it is cancelled, so it is neither `Copy` nor `Clone`:
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::time::Duration;
/// # use tollgate::{Limit, Limiter, StoreError, store::Store};
///
/// # async fn start<S: Store>(limiter: &Limiter<S>, calls: &Limit) -> Result<(), StoreError> {
/// let mut reservation = limiter.reserve(calls, "partner", Duration::from_secs(5)).await?;
/// if limiter.cancel(&mut reservation).await.is_err() {
///     // The answer may have been lost: a repetition has the same idempotency key.
///     limiter.cancel(&mut reservation).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a reservation says when to start"]
pub struct Reservation<'a> {
    charge: Charge<'a>,
    decision: Decision,
    decided_at: Time,
    /// The key of every attempt to cancel it, once there was one.
    cancel_key: Option<IdempotencyKey>,
    /// The result of the attempt that succeeded.
    cancelled: Option<Balance>,
}

impl<'a> Reservation<'a> {
    fn new(charge: Charge<'a>, decision: Decision, decided_at: Time) -> Self {
        Self { charge, decision, decided_at, cancel_key: None, cancelled: None }
    }

    /// Returns the decision; denied if the start would have been later than the maximum wait.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns whether the charge was debited.
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// Returns when to start, counted from when the reservation was made.
    pub fn start_after(&self) -> Duration {
        self.decision.start_after()
    }

    /// Returns the idempotency key of every attempt to cancel this reservation.
    fn cancel_key(&mut self) -> Option<IdempotencyKey> {
        #[cfg(feature = "std")]
        self.cancel_key.get_or_insert_with(IdempotencyKey::unique);
        self.cancel_key
    }
}

/// Returns the charge that cancels another one: it refunds what the store debited, unless later reservations
/// already wait behind it. A decision that the store did not make was not debited there.
pub(super) fn cancellation<'a>(
    charge: &Charge<'a>,
    decision: &Decision,
    decided_at: Time,
) -> Option<Charge<'a>> {
    match decision.source() {
        Source::Store | Source::Shadow => charge.compensation(decision, decided_at),
        Source::Fallback | Source::Policy | Source::Switch | Source::Rule => None,
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Debits one unit now if it can start within `max_wait`; the reservation says when. An error on windows, counters,
    /// logs and concurrency limits, which cannot reserve.
    pub async fn reserve<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
        max_wait: Duration,
    ) -> Result<Reservation<'a>, StoreError> {
        let charge = limit.charge(key).with_max_wait(max_wait);
        let verdict = self.decide_all(&[charge]).await?;
        let decided_at = verdict.decided_at();
        Ok(Reservation::new(charge, verdict.into_single()?, decided_at))
    }

    /// Cancels a reservation. Refunds it, unless later reservations already wait behind it;
    /// [`Decision::granted`] is the refunded amount.
    ///
    /// After an error it can be cancelled again, also if the first attempt may have taken effect or was dropped: where
    /// calls may end with an unknown effect, all attempts have one idempotency key, and refund once for as long as the
    /// store recognizes it. A reservation that was cancelled returns the same result again, without a call.
    pub async fn cancel(&self, reservation: &mut Reservation<'_>) -> Result<Balance, StoreError> {
        if let Some(cancelled) = reservation.cancelled {
            return Ok(cancelled);
        }
        let decision = match cancellation(&reservation.charge, &reservation.decision, reservation.decided_at)
        {
            Some(refund) => self.charge_with_key(&refund, || reservation.cancel_key()).await?,
            None => nothing_refunded(&reservation.decision),
        };
        let balance = Balance::from(decision);
        reservation.cancelled = Some(balance);
        Ok(balance)
    }
}

/// Returns the result of cancelling what was not debited.
fn nothing_refunded(decision: &Decision) -> Decision {
    RawDecision { granted: 0, ..decision.raw() }.into()
}

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Debits one unit now if it can start within `max_wait`; the reservation says when. An error on windows, counters,
    /// logs and concurrency limits, which cannot reserve.
    pub fn reserve_now<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
        max_wait: Duration,
    ) -> Result<Reservation<'a>, StoreError> {
        let charge = limit.charge(key).with_max_wait(max_wait);
        let decided_at = self.clock.now();
        if let Err(error) = charge.supported() {
            self.report_error(core::slice::from_ref(&charge), &error);
            return Err(error);
        }
        let decision = self.store.charge_now(&charge, &decided_at);
        self.report_decision(&charge, &decision);
        Ok(Reservation::new(charge, decision, decided_at))
    }

    /// Cancels a reservation. Refunds it, unless later reservations already wait behind it;
    /// [`Decision::granted`] is the refunded amount. A reservation that was cancelled returns the same result again.
    pub fn cancel_now(&self, reservation: &mut Reservation<'_>) -> Balance {
        let Reservation { charge, decision, decided_at, cancel_key: _, cancelled } = reservation;
        *cancelled.get_or_insert_with(|| {
            let refund = cancellation(charge, decision, *decided_at);
            refund.map_or_else(|| nothing_refunded(decision), |refund| self.decide_now(&refund)).into()
        })
    }
}
