//! A sync round: collects the due keys of an interval, sends their deltas, and maintains their leases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_core::store::Store;
use tollgate_core::{Charge, Clock, Event, StoreError};

use super::batch::{KeyDeltas, MAX_CHARGES, batches};
use super::leases::{LeaseUpdate, LeaseUpdates};
use super::send::InFlight;
use crate::local::table::Location;
use crate::node::{Node, lock};

/// How many calls are in flight at a time: few if they are large, more if they are small because of their routes.
const CALLS_IN_FLIGHT: std::ops::RangeInclusive<usize> = 4..=32;
/// How many keys are collected before the lock is released for others.
const KEYS_PER_LOCK: usize = 256;

/// The result of a sync round, or of a part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundResult {
    /// How many keys the central store answered for.
    pub(super) keys: usize,
    /// The largest debt among them, in tokens.
    pub(super) debt: u64,
}

impl RoundResult {
    fn and(self, other: Self) -> Self {
        Self { keys: self.keys + other.keys, debt: self.debt.max(other.debt) }
    }
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Synchronizes the due keys of an interval, and sends the batches that have no answer yet. `closing` also returns
    /// all leased tokens.
    pub(crate) async fn sync_round(&self, interval: usize, closing: bool) -> Result<(), StoreError> {
        // The task still runs when a node has been closed, and must not acquire tokens again.
        let (keys, leases) = self.collect_due(interval, closing || self.is_closed());
        self.run_round(keys, leases).await
    }

    /// Synchronizes the due keys of all intervals.
    pub(crate) async fn sync_rounds(&self) -> Result<(), StoreError> {
        let mut result = Ok(());
        for interval in 0..self.limits.intervals().len() {
            let round = self.sync_round(interval, false).await;
            result = result.and(round);
        }
        result
    }

    /// Sends the pending deltas of these charges' keys now. Does not wait for those that are in flight already.
    pub(crate) async fn sync_keys(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let keys = charges.iter().filter_map(|charge| {
            let hash = self.table.hash(charge);
            let shard = self.table.shard_of(hash);
            self.table.with(hash, |entries, index| {
                let (entry, key) = entries.get_with_key(index)?;
                KeyDeltas::take(entry, key, Location { shard, index }, self.now())
            })
        });
        // Only these: this caller does not wait for the unanswered batches of others.
        let batches = batches(&*self.store, keys.collect());
        let in_flight: Vec<_> = batches.into_iter().map(|batch| InFlight::new(self, batch)).collect();
        self.staleness.called(self.clock.now());
        let results = join_all(in_flight.into_iter().map(|batch| self.send(batch))).await;
        results.into_iter().try_for_each(|result| result.map(drop))
    }

    async fn run_round(&self, keys: Vec<KeyDeltas>, leases: Vec<LeaseUpdate>) -> Result<(), StoreError> {
        let started_at = self.clock.now();
        let leases = LeaseUpdates::new(self, leases);
        // From now on every key is in a batch or a guard, even if this future is dropped.
        let (batch_count, senders) = {
            let new = batches(&*self.store, keys);
            let mut queue = lock(&self.batches);
            queue.extend(new);
            let largest = queue.iter().map(|batch| batch.keys.len()).max().unwrap_or(1);
            let senders =
                (CALLS_IN_FLIGHT.start() * MAX_CHARGES / largest.max(1)).min(*CALLS_IN_FLIGHT.end());
            (AtomicUsize::new(queue.len()), senders.max(*CALLS_IN_FLIGHT.start()))
        };
        let no_tokens_in_doubt = lock(&self.token_calls).is_empty();
        if batch_count.load(Ordering::Relaxed) == 0 && leases.is_empty() && no_tokens_in_doubt {
            return Ok(());
        }
        self.staleness.called(started_at);
        let (mut result, mut failure) = (RoundResult::default(), None);
        for (part, failed) in join_all((0..senders).map(|_| self.send_queued(&batch_count))).await {
            result = result.and(part);
            failure = failure.or(failed);
        }
        let (lease_keys, failed) = self.update_leases(leases).await;
        result.keys += lease_keys;
        failure = failure.or(failed).or(self.repeat_token_calls().await);
        let took = self.clock.now().since(started_at);
        self.counters.sync_round(result.keys, took, result.debt, failure.is_some());
        if let Some(observer) = self.observer.get() {
            let RoundResult { keys, debt } = result;
            let (stale_for, error) = (self.stale_for(), failure.as_ref());
            observer.observe(Event::Synchronized { keys, took, debt, stale_for, error });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Sends one queued batch after the other, until all senders together have sent as many as there were.
    async fn send_queued(&self, batch_count: &AtomicUsize) -> (RoundResult, Option<StoreError>) {
        let (mut result, mut failure) = (RoundResult::default(), None);
        let next = |left: usize| left.checked_sub(1);
        while batch_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
            let Some(batch) = lock(&self.batches).pop_front() else { break };
            match self.send(InFlight::new(self, batch)).await {
                Ok(part) => result = result.and(part),
                Err(error) => failure = Some(error),
            }
        }
        (result, failure)
    }

    /// Collects the due keys of an interval. They are in flight from then on.
    fn collect_due(&self, interval: usize, closing: bool) -> (Vec<KeyDeltas>, Vec<LeaseUpdate>) {
        let (mut keys, mut leases) = (Vec::new(), Vec::new());
        let now = self.now();
        for number in self.table.shards() {
            let due = self.table.lock(number).take_due(interval);
            for part in due.chunks(KEYS_PER_LOCK) {
                let mut shard = self.table.lock(number);
                for index in part {
                    let location = Location { shard: number, index: *index };
                    let Some((entry, key)) = shard.start_sync(*index) else { continue };
                    if closing && !entry.has_pending() {
                        // What other nodes do no longer matters.
                        continue;
                    }
                    if let Some(deltas) = KeyDeltas::take(entry, key, location, now) {
                        keys.push(deltas);
                    } else if let Some(update) = LeaseUpdate::start(entry, key, location, closing, now) {
                        leases.push(update);
                    } else if entry.is_in_flight() || entry.state.stays_due(&entry.config, now) {
                        shard.make_due(*index);
                    }
                }
            }
        }
        (keys, leases)
    }
}

/// Returns the interval with up to a tenth subtracted or added at random, so that nodes do not synchronize in step.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}
