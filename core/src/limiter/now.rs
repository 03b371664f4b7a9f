//! The limiter's methods on stores that never wait: synchronous, without a runtime.

use super::Limiter;
use crate::charge::{Action, Charge};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::ImmediateStore;

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Checks whether one unit is allowed, and debits it.
    #[inline]
    pub fn check_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key))
    }

    /// Decides a charge. An error only if the limit's algorithm does not support its action.
    #[inline]
    pub fn charge_now(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        charge.supported()?;
        Ok(self.decide_now(&charge))
    }

    /// Checks several charges: all of them are debited or none is.
    pub fn check_all_now<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        let verdict = self.store.decide_now(self.request(charges), self.clock.now())?;
        self.report(charges, &verdict);
        Ok(verdict)
    }

    /// Checks whether one unit would be allowed, without debiting it.
    pub fn peek_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key).with_cost(0))
    }

    /// Debits up to `most` units, as many as remain, in one step; [`Decision::granted`] is the amount.
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
    ) -> Result<Decision, StoreError> {
        self.charge_now(limit.charge(key).with_cost(cost).with_action(Action::Debit { at: None }))
    }

    /// Refunds `cost`.
    pub fn refund_now<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge_now(limit.charge(key).with_cost(cost).with_action(Action::Refund { at: None }))
    }

    /// Resets the key: its state equals a fresh one afterwards.
    pub fn reset_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) {
        let _ = self.decide_now(&limit.charge(key).with_action(Action::Reset));
    }

    #[inline]
    pub(super) fn decide_now(&self, charge: &Charge<'_>) -> Decision {
        let decision = self.store.charge_now(charge, &self.clock);
        self.report_one(charge, &decision);
        decision
    }
}
