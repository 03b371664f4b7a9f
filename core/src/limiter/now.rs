//! The limiter's methods on stores that never wait: synchronous, without a runtime.

use super::Limiter;
use crate::charge::{Action, Charge};
use crate::clock::Clock;
use crate::decision::{Balance, Decision, Outcome, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, RawDecision};

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Checks whether one unit is allowed, and debits it.
    ///
    /// On a concurrency limit it takes no slot, because nobody could release it: the outcome is
    /// [`NeverFits`](Outcome::NeverFits). Use [`acquire_now`](Self::acquire_now).
    #[inline]
    pub fn check_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key))
    }

    /// Decides a charge. An error if the limit's algorithm does not support its action, and if it would take a slot of
    /// a concurrency limit without a lease.
    #[inline]
    pub fn charge_now(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        match charge.supported().and_then(|()| charge.releasable()) {
            Ok(()) => Ok(self.decide_now(&charge)),
            Err(error) => {
                self.report_error(core::slice::from_ref(&charge), &error);
                Err(error)
            }
        }
    }

    /// Checks several charges: all of them are debited or none is.
    pub fn check_all_now<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        Ok(self.decide_all_now(charges)?.with_names(charges))
    }

    pub(super) fn decide_all_now(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let result = match charges.iter().try_for_each(Charge::releasable) {
            Ok(()) => self.store.decide_now(self.request(charges), self.clock.now()),
            Err(error) => Err(error),
        };
        self.report(charges, result)
    }

    /// Checks whether one unit would be allowed, without debiting it.
    pub fn peek_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key).with_cost(0))
    }

    /// Debits up to `most` units, as many as remain, in one step; [`Decision::granted`] is the amount. On a concurrency
    /// limit as [`check_now`](Self::check_now): no slot is taken.
    pub fn take_up_to_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>, most: u32) -> Decision {
        self.decide_now(
            &limit.charge(key).with_cost(most.min(Limit::MAX_COUNT)).with_action(Action::TakeUpTo),
        )
    }

    /// Debits `cost` unconditionally. The balance may go below zero, and is repaid over time.
    pub fn debit_now<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Balance, StoreError> {
        let debit = limit.charge(key).with_cost(cost).with_action(Action::Debit { at: None });
        self.charge_now(debit).map(Balance::from)
    }

    /// Refunds `cost`.
    pub fn refund_now<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Balance, StoreError> {
        let refund = limit.charge(key).with_cost(cost).with_action(Action::Refund { at: None });
        self.charge_now(refund).map(Balance::from)
    }

    /// Resets the key: its state equals a fresh one afterwards.
    pub fn reset_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) {
        let _ = self.decide_now(&limit.charge(key).with_action(Action::Reset));
    }

    #[inline]
    pub(super) fn decide_now(&self, charge: &Charge<'_>) -> Decision {
        let decision = if charge.takes_unreleasable_slot() {
            self.refuse_slot_now(charge)
        } else {
            self.store.charge_now(charge, &self.clock)
        };
        self.report_decision(charge, &decision);
        decision
    }

    /// Denies a charge that would take a slot which nobody could release. Without a `Result`, that is a denial for
    /// ever.
    #[cold]
    fn refuse_slot_now(&self, charge: &Charge<'_>) -> Decision {
        let peeked = self.store.charge_now(&charge.with_cost(0), &self.clock).raw();
        RawDecision { outcome: Outcome::NeverFits, wait: 0, ..peeked }.into()
    }
}
