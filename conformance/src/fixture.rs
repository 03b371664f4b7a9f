//! A store, a namespace and a time that a trial moves by hand.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{AnyStore, Export, Snapshot, State, Store};
use tollgate_core::{
    Action, Charge, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Time, Verdict,
};

/// The entity that a trial charges where any one will do.
pub(crate) const ENTITY: &str = "user:42";

/// What a trial runs on.
#[derive(Debug)]
pub(crate) struct Fixture<S> {
    store: Arc<S>,
    namespace: String,
    now: Time,
}

impl<S> Clone for Fixture<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), namespace: self.namespace.clone(), now: self.now }
    }
}

impl<S: Store> Fixture<S> {
    pub(crate) fn new(store: Arc<S>, namespace: String) -> Self {
        // Within every window and not on its boundary, so that trials cross boundaries.
        Self { store, namespace, now: Time::from_nanos(1_790_000_000_123_456_789) }
    }

    /// Returns the same fixture with the type of its store erased.
    pub(crate) fn erased(&self) -> Fixture<AnyStore>
    where
        S: 'static,
    {
        let store = Arc::new(AnyStore::new(Arc::clone(&self.store)));
        Fixture { store, namespace: self.namespace.clone(), now: self.now }
    }

    pub(crate) fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Returns a namespace that no other trial and no earlier run uses.
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

    /// Decides a request of these charges. An error fails the trial.
    pub(crate) async fn decide(&self, charges: &[Charge<'_>]) -> Verdict {
        self.try_decide(charges).await.expect("the store decides")
    }

    pub(crate) async fn try_decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let verdict = self.store.decide(Request::new(charges), self.now).await?;
        assert_eq!(verdict.decisions().len(), charges.len(), "one decision per charge");
        Ok(verdict)
    }

    /// Decides a request with an idempotency key. An error fails the trial.
    pub(crate) async fn decide_with_key(&self, key: IdempotencyKey, charges: &[Charge<'_>]) -> Verdict {
        self.store
            .decide(Request::new(charges).with_idempotency_key(key), self.now)
            .await
            .expect("the store decides")
    }

    /// Decides a single charge by [`Store::decide_one`]. An error fails the trial.
    pub(crate) async fn one(&self, charge: Charge<'_>) -> Decision {
        self.try_one(charge).await.expect("the store decides")
    }

    pub(crate) async fn try_one(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        self.store.decide_one(&charge, &self.now).await
    }

    pub(crate) async fn take(&self, limit: &Limit, cost: u32) -> Decision {
        self.one(self.charge(limit, ENTITY).with_cost(cost)).await
    }

    /// Takes one unit at a time until one is denied.
    pub(crate) async fn exhaust(&self, limit: &Limit) {
        for _ in 0..1_000 {
            if self.take(limit, 1).await.is_denied() {
                return;
            }
        }
        panic!("a limit with a capacity of {} allowed a thousand units", limit.capacity());
    }

    pub(crate) async fn act(&self, limit: &Limit, cost: u32, action: Action) -> Decision {
        self.one(self.charge(limit, ENTITY).with_cost(cost).with_action(action)).await
    }

    pub(crate) async fn peek(&self, limit: &Limit) -> Decision {
        self.take(limit, 0).await
    }

    /// Asserts that the store refuses an action that the algorithm does not support, with a reason, and debits nothing.
    pub(crate) async fn refused(&self, limit: &Limit, action: Action) {
        let before = self.peek(limit).await;
        let charge = self.charge(limit, ENTITY).with_action(action);
        let errors = [
            self.try_decide(&[charge]).await.expect_err("decide refuses the action"),
            self.try_one(charge).await.expect_err("decide_one refuses the action"),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(!error.is_retryable() && error.to_string().contains(limit.name()), "{error}");
        }
        assert_eq!(self.peek(limit).await, before, "a refused action changes nothing");
    }

    pub(crate) async fn export(&self, limit: &Limit) -> Option<Snapshot> {
        self.export_of(&self.charge(limit, ENTITY)).await.state
    }

    /// Exports the state that a charge is decided by. An error fails the trial.
    pub(crate) async fn export_of(&self, charge: &Charge<'_>) -> Export {
        self.store.export(charge.limit(), charge.key(), self.now).await.expect("the store exports")
    }

    /// Applies deltas and returns one state per charge. An error fails the trial.
    pub(crate) async fn apply_deltas(&self, key: IdempotencyKey, charges: &[Charge<'_>]) -> Vec<Export> {
        let request = Request::new(charges).with_idempotency_key(key);
        let states = self.store.apply_deltas(request, self.now).await.expect("the store applies deltas");
        assert_eq!(states.len(), charges.len(), "one state per charge");
        states
    }
}

/// Returns a peek at the key that a charge belongs to.
pub(crate) fn peek_of<'a>(charge: &Charge<'a>) -> Charge<'a> {
    charge.limit().charge(charge.key()).with_cost(0)
}

/// Returns the decision of a peek by an exported state.
pub(crate) fn peek_at(charge: &Charge<'_>, export: &Export) -> Decision {
    let mut state = match &export.state {
        Some(snapshot) => State::from_snapshot(charge.limit(), snapshot).expect("a valid snapshot"),
        None => State::default(),
    };
    state.apply(&peek_of(charge), export.at)
}
