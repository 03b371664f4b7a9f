//! Acquires and returns leased tokens in a sync round.

use std::sync::Arc;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Charge, Clock, Effect, Request, StoreError, Time, Verdict};

use super::batch::MAX_CHARGES;
use crate::config::LimitConfig;
use crate::local::entry::{Entry, StoredKey};
use crate::local::lease::LeaseAction;
use crate::local::table::Location;
use crate::node::{Node, is_central};

/// What a sync round does for the lease of one key.
pub(super) struct LeaseUpdate {
    location: Location,
    key: StoredKey,
    config: Arc<LimitConfig>,
    todo: LeaseAction,
    action: Action,
    /// Tokens are being acquired, and callers may wait for them.
    acquiring: bool,
    /// The central store may have received it.
    sent: bool,
}

impl LeaseUpdate {
    /// Starts the update of an entry, which is in flight from then on. `None` if it is in flight already, has no lease,
    /// or nothing has to be done.
    pub(super) fn start(
        entry: &mut Entry,
        key: &StoredKey,
        location: Location,
        closing: bool,
        now: Time,
    ) -> Option<Self> {
        if entry.is_in_flight() {
            return None;
        }
        let (todo, action) = entry.state.start_lease_round(&entry.config, closing, now)?;
        entry.set_in_flight(true);
        let (key, config) = (key.clone(), Arc::clone(&entry.config));
        let acquiring = matches!(todo, LeaseAction::Acquire(_));
        Some(Self { location, key, config, todo, action, acquiring, sent: false })
    }

    fn charge(&self) -> Charge<'_> {
        let charge = self.config.limit.charge(self.key.key());
        match self.todo {
            LeaseAction::Acquire(tokens) | LeaseAction::Return(tokens) => {
                charge.with_cost(tokens).with_action(self.action)
            }
            LeaseAction::Keep | LeaseAction::Idle => charge.with_cost(0),
        }
    }
}

/// Updates in flight. When they are dropped, answered or not, their entries are no longer in flight, and tokens that
/// the central store has certainly not received are kept.
pub(super) struct LeaseUpdates<'a, S: Store, C: Clock> {
    node: &'a Node<S, C>,
    updates: Vec<LeaseUpdate>,
}

impl<'a, S: Store, C: Clock> LeaseUpdates<'a, S, C> {
    pub(super) fn new(node: &'a Node<S, C>, updates: Vec<LeaseUpdate>) -> Self {
        Self { node, updates }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }
}

impl<S: Store, C: Clock> Drop for LeaseUpdates<'_, S, C> {
    fn drop(&mut self) {
        let now = self.node.now();
        for update in &self.updates {
            let mut shard = self.node.table.lock(update.location.shard);
            if let Some(entry) = shard.get(update.location.index) {
                entry.set_in_flight(false);
                let Some(lease) = entry.state.lease_mut() else { continue };
                if update.acquiring {
                    lease.acquire_failed(&entry.config, now);
                }
                if let (LeaseAction::Return(tokens), false) = (update.todo, update.sent) {
                    lease.return_failed(tokens);
                }
            }
            shard.make_due(update.location.index);
        }
    }
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Acquires and returns tokens. Returns how many keys were answered, and the last error.
    pub(super) async fn update_leases(&self, mut all: LeaseUpdates<'_, S, C>) -> (usize, Option<StoreError>) {
        let (mut answered, mut failure) = (0, None);
        while !all.is_empty() {
            let rest = all.updates.len().saturating_sub(MAX_CHARGES);
            let mut part = LeaseUpdates::new(self, all.updates.split_off(rest));
            let sent_at = self.clock.now();
            part.updates.iter_mut().for_each(|update| update.sent = true);
            let answers = {
                let charges: Vec<[Charge<'_>; 1]> =
                    part.updates.iter().map(|update| [update.charge()]).collect();
                // Without an idempotency key: tokens whose answer is lost are lost, and never granted twice.
                let runs: Vec<_> = charges.iter().map(|charge| Run::new(Request::new(charge), 1)).collect();
                self.store.decide_batch(&runs, self.to_store(sent_at)).await
            };
            for (update, answer) in part.updates.iter_mut().zip(answers) {
                match answer.map(|run| run.into_verdicts().pop()) {
                    Ok(Some(verdict)) if is_central(&verdict) => {
                        answered += 1;
                        self.answered(verdict.decided_at(), sent_at);
                        self.apply_lease_answer(update, &verdict);
                    }
                    // A fallback answered: the central store has not received it.
                    Ok(_) => update.sent = false,
                    Err(error) => {
                        self.failed(&error, sent_at);
                        update.sent = error.effect() == Effect::Unknown;
                        failure = Some(error);
                    }
                }
            }
        }
        (answered, failure)
    }

    fn apply_lease_answer(&self, update: &mut LeaseUpdate, verdict: &Verdict) {
        let Some(decision) = verdict.decisions().first() else { return };
        update.acquiring = false;
        let mut shard = self.table.lock(update.location.shard);
        if let (LeaseAction::Acquire(_), Some(entry)) = (update.todo, shard.get(update.location.index))
            && let Some(lease) = entry.state.lease_mut()
        {
            lease.acquired(&update.charge(), decision, verdict.decided_at(), &entry.config);
        }
    }
}
