//! Acquires tokens for a charge that needs more than this node has: one caller calls the central store, the others wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::Handle;
use tollgate_core::store::Store;
use tollgate_core::{Charge, Request, Time, Timer};

use crate::config::{LimitConfig, Mode};
use crate::local::acquisition::Acquisition;
use crate::local::state::LocalState;
use crate::local::table::KeyHash;
use crate::node::{Node, is_central};

impl<S: Store, C: Timer> Node<S, C> {
    /// Acquires tokens for a charge, or waits for the caller that does. Returns whether the charge is worth another
    /// attempt. `again`: this caller has waited before.
    pub(crate) async fn acquire(&self, charge: &Charge<'_>, now: Time, again: bool) -> bool {
        let hash = self.table.hash(charge);
        let started = self.table.with(hash, |shard, index| {
            shard.make_due(index);
            let entry = shard.get(index)?;
            let config = Arc::clone(&entry.config);
            Some((entry.state.acquire(charge, &config, again), config))
        });
        let (to_send, config) = match started {
            None => return false,
            Some((None, _)) => return true,
            Some((Some(Acquisition::Send(to_send)), config)) => (to_send, config),
            Some((Some(Acquisition::Wait(acquired)), _)) => {
                acquired.await;
                return true;
            }
        };
        let mut guard = AcquireGuard { node: self, hash, config: &config, done: false };
        let sent_at = self.clock.now();
        let charges = [to_send];
        let call = self.store.decide(Request::new(&charges), self.to_store(now));
        let answer = match config.mode {
            Mode::Deltas => self.within(config.ask_within, call).await,
            Mode::Lease => Some(call.await),
        };
        let verdict = match answer {
            Some(Ok(verdict)) if is_central(&verdict) => {
                self.answered(verdict.decided_at(), sent_at);
                Some(verdict)
            }
            Some(Ok(_)) | None => {
                self.staleness.called(sent_at);
                None
            }
            Some(Err(error)) => {
                self.failed(&error, sent_at);
                None
            }
        };
        guard.done = true;
        let decided = verdict.as_ref().and_then(|verdict| Some((verdict.decisions().first()?, verdict)));
        guard.with_state(|state| match decided {
            Some((decision, verdict)) => {
                state.acquired(&to_send, decision, verdict.decided_at(), &config);
            }
            // Measured from now, however long the call took: the callers that waited for it must not call at once
            // again.
            None => state.acquire_failed(&config, self.now()),
        });
        true
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

/// Wakes the callers that wait for tokens, even if the caller that acquires them is dropped.
struct AcquireGuard<'a, S: Store, C: Timer> {
    node: &'a Node<S, C>,
    hash: KeyHash,
    config: &'a LimitConfig,
    done: bool,
}

impl<S: Store, C: Timer> AcquireGuard<'_, S, C> {
    fn with_state(&self, act: impl FnOnce(&mut LocalState)) {
        self.node.table.with(self.hash, |shard, index| {
            act(&mut shard.get(index)?.state);
            Some(())
        });
    }
}

impl<S: Store, C: Timer> Drop for AcquireGuard<'_, S, C> {
    fn drop(&mut self) {
        if !self.done {
            let now = self.node.now();
            self.with_state(|state| state.stop_acquiring(self.config, now));
        }
    }
}
