//! Acquires tokens for a charge that needs more than this node has: one caller calls the central store, the others wait.
//!
//! In `Mode::Deltas`, such a call has an idempotency key: if its answer is lost, sync rounds repeat it until there is
//! one, so that no token is lost. Leases have none: what is lost on the way is lost.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tollgate_core::store::{Run, Store};
use tollgate_core::{
    Action, Charge, Clock, Decision, Effect, IdempotencyKey, Request, StoreError, Time, Timer,
};

use super::answered::AnsweredCall;
use super::batch::MAX_CHARGES;
use crate::config::{LimitConfig, Mode};
use crate::local::acquisition::Acquisition;
use crate::local::entry::StoredKey;
use crate::local::state::LocalState;
use crate::local::table::KeyHash;
use crate::node::{Node, is_central, lock};

/// A call that takes tokens from the central store.
#[derive(Debug)]
pub(crate) struct TokenCall {
    hash: KeyHash,
    key: StoredKey,
    config: Arc<LimitConfig>,
    cost: u32,
    action: Action,
    /// `None`: it is not repeated.
    id: Option<IdempotencyKey>,
}

impl TokenCall {
    fn new(charge: &Charge<'_>, hash: KeyHash, key: &StoredKey, config: &Arc<LimitConfig>) -> Self {
        let id = (config.mode == Mode::Deltas).then(IdempotencyKey::unique);
        let (key, config) = (key.clone(), Arc::clone(config));
        Self { hash, key, config, cost: charge.cost(), action: charge.action(), id }
    }

    fn charge(&self) -> Charge<'_> {
        self.config.limit.charge(self.key.key()).with_cost(self.cost).with_action(self.action)
    }

    fn request<'a>(&self, charge: &'a [Charge<'a>; 1]) -> Request<'a> {
        let request = Request::new(charge);
        self.id.map_or(request, |id| request.with_idempotency_key(id))
    }
}

impl<S: Store, C: Timer> Node<S, C> {
    /// Acquires tokens for a charge, or waits for the caller that does. Returns whether the charge is worth another
    /// attempt. `again`: this caller has waited before.
    pub(crate) async fn acquire(&self, charge: &Charge<'_>, now: Time, again: bool) -> bool {
        let hash = self.table.hash(charge);
        let started = self.table.with(hash, |shard, index| {
            shard.make_due(index);
            let (entry, key) = shard.get_with_key(index)?;
            let config = &entry.config;
            let started = entry.state.acquire(charge, config, again);
            Some(started.map(|acquisition| match acquisition {
                Acquisition::Send(charge) => Ok(TokenCall::new(&charge, hash, key, config)),
                Acquisition::Wait(acquired) => Err(acquired),
            }))
        });
        match started {
            None => return false,
            Some(None) => {}
            Some(Some(Err(acquired))) => acquired.await,
            Some(Some(Ok(call))) => self.call_for_tokens(call, now).await,
        }
        true
    }

    async fn call_for_tokens(&self, call: TokenCall, now: Time) {
        let sent_at = self.clock.now();
        let mut guard = CallGuard { node: self, call: Some(call), in_doubt: true, failed: false };
        let Some(call) = &guard.call else { return };
        let answer = {
            let charge = [call.charge()];
            let decided = self.store.decide(call.request(&charge), self.to_store(now));
            let decided = self.and_forget_some(decided);
            match call.config.mode {
                Mode::Deltas => self.within(call.config.ask_within, decided).await,
                Mode::Lease => Some(decided.await),
            }
        };
        // From here on, it is the central store that has failed, if anything has, and not the caller that left.
        guard.failed = true;
        match answer {
            Some(Ok(verdict)) if is_central(&verdict) => {
                self.answered(verdict.decided_at(), sent_at);
                if let (Some(call), [decision]) = (guard.call.take(), verdict.decisions()) {
                    self.answered_token_call(&call, decision, false);
                    let now = self.now();
                    self.with_state(call.hash, |state, config| {
                        state.acquired(&call.charge(), decision, verdict.decided_at(), config, now);
                    });
                }
            }
            Some(Err(error)) => {
                self.failed(&error, sent_at);
                guard.in_doubt = error.effect() == Effect::Unknown;
            }
            // A fallback answered, after a call whose outcome it does not know; or nobody has.
            Some(Ok(_)) | None => self.staleness.called(sent_at),
        }
    }

    /// Awaits a call for at most so long. `None` if it takes longer. A store that answers at once needs no timer, and
    /// without a tokio runtime there is none.
    async fn within<T>(&self, at_most: Duration, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        if Handle::try_current().is_err() {
            return Some(call.await);
        }
        match select(call.as_mut(), pin!(self.clock.sleep(at_most))).await {
            Either::Left((answer, _)) => Some(answer),
            Either::Right(((), _)) => None,
        }
    }
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Repeats the calls that may have taken tokens, although nobody received the answer. The tokens that no caller needs
    /// any more return with the next sync round. Returns the last error.
    pub(super) async fn repeat_token_calls(&self) -> Option<StoreError> {
        let calls = std::mem::take(&mut *lock(&self.token_calls));
        let mut repeated = RepeatedCalls { node: self, calls };
        let mut failure = None;
        let mut rest = repeated.calls.len();
        while rest > 0 {
            let part = rest.saturating_sub(MAX_CHARGES)..rest;
            rest = part.start;
            let sent_at = self.clock.now();
            let answers = {
                let calls = &repeated.calls[part.clone()];
                let charges: Vec<_> = calls.iter().map(|call| [call.charge()]).collect();
                let runs: Vec<_> = calls
                    .iter()
                    .zip(&charges)
                    .map(|(call, charge)| Run::new(call.request(charge), 1))
                    .collect();
                self.store.decide_batch(&runs, self.to_store(sent_at)).await
            };
            // From the last one on, because an answered call leaves the list.
            for (index, answer) in part.zip(answers).collect::<Vec<_>>().into_iter().rev() {
                match answer.map(|run| run.into_verdicts().pop()) {
                    Ok(Some(verdict)) if is_central(&verdict) => {
                        self.answered(verdict.decided_at(), sent_at);
                        let call = repeated.calls.swap_remove(index);
                        if let Some(decision) = verdict.decisions().first() {
                            self.answered_token_call(&call, decision, true);
                        }
                        let decided_at = verdict.decided_at();
                        self.resolve(
                            &call,
                            verdict.decisions().first().map(|decision| (decision, decided_at)),
                        );
                    }
                    Ok(_) => {}
                    Err(error) => {
                        // A store recognizes a call before it rejects anything: it was not executed.
                        if self.failed(&error, sent_at) {
                            let call = repeated.calls.swap_remove(index);
                            self.resolve(&call, None);
                        }
                        failure = Some(error);
                    }
                }
            }
        }
        failure
    }

    fn answered_token_call(&self, call: &TokenCall, decision: &Decision, in_doubt: bool) {
        if let (Some(id), 1..) = (call.id, decision.granted()) {
            lock(&self.answered_calls).add(AnsweredCall { key: call.key.clone(), id }, in_doubt);
        }
    }

    fn resolve(&self, call: &TokenCall, decision: Option<(&Decision, Time)>) {
        let now = self.now();
        self.with_state(call.hash, |state, config| state.resolve_tokens_in_doubt(decision, config, now));
    }

    fn with_state(&self, hash: KeyHash, act: impl FnOnce(&mut LocalState, &LimitConfig)) {
        self.table.with(hash, |shard, index| {
            let entry = shard.get(index)?;
            act(&mut entry.state, &entry.config);
            Some(())
        });
    }
}

/// A call in flight. If it has no answer, or its caller is dropped, the callers that wait are woken, and the call is
/// repeated in the next sync round if it may have taken tokens.
struct CallGuard<'a, S: Store, C: Clock> {
    node: &'a Node<S, C>,
    /// `None` once it was answered.
    call: Option<TokenCall>,
    in_doubt: bool,
    failed: bool,
}

impl<S: Store, C: Clock> Drop for CallGuard<'_, S, C> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        // Measured from now, however long the call took: the callers that waited for it must not call at once again.
        let now = self.node.now();
        let in_doubt = self.in_doubt && call.id.is_some();
        self.node.with_state(call.hash, |state, config| {
            if in_doubt {
                state.doubt_tokens();
            }
            if self.failed {
                state.acquire_failed(config, now);
            } else {
                state.stop_acquiring(config, now);
            }
        });
        if in_doubt {
            lock(&self.node.token_calls).push(call);
        }
    }
}

/// Calls that are being repeated. What has no answer is kept for the next sync round.
struct RepeatedCalls<'a, S: Store, C: Clock> {
    node: &'a Node<S, C>,
    calls: Vec<TokenCall>,
}

impl<S: Store, C: Clock> Drop for RepeatedCalls<'_, S, C> {
    fn drop(&mut self) {
        lock(&self.node.token_calls).append(&mut self.calls);
    }
}
