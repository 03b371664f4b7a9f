//! A store, a namespace and a time that a trial moves by hand.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{AnyStore, Export, Snapshot, State, Store};
use tollgate_core::{
    Action, Charge, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Time, Verdict,
};

use crate::compare::{RecentCalls, assert_decided};
use crate::pure::Pure;

/// The entity that a trial charges where any one will do.
pub(crate) const ENTITY: &str = "user:42";

/// Counts the states that a store holds ([`Subject::held_states`](crate::Subject::held_states)).
pub(crate) type CountStates<S> = Arc<
    dyn for<'a> Fn(&'a S, Time) -> Pin<Box<dyn Future<Output = Option<usize>> + Send + 'a>> + Send + Sync,
>;

/// What a trial runs on.
pub(crate) struct Fixture<S> {
    store: Arc<S>,
    namespace: String,
    now: Time,
    count_states: CountStates<S>,
    /// `None` where callers are concurrent: recording would put them in line.
    calls: Option<RecentCalls>,
}

/// A fixture of another caller: its calls are not recorded.
impl<S> Clone for Fixture<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            namespace: self.namespace.clone(),
            now: self.now,
            count_states: Arc::clone(&self.count_states),
            calls: None,
        }
    }
}

impl<S: Store> Fixture<S> {
    pub(crate) fn new(
        store: Arc<S>,
        namespace: String,
        count_states: CountStates<S>,
        calls: RecentCalls,
    ) -> Self {
        // Within every window and not on its boundary, so that trials cross boundaries.
        let now = Time::from_nanos(1_790_000_000_123_456_789);
        Self { store, namespace, now, count_states, calls: Some(calls) }
    }

    /// Returns the same fixture with the type of its store erased.
    pub(crate) fn erased(&self) -> Fixture<AnyStore>
    where
        S: 'static,
    {
        let store = Arc::new(AnyStore::new(Arc::clone(&self.store)));
        let count_states: CountStates<AnyStore> = Arc::new(|_, _| Box::pin(async { None }));
        let (namespace, calls) = (self.namespace.clone(), self.calls.clone());
        Fixture { store, namespace, now: self.now, count_states, calls }
    }

    fn record(&self, method: &str, charges: &[Charge<'_>], result: &dyn fmt::Debug) {
        if let Some(calls) = &self.calls {
            calls.add(method, charges, self.now, result);
        }
    }

    /// Returns how many states the store holds, expired ones included.
    pub(crate) async fn held_states(&self) -> usize {
        (self.count_states)(&self.store, self.now).await.expect("the subject counts states")
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
        let verdict = self.store.decide(Request::new(charges), self.now).await;
        self.record("decide", charges, &verdict);
        let verdict = verdict?;
        assert_eq!(verdict.decisions().len(), charges.len(), "one decision per charge");
        Ok(verdict)
    }

    /// Decides a request of these charges, and asserts that the pure function decides the same.
    pub(crate) async fn agrees(&self, pure: &mut Pure, charges: &[Charge<'_>], context: &str) -> Verdict {
        let (verdict, expected) = (self.decide(charges).await, pure.decide(charges, self.now));
        assert_decided(verdict.decisions(), expected.decisions(), charges, self.now, context);
        let (decided_at, expected_at) = (verdict.decided_at(), expected.decided_at());
        assert!(
            decided_at == expected_at,
            "{context}: the store says decided at {decided_at}, expected {expected_at}"
        );
        verdict
    }

    /// Decides a single charge by [`Store::decide_one`], and asserts that the pure function decides the same.
    pub(crate) async fn one_agrees(&self, pure: &mut Pure, charge: Charge<'_>, context: &str) -> Decision {
        let (decision, expected) = (self.one(charge).await, pure.decide(&[charge], self.now));
        assert_decided(&[decision], expected.decisions(), &[charge], self.now, context);
        decision
    }

    /// Decides a request with an idempotency key. An error fails the trial.
    pub(crate) async fn decide_with_key(&self, key: IdempotencyKey, charges: &[Charge<'_>]) -> Verdict {
        let verdict = self.store.decide(Request::new(charges).with_idempotency_key(key), self.now).await;
        self.record("decide with an idempotency key", charges, &verdict);
        verdict.expect("the store decides")
    }

    /// Decides a single charge by [`Store::decide_one`]. An error fails the trial.
    pub(crate) async fn one(&self, charge: Charge<'_>) -> Decision {
        self.try_one(charge).await.expect("the store decides")
    }

    pub(crate) async fn try_one(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        let decision = self.store.decide_one(&charge, &self.now).await;
        self.record("decide_one", &[charge], &decision);
        decision
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
        let export = self.store.export(charge.limit(), charge.key(), self.now).await;
        self.record("export", &[*charge], &export);
        export.expect("the store exports")
    }

    /// Applies deltas and returns one state per charge. An error fails the trial.
    pub(crate) async fn apply_deltas(&self, key: IdempotencyKey, charges: &[Charge<'_>]) -> Vec<Export> {
        let request = Request::new(charges).with_idempotency_key(key);
        let states = self.store.apply_deltas(request, self.now).await;
        self.record("apply_deltas", charges, &states);
        let states = states.expect("the store applies deltas");
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
