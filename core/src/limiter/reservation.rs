//! Debit now, start later.

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

/// What was debited now to start later. Dropping it changes nothing: the debit stands.
#[derive(Clone, Copy, Debug)]
#[must_use = "a reservation says when to start"]
pub struct Reservation<'a> {
    charge: Charge<'a>,
    decision: Decision,
    decided_at: Time,
}

impl<'a> Reservation<'a> {
    /// The decision; denied if the start would have been later than the caller would wait.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// It was made.
    pub fn is_allowed(&self) -> bool {
        self.decision.is_allowed()
    }

    /// How long after it was made to start.
    pub fn start_after(&self) -> Duration {
        self.decision.start_after()
    }

    /// The charge that gives it back: only what no later reservation queued behind. What others than the store
    /// decided was not debited where it would be given back.
    fn undo(&self) -> Option<Charge<'a>> {
        match self.decision.source() {
            Source::Store => self.charge.undo(&self.decision, self.decided_at),
            _ => None,
        }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Debits one now if it can start within `max_wait`; the reservation says when. Windows and logs cannot
    /// reserve: for them this is an error.
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
        let charge = charge.waiting_up_to(max_wait);
        let verdict = self.check_all([charge]).await?;
        let decided_at = verdict.decided_at();
        let decision = verdict.into_first().ok_or_else(StoreError::no_decision)?;
        Ok(Reservation { charge, decision, decided_at })
    }

    /// Gives back what no later reservation queued behind. What was given is in [`Decision::granted`].
    pub async fn cancel(&self, reservation: Reservation<'_>) -> Result<Decision, StoreError> {
        match reservation.undo() {
            Some(undo) => self.charge(undo).await,
            None => Ok(*reservation.decision()),
        }
    }

    /// The same without waiting for the answer, for callers that are being dropped.
    #[cfg(feature = "std")]
    pub(super) fn cancel_detached(&self, reservation: &Reservation<'_>) {
        if let Some(undo) = reservation.undo() {
            self.store.decide_detached(self.request(&[undo]), self.clock.now());
        }
    }
}

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Debits one now if it can start within `max_wait`; the reservation says when.
    pub fn reserve_now<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
        max_wait: Duration,
    ) -> Result<Reservation<'a>, StoreError> {
        let charge = limit.charge(key).waiting_up_to(max_wait);
        let decided_at = self.clock.now();
        charge.supported()?;
        let decision = self.store.charge_now(&charge, &decided_at);
        self.report_one(&charge, &decision);
        Ok(Reservation { charge, decision, decided_at })
    }

    /// Gives back what no later reservation queued behind.
    pub fn cancel_now(&self, reservation: Reservation<'_>) -> Decision {
        reservation.undo().map_or(*reservation.decision(), |undo| self.decide_now(&undo))
    }
}
