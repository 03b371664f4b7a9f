//! A store, a time and a namespace, driven by hand.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{Snapshot, Store};
use tollgate_core::{
    Action, Charge, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Time, Verdict,
};

/// Where a trial happens.
#[derive(Debug)]
pub(crate) struct Stand<S> {
    store: Arc<S>,
    namespace: String,
    now: Time,
}

impl<S> Clone for Stand<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), namespace: self.namespace.clone(), now: self.now }
    }
}

impl<S: Store> Stand<S> {
    pub(crate) fn new(store: Arc<S>, namespace: String) -> Self {
        // Not on a boundary of any window, so that boundaries are crossed and not stood on.
        Self { store, namespace, now: Time::from_nanos(1_790_000_000_123_456_789) }
    }

    pub(crate) fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// A namespace that no other trial and no earlier run has.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn set(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn advance(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    pub(crate) fn back(&mut self, span: Duration) {
        self.now = self.now - span;
    }

    pub(crate) fn charge<'a>(
        &'a self,
        limit: &'a Limit,
        entity: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Charge<'a> {
        limit.charge(Key::new(&self.namespace, entity))
    }

    /// Decides; a store that cannot answer here fails the trial.
    pub(crate) async fn decide(&self, charges: &[Charge<'_>]) -> Verdict {
        self.try_decide(charges).await.expect("the store answers")
    }

    pub(crate) async fn try_decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let verdict = self.store.decide(Request::new(charges), self.now).await?;
        assert_eq!(verdict.decisions().len(), charges.len(), "one decision per charge");
        Ok(verdict)
    }

    pub(crate) async fn decide_as(&self, id: IdempotencyKey, charges: &[Charge<'_>]) -> Verdict {
        self.store
            .decide(Request::new(charges).with_idempotency_key(id), self.now)
            .await
            .expect("the store answers")
    }

    /// A single charge, by the shortcut that limiters take.
    pub(crate) async fn one(&self, charge: Charge<'_>) -> Decision {
        self.store.decide_one(&charge, &self.now).await.expect("the store answers")
    }

    pub(crate) async fn take(&self, limit: &Limit, cost: u32) -> Decision {
        self.one(self.charge(limit, WHO).with_cost(cost)).await
    }

    /// Takes one after the other until one is denied.
    pub(crate) async fn exhaust(&self, limit: &Limit) {
        for _ in 0..1_000 {
            if self.take(limit, 1).await.is_denied() {
                return;
            }
        }
        panic!("a limit with a capacity of {} let a thousand pass", limit.capacity());
    }

    pub(crate) async fn act(&self, limit: &Limit, cost: u32, action: Action) -> Decision {
        self.one(self.charge(limit, WHO).with_cost(cost).with_action(action)).await
    }

    pub(crate) async fn peek(&self, limit: &Limit) -> Decision {
        self.take(limit, 0).await
    }

    /// What the algorithm cannot do must be refused, with a reason, before anything is debited.
    pub(crate) async fn refused(&self, limit: &Limit, action: Action) {
        let before = self.peek(limit).await;
        let charge = self.charge(limit, WHO).with_action(action);
        let both = [
            self.try_decide(&[charge]).await.expect_err("a refusal"),
            self.store.decide_one(&charge, &self.now).await.expect_err("a refusal by the shortcut too"),
        ];
        for error in both {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(!error.is_retryable() && error.to_string().contains(limit.name()), "{error}");
        }
        assert_eq!(self.peek(limit).await, before, "a refusal changes nothing");
    }

    pub(crate) async fn export(&self, limit: &Limit) -> Option<Snapshot> {
        let key = Key::new(&self.namespace, WHO);
        self.store.export(limit, key, self.now).await.expect("the store exports").state
    }
}

/// Whom a trial counts for, where it does not matter.
pub(crate) const WHO: &str = "somebody";
