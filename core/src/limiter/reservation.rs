//! Reservations: debited now, started later.

use core::time::Duration;

use super::Limiter;
use crate::charge::Charge;
use crate::clock::Clock;
use crate::decision::{Decision, Source};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, Store};
use crate::time::Time;

/// A charge that was debited now to start later. Dropping it changes nothing: the debit stands.
///
/// It is cancelled at most once, so it is neither `Copy` nor `Clone`:
///
/// ```compile_fail
/// # use tollgate_core::{Limiter, Reservation, store::ImmediateStore};
/// # fn twice<S: ImmediateStore>(limiter: &Limiter<S>, reservation: Reservation<'_>) {
/// let _ = limiter.cancel_now(reservation);
/// let _ = limiter.cancel_now(reservation); // error: use of moved value
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a reservation says when to start"]
pub struct Reservation<'a> {
    charge: Charge<'a>,
    decision: Decision,
    decided_at: Time,
}

impl<'a> Reservation<'a> {
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

    /// The charge that cancels it: refunds all but the part that later reservations already wait behind. A decision that the store did
    /// not make was not debited there.
    fn cancellation(&self) -> Option<Charge<'a>> {
        match self.decision.source() {
            Source::Store => self.charge.compensation(&self.decision, self.decided_at),
            Source::Fallback | Source::Policy | Source::Switch | Source::Shadow => None,
        }
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
        self.reserve_charge(limit.charge(key), max_wait).await
    }

    pub(super) async fn reserve_charge<'a>(
        &self,
        charge: Charge<'a>,
        max_wait: Duration,
    ) -> Result<Reservation<'a>, StoreError> {
        let charge = charge.with_max_wait(max_wait);
        let verdict = self.check_all([charge]).await?;
        let decided_at = verdict.decided_at();
        let decision = verdict.into_single()?;
        Ok(Reservation { charge, decision, decided_at })
    }

    /// Cancels a reservation. Refunds it, except for the part that later reservations already wait behind;
    /// [`Decision::granted`] is the refunded amount.
    pub async fn cancel(&self, reservation: Reservation<'_>) -> Result<Decision, StoreError> {
        match reservation.cancellation() {
            Some(refund) => self.charge(refund).await,
            None => Ok(*reservation.decision()),
        }
    }

    /// Cancels a reservation without awaiting the result, for callers that are being dropped.
    #[cfg(feature = "std")]
    pub(super) fn cancel_detached(&self, reservation: &Reservation<'_>) {
        if let Some(refund) = reservation.cancellation() {
            self.charge_detached(refund);
        }
    }
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
        charge.supported()?;
        let decision = self.store.charge_now(&charge, &decided_at);
        self.report_one(&charge, &decision);
        Ok(Reservation { charge, decision, decided_at })
    }

    /// Cancels a reservation. Refunds it, except for the part that later reservations already wait behind;
    /// [`Decision::granted`] is the refunded amount.
    #[expect(clippy::needless_pass_by_value, reason = "a reservation is cancelled once")]
    pub fn cancel_now(&self, reservation: Reservation<'_>) -> Decision {
        reservation.cancellation().map_or(*reservation.decision(), |refund| self.decide_now(&refund))
    }
}
