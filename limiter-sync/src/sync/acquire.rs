//! Acquires tokens for a charge that needs more than are leased: one caller calls the central store, the others wait.

use std::sync::Arc;

use tollgate_core::store::Store;
use tollgate_core::{Charge, Clock, Request, Time};

use crate::local::lease::TokenLease;
use crate::local::table::KeyHash;
use crate::node::{Node, is_central};

impl<S: Store, C: Clock> Node<S, C> {
    /// Acquires tokens for a charge, or waits for the caller that does. Returns whether the charge is worth another
    /// attempt.
    pub(crate) async fn acquire(&self, charge: &Charge<'_>, now: Time) -> bool {
        let hash = self.table.hash(charge);
        let started = self.table.with(hash, |shard, index| {
            shard.make_due(index);
            let entry = shard.get(index)?;
            let lease = entry.state.lease_mut()?;
            Some(match lease.acquiring() {
                // Created under the lock, so that the notification cannot come before it.
                Some(acquiring) => Err(acquiring.notified_owned()),
                None => Ok((lease.start_acquiring(charge, &entry.config), Arc::clone(&entry.config))),
            })
        });
        let (to_send, config) = match started {
            None => return false,
            Some(Ok(started)) => started,
            Some(Err(acquired)) => {
                acquired.await;
                return true;
            }
        };
        let mut guard = AcquireGuard { node: self, hash, done: false };
        let sent_at = self.clock.now();
        let charges = [to_send];
        let answer = self.store.decide(Request::new(&charges), self.to_store(now)).await;
        guard.done = true;
        let verdict = match answer {
            Ok(verdict) if is_central(&verdict) => {
                self.answered(verdict.decided_at(), sent_at);
                Some(verdict)
            }
            Ok(_) => {
                self.staleness.called(sent_at);
                None
            }
            Err(error) => {
                self.failed(&error, sent_at);
                None
            }
        };
        let decided = verdict.as_ref().and_then(|verdict| Some((verdict.decisions().first()?, verdict)));
        guard.with_lease(|lease| match decided {
            Some((decision, verdict)) => lease.acquired(&to_send, decision, verdict.decided_at(), &config),
            // Measured from now, however long the call took: the callers that waited for it must not call at once
            // again.
            None => lease.acquire_failed(&config, self.now()),
        });
        true
    }
}

/// Wakes the callers that wait for tokens, even if the caller that acquires them is dropped.
struct AcquireGuard<'a, S: Store, C: Clock> {
    node: &'a Node<S, C>,
    hash: KeyHash,
    done: bool,
}

impl<S: Store, C: Clock> AcquireGuard<'_, S, C> {
    fn with_lease(&self, act: impl FnOnce(&mut TokenLease)) {
        self.node.table.with(self.hash, |shard, index| shard.get(index)?.state.lease_mut().map(act));
    }
}

impl<S: Store, C: Clock> Drop for AcquireGuard<'_, S, C> {
    fn drop(&mut self) {
        if !self.done {
            self.with_lease(TokenLease::stop_acquiring);
        }
    }
}
