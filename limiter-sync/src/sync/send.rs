//! Sends a batch to the central store, and applies the answer to the replicas.

use tollgate_core::store::{Export, Store};
use tollgate_core::{Clock, Effect, ErrorKind, Limit, Request, StoreError, Time};

use super::batch::Batch;
use super::round::RoundResult;
use crate::central::state_of;
use crate::local::replica::Update;
use crate::local::usage::Usage;
use crate::node::{Node, lock};

/// How many more rounds include a key after its deltas were sent, to receive what other nodes have sent since. The
/// intervals of other nodes start when ours do and may be a fifth longer, so one round may be too early.
const RECHECKS: u8 = 2;
/// How often a batch in doubt is rejected before it is split.
const MAX_REJECTIONS: u8 = 4;

/// A batch that is being sent. Dropped without an answer, it returns to the queue.
pub(super) struct InFlight<'a, S: Store, C: Clock> {
    node: &'a Node<S, C>,
    batch: Option<Batch>,
}

impl<'a, S: Store, C: Clock> InFlight<'a, S, C> {
    pub(super) fn new(node: &'a Node<S, C>, batch: Batch) -> Self {
        Self { node, batch: Some(batch) }
    }
}

impl<S: Store, C: Clock> Drop for InFlight<'_, S, C> {
    fn drop(&mut self) {
        if let Some(mut batch) = self.batch.take() {
            // It may have arrived.
            batch.in_doubt = true;
            lock(&self.node.batches).push_back(batch);
        }
    }
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Sends a batch. If that fails, the batch returns to the queue.
    pub(super) async fn send(&self, mut in_flight: InFlight<'_, S, C>) -> Result<RoundResult, StoreError> {
        let sent_at = self.clock.now();
        let Some(batch) = &mut in_flight.batch else { return Ok(RoundResult::default()) };
        for key in &mut batch.keys {
            key.central_dates = self.offset.dates_deltas(key.config.interval, sent_at);
        }
        let answer = {
            let charges: Vec<_> = batch.charges().collect();
            let request = Request::new(&charges).with_idempotency_key(batch.id);
            let applying = self.store.apply_deltas(request, self.to_store(sent_at));
            self.and_forget_some(applying).await
        };
        let Some(batch) = in_flight.batch.take() else { return Ok(RoundResult::default()) };
        match answer {
            Ok(exports) if exports.len() != batch.charges().count() => {
                let why = "the central store returned a wrong number of states for a batch of deltas";
                let error = StoreError::new(ErrorKind::Internal, why).with_unknown_effect();
                self.requeue(batch, &error, sent_at);
                Err(error)
            }
            Ok(exports) => {
                if let Some(export) = exports.first() {
                    self.answered(export.at, sent_at);
                }
                if let Some(call) = batch.remembered() {
                    lock(&self.answered_calls).add(call, batch.in_doubt);
                }
                Ok(self.apply_answer(batch, exports))
            }
            Err(error) => {
                self.requeue(batch, &error, sent_at);
                Err(error)
            }
        }
    }

    /// Returns a batch to the queue that was not applied, or may not have been.
    fn requeue(&self, mut batch: Batch, error: &StoreError, sent_at: Time) {
        let mut queue = lock(&self.batches);
        batch.in_doubt |= error.effect() == Effect::Unknown;
        let about_a_key = self.failed(error, sent_at);
        batch.failed |= !about_a_key;
        batch.rejections = if about_a_key { batch.rejections.saturating_add(1) } else { 0 };
        // One bad key must not block the others for ever. A store recognizes a batch that it has applied before it
        // rejects anything: a batch that is rejected again and again was not applied, and can be split.
        let tolerated = if batch.in_doubt { MAX_REJECTIONS } else { 0 };
        if batch.rejections <= tolerated || batch.keys.len() < 2 {
            queue.push_back(batch);
            return;
        }
        let Batch { mut keys, .. } = batch;
        let half = keys.split_off(keys.len() / 2);
        for keys in [keys, half] {
            queue.push_back(Batch::new(keys));
        }
    }

    /// Applies the central states to the replicas of a batch that was applied.
    fn apply_answer(&self, batch: Batch, exports: Vec<Export>) -> RoundResult {
        let mut exports = exports.into_iter();
        let mut result = RoundResult { keys: batch.keys.len(), debt: 0 };
        for key in batch.keys {
            let Some([Some(Export { state, at }), usage, demand]) = key.answers(&mut exports) else { break };
            let state = state_of(&key.config.limit, state.as_ref());
            let mut shard = self.table.lock(key.location.shard);
            let Some(entry) = shard.get(key.location.index) else { continue };
            entry.set_in_flight(false);
            let now = at.max(self.now());
            entry.mark_synced(now);
            if let Ok(state) = state {
                let record = |export: Option<Export>, limit: Option<&Limit>| {
                    // A record that cannot be read has no figures.
                    state_of(limit?, export?.state.as_ref()).ok().and_then(|state| state.as_windows())
                };
                let records = key.config.records.as_ref();
                let demand = record(demand, records.map(|records| &records.demand));
                let usage = record(usage, records.and_then(|records| records.usage.as_ref()));
                let unit = key.config.usage_unit();
                let update = Update {
                    state,
                    sent: key.sending.deltas.sum(),
                    late: key.sending.late,
                    failed_before: batch.failed,
                    collected_at: key.collected_at,
                    comparable: key.was_synced || key.central_dates,
                    usage: usage.zip(unit).map(|(record, unit)| Usage { record, unit }),
                    demand: key.sending.report.zip(demand),
                };
                let debt = entry.state.update(update, &entry.config, now);
                result.debt = result.debt.max(rounded_up(debt));
                let sent_nothing = key.sending.deltas.is_empty();
                entry.rechecks = if sent_nothing { entry.rechecks.saturating_sub(1) } else { RECHECKS };
            }
            if entry.state.needs_sync(&entry.config, now)
                || entry.state.stays_due(&entry.config, now)
                || entry.rechecks > 0
            {
                shard.make_due(key.location.index);
            }
        }
        result
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn rounded_up(tokens: f64) -> u64 {
    tokens.ceil() as u64
}
