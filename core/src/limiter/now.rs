//! The limiter's methods on stores that never wait: the same charges, without a runtime.

use super::Limiter;
use crate::charge::{Action, Charge};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::{Limit, MAX_COUNT};
use crate::store::ImmediateStore;

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// May one pass?
    #[inline]
    pub fn check_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key))
    }

    /// May this charge pass? An error only if the limit's algorithm cannot do what it asks.
    #[inline]
    pub fn charge_now(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        charge.supported()?;
        Ok(self.decide_now(&charge))
    }

    /// May they all pass? All are debited or none is.
    pub fn check_all_now<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        let verdict = self.store.decide_now(self.request(charges), self.clock.now())?;
        self.report(charges, &verdict);
        Ok(verdict)
    }

    /// What would be answered, without taking anything.
    pub fn peek_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Decision {
        self.decide_now(&limit.charge(key).cost(0))
    }

    /// Takes as many as there are, at most `most`, in one step.
    pub fn take_up_to_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>, most: u32) -> Decision {
        self.decide_now(&limit.charge(key).cost(most.min(MAX_COUNT)).action(Action::TakeUpTo))
    }

    /// Takes `cost` whatever there is.
    pub fn debit_now<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge_now(limit.charge(key).cost(cost).action(Action::Debit { at: None }))
    }

    /// Gives `cost` back.
    pub fn refund_now<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge_now(limit.charge(key).cost(cost).action(Action::Refund { at: None }))
    }

    /// Forgets the key: as good as new.
    pub fn forget_now<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) {
        let _ = self.decide_now(&limit.charge(key).action(Action::Forget));
    }

    #[inline]
    pub(super) fn decide_now(&self, charge: &Charge<'_>) -> Decision {
        let decision = self.store.charge_now(charge, &self.clock);
        self.report_one(charge, &decision);
        decision
    }
}
