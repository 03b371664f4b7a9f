//! Reconciliation: the store receives what fallback stores granted during an outage.
//!
//! After an outage, this happens before the breaker closes. If calls fail only now and then, the breaker stays closed,
//! and it happens after the next call that succeeds.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, Event, Key, Limit, Request, SystemClock, Time};

use super::breaker::Recovered;
use super::call::with_deadline;
use super::pending::{DeltaBatch, OutgoingDelta, PendingDeltas};
use super::telemetry::Telemetry;

/// How many deltas are sent in one call.
const BATCH_SIZE: usize = 64;
/// Callers do not wait for these calls, so the deadline is longer than theirs.
const DEADLINE: Duration = Duration::from_secs(1);
/// How long the next attempt waits after one that failed while the breaker was closed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The store, and what reconciliation tasks need to send pending deltas to it.
#[derive(Debug)]
pub(super) struct ReconciledStore<S> {
    pub(super) store: S,
    pub(super) pending: PendingDeltas,
    pub(super) telemetry: Telemetry,
    /// Whether a task runs while the breaker is closed.
    running: AtomicBool,
    /// The earliest time of the next such task, after one that failed.
    not_before: AtomicU64,
}

/// The store failed: what is left stays pending.
struct StoreFailed;

/// The callers' time, which goes on while a task runs.
struct CallerTime {
    start: Time,
    clock: SystemClock,
    clock_start: Time,
}

impl CallerTime {
    fn starting_at(start: Time) -> Self {
        let clock = SystemClock::new();
        Self { start, clock_start: clock.now(), clock }
    }

    fn now(&self) -> Time {
        self.start + self.clock.now().since(self.clock_start)
    }
}

impl<S> ReconciledStore<S> {
    pub(super) fn new(store: S, pending: PendingDeltas, telemetry: Telemetry) -> Self {
        Self { store, pending, telemetry, running: AtomicBool::new(false), not_before: AtomicU64::new(0) }
    }
}

impl<S: Store + 'static> ReconciledStore<S> {
    /// Closes the breaker, after reconciliation if there are pending deltas.
    pub(super) fn recover(self: &Arc<Self>, recovered: Recovered, now: Time) {
        let runtime = Handle::try_current().ok().filter(|_| !self.pending.is_empty());
        let Some(runtime) = runtime else {
            self.telemetry.breaker_changed(recovered.close());
            return;
        };
        let (this, time) = (Arc::clone(self), CallerTime::starting_at(now));
        runtime.spawn(async move {
            // The breaker is half-open until then, so that the first decisions of the store are correct.
            if this.reconcile(&time).await.is_err() {
                this.telemetry.breaker_changed(recovered.record_failure(time.now()));
                return;
            }
            this.telemetry.breaker_changed(recovered.close());
            // What was granted meanwhile.
            let _ = this.reconcile(&time).await;
        });
    }

    /// Starts reconciliation while the breaker is closed: calls failed, but too few to open it.
    pub(super) fn reconcile_in_background(self: &Arc<Self>, now: Time) {
        let Ok(runtime) = Handle::try_current() else { return };
        let too_early = now.nanos() < self.not_before.load(Ordering::Relaxed);
        if too_early || self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (task, time) = (RunningTask(Arc::clone(self)), CallerTime::starting_at(now));
        runtime.spawn(async move {
            if task.0.reconcile(&time).await.is_err() {
                let retry_at = time.now() + RETRY_AFTER;
                task.0.not_before.store(retry_at.nanos(), Ordering::Relaxed);
            }
            drop(task);
        });
    }

    /// Sends all pending deltas.
    async fn reconcile(&self, time: &CallerTime) -> Result<(), StoreFailed> {
        let (mut clock_offset, mut reconciled) = (None, 0);
        // Bounded, because new keys may arrive as fast as others are sent. They wait for the next time.
        let mut max_keys = 2 * self.pending.len() + BATCH_SIZE;
        let mut outcome = Ok(());
        while outcome.is_ok() && max_keys > 0 {
            let batch = self.pending.take(BATCH_SIZE);
            if batch.keys == 0 {
                break;
            }
            max_keys = max_keys.saturating_sub(batch.keys);
            if clock_offset.is_none() {
                clock_offset = self.clock_offset(time.now()).await;
            }
            let Some(clock_offset) = clock_offset else {
                outcome = Err(StoreFailed);
                break;
            };
            let (keys, result) = self.send(batch, clock_offset, time.now()).await;
            reconciled += keys;
            outcome = result;
        }
        let lost = self.pending.take_lost();
        if reconciled > 0 || lost > 0 {
            let store = self.telemetry.name();
            self.telemetry.observe(Event::Reconciled { store, keys: reconciled, lost });
        }
        outcome
    }

    /// Returns how many nanoseconds the deciding clock is ahead of the callers' clock. A store that decides by the
    /// callers' clocks may decide at the time of other callers, who are ahead.
    async fn clock_offset(&self, now: Time) -> Option<i64> {
        // A peek at a key that is not in use: it fails only if the store does.
        let limit = Limit::per_second(1).build("tollgate clock").ok()?;
        let peek = [limit.charge(Key::new("tollgate", "clock")).with_cost(0)];
        let peek = pin!(async { self.store.decide(Request::new(&peek), now).await });
        let at = with_deadline(DEADLINE, peek).await.ok()?.ok()?.decided_at();
        i64::try_from(i128::from(at.nanos()) - i128::from(now.nanos())).ok()
    }

    /// Sends a batch. Returns how many keys were reconciled. What failed is pending again.
    async fn send(
        &self,
        mut batch: DeltaBatch<'_>,
        clock_offset: i64,
        now: Time,
    ) -> (usize, Result<(), StoreFailed>) {
        let idempotency_keys = batch.idempotency_keys();
        let results = {
            let charges: Vec<_> = batch.deltas().iter().map(|delta| [delta.charge(clock_offset)]).collect();
            let runs: Vec<_> = charges
                .iter()
                .zip(idempotency_keys)
                .map(|(charge, key)| Run::new(Request::new(charge).with_idempotency_key(key), 1))
                .collect();
            with_deadline(DEADLINE, pin!(async { self.store.decide_batch(&runs, now).await })).await
        };
        let Ok(results) = results else { return (0, Err(StoreFailed)) };
        let settled = batch.settle(results.into_iter().map(|result| result.err().map(|error| error.kind())));
        let tokens = |deltas: &[OutgoingDelta]| deltas.iter().map(OutgoingDelta::tokens).sum();
        self.telemetry.counters.reconciled.add(tokens(&settled.applied));
        self.telemetry.counters.lost.add(tokens(&settled.lost));
        self.pending.record_lost(tokens(&settled.lost));
        let keys = settled.applied.chunk_by(OutgoingDelta::same_state).count();
        (keys, if settled.incomplete { Err(StoreFailed) } else { Ok(()) })
    }
}

/// A task that runs while the breaker is closed. Another can start when it is dropped.
struct RunningTask<S>(Arc<ReconciledStore<S>>);

impl<S> Drop for RunningTask<S> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}
