//! A call in progress: the rows as they were seen, the transactions that were sent, and whether one of them may still
//! be applied.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::{ErrorKind, Limit, StoreError, Time};

use crate::backoff;
use crate::error::{self, Failure};
use crate::key;
use crate::row::{Row, TransactionId};
use crate::session::PreparedSession;
use crate::stats::Counters;
use crate::store::Inner;
use crate::transaction::{RowWrite, StoredRow, TransactionResult};
use crate::update::Rows;

/// A row as this store saw it last.
#[derive(Debug)]
struct SeenRow<'a> {
    limit: &'a Limit,
    name: String,
    value: Option<Arc<[u8]>>,
    /// Seen during this call, by a transaction or a serial read. A decision based on it is current even if it writes
    /// nothing.
    is_current: bool,
}

/// A call in progress.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    inner: &'a Inner,
    session: &'a PreparedSession,
    partition: &'a [u8],
    seen: Vec<SeenRow<'a>>,
    /// The time of the caller's clock, and the one to decide at.
    now: Time,
    decided_at: Time,
    deadline: Instant,
    /// What the transactions of this call write into the rows. At most one of them is applied.
    transaction_id: TransactionId,
    /// The replica that requests start with. Incremented when a replica does not respond.
    replica: usize,
    /// How many transactions were not applied because another writer was faster.
    lost_races: u32,
    /// A replica that did not respond may still execute a transaction.
    in_doubt: bool,
    /// How long the applied transaction took.
    took: Option<Duration>,
}

impl<'a> Call<'a> {
    /// Creates a call that starts with the cached rows.
    pub(crate) fn new(
        inner: &'a Inner,
        session: &'a PreparedSession,
        partition: &'a [u8],
        limits: &[&'a Limit],
        now: Time,
        deadline: Instant,
    ) -> Self {
        let (margin, decided_at) = (inner.options.effective_margin(), inner.clock_lead.decide_at(now));
        let seen = limits.iter().map(|limit| {
            let name = key::row(limit);
            // A row that has probably expired is treated as missing. A wrong guess costs one more transaction.
            let is_alive = |value: &Arc<[u8]>| {
                Row::decode(limit, value).map_or(true, |row| row.is_alive_at(decided_at, margin))
            };
            let value = inner.row_cache.get(partition, &name).filter(is_alive);
            SeenRow { limit, name, value, is_current: false }
        });
        let (seen, transaction_id) = (seen.collect(), TransactionId::random(inner.writer));
        let (replica, lost_races, in_doubt, took) = (0, 0, false, None);
        Self {
            inner,
            session,
            partition,
            seen,
            now,
            decided_at,
            deadline,
            transaction_id,
            replica,
            lost_races,
            in_doubt,
            took,
        }
    }

    /// Decodes the rows as they were seen last.
    pub(crate) fn rows<'l>(&self, limits: &'l [&'l Limit]) -> Rows<'l> {
        let row = |seen: &SeenRow<'_>| match &seen.value {
            Some(value) => Row::decode(seen.limit, value).map_err(|error| self.with_effect(error)),
            None => Ok(Row::default()),
        };
        Rows::new(limits, self.seen.iter().map(row).collect())
    }

    /// Returns the time to decide at.
    pub(crate) fn decided_at(&self) -> Time {
        self.decided_at
    }

    /// Returns whether all rows were seen during this call.
    pub(crate) fn is_current(&self) -> bool {
        self.seen.iter().all(|seen| seen.is_current)
    }

    /// Returns until when to wait for a single response. It leaves time to try another replica.
    fn response_deadline(&self) -> Instant {
        self.deadline.min(backoff::deadline(self.inner.options.call_timeout / 2))
    }

    /// Marks an error that ends this call with an unknown effect if a transaction is in doubt.
    fn with_effect(&self, error: StoreError) -> StoreError {
        if self.in_doubt { error.with_unknown_effect() } else { error }
    }

    /// Writes the changed rows by one transaction, on the condition that all rows are as they were seen. Returns
    /// `false` if they are not; the current rows have been seen then.
    pub(crate) async fn write(
        &mut self,
        before: &Rows<'_>,
        changes: &[Option<Row>],
    ) -> Result<bool, StoreError> {
        let (started, margin) = (backoff::now(), self.inner.options.effective_margin());
        let mut writes = Vec::with_capacity(changes.len());
        for ((seen, before), change) in self.seen.iter().zip(before.all()).zip(changes) {
            // A row that cannot be decoded had no part in the decision, and is no condition either.
            if before.is_ok() {
                let update = change.clone().map(|mut row| {
                    // The caller's own time: other clients must not learn from this one what it has learnt from them.
                    row.push_transaction(self.transaction_id, self.now);
                    (row.encode(seen.limit).into(), row.time_to_live(self.decided_at, margin))
                });
                writes.push(RowWrite { row: &seen.name, expected: seen.value.clone(), update });
            }
        }
        Counters::add(&self.inner.counters.transactions);
        let write = self.session.write(self.partition, &writes, self.replica);
        let result = timeout_at(self.response_deadline(), write).await;
        match result.unwrap_or_else(|_| Err(Failure::Unknown(error::timed_out()))) {
            Ok(TransactionResult::Applied) => {
                self.took = Some(started.elapsed());
                for RowWrite { row, expected, update } in writes {
                    let value = update.map_or(expected, |(state, _)| Some(state));
                    self.inner.row_cache.put(self.partition, row, value);
                }
                Ok(true)
            }
            Ok(TransactionResult::NotApplied(stored)) => {
                Counters::add(&self.inner.counters.not_applied);
                let names: Vec<_> = writes.iter().map(|write| write.row.to_owned()).collect();
                self.set_seen(&names, &stored);
                // The other writer may have been an earlier transaction of this call, which arrived after the read
                // that looked for it.
                if self.was_applied(before, changes)? {
                    return Ok(true);
                }
                self.back_off(started.elapsed()).await?;
                Ok(false)
            }
            Err(Failure::NotExecuted(error)) => Err(self.with_effect(error)),
            Err(Failure::Unknown(error)) => {
                Counters::add(&self.inner.counters.lost_responses);
                (self.replica, self.in_doubt) = (self.replica + 1, true);
                self.resolve_doubt(before, changes, error).await
            }
        }
    }

    /// Finds out whether a transaction whose response was lost has been applied.
    async fn resolve_doubt(
        &mut self,
        before: &Rows<'_>,
        changes: &[Option<Row>],
        lost: StoreError,
    ) -> Result<bool, StoreError> {
        if self.read().await.is_err() {
            // The cached rows may be outdated.
            for seen in &self.seen {
                self.inner.row_cache.put(self.partition, &seen.name, None);
            }
            return Err(lost.with_unknown_effect());
        }
        let applied = self.was_applied(before, changes)?;
        if !applied {
            self.wait_to_retry(lost).await?;
        }
        Ok(applied)
    }

    /// Returns whether the rows, as they were just seen, contain a transaction of this call. An error if a
    /// transaction is in doubt and the rows do not reach back far enough.
    ///
    /// All transactions of this call that can have been applied were computed from the same rows, and have the same
    /// result: once the rows have changed, the others cannot be applied any more.
    fn was_applied(&self, before: &Rows<'_>, changes: &[Option<Row>]) -> Result<bool, StoreError> {
        let current = self.rows(&[]);
        let rows = current.all().iter().zip(before.all()).zip(changes);
        let changed: Vec<(&Row, &Row)> = rows
            .filter_map(|((current, before), change)| {
                change.as_ref()?;
                Some((current.as_ref().ok()?, before.as_ref().ok()?))
            })
            .collect();
        if changed.iter().any(|(current, _)| current.has_transaction(self.transaction_id)) {
            return Ok(true);
        }
        if !self.in_doubt || changed.iter().any(|(current, before)| current.has_all_since(before)) {
            return Ok(false);
        }
        Err(error::outcome_unknown())
    }

    /// Reads all rows by a serial read.
    pub(crate) async fn read(&mut self) -> Result<(), StoreError> {
        let names: Vec<_> = self.seen.iter().map(|seen| seen.name.clone()).collect();
        let rows: Vec<_> = names.iter().map(String::as_str).collect();
        loop {
            Counters::add(&self.inner.counters.reads);
            let read = self.session.read(self.partition, &rows, self.replica);
            let result = timeout_at(self.response_deadline(), read).await;
            match result.unwrap_or_else(|_| Err(Failure::Unknown(error::timed_out()))) {
                Ok(stored) => {
                    self.set_seen(&names, &stored);
                    return Ok(());
                }
                Err(Failure::Unknown(error)) => self.wait_to_retry(error).await?,
                // The connection broke together with the lost response, and is being restored.
                Err(Failure::NotExecuted(error))
                    if self.in_doubt && error.kind() == ErrorKind::Unavailable =>
                {
                    self.wait_to_retry(error).await?;
                }
                Err(failure) => return Err(self.with_effect(failure.into_error())),
            }
            self.replica += 1;
        }
    }

    /// Records the current values of these rows; those without a stored row do not exist.
    fn set_seen(&mut self, names: &[String], stored: &[StoredRow]) {
        for seen in self.seen.iter_mut().filter(|seen| names.contains(&seen.name)) {
            let value =
                stored.iter().find(|(name, _)| *name == seen.name).map(|(_, value)| Arc::clone(value));
            self.inner.row_cache.put(self.partition, &seen.name, value.clone());
            let row = value.as_ref().and_then(|value| Row::decode(seen.limit, value).ok());
            if let Some(written_at) = row.and_then(|row| row.written_by_others_at(self.inner.writer)) {
                self.inner.clock_lead.seen(written_at);
            }
            (seen.value, seen.is_current) = (value, true);
        }
        // A transaction that is in doubt and its repetition must have the same result.
        if !self.in_doubt {
            self.decided_at = self.inner.clock_lead.decide_at(self.now).max(self.decided_at);
        }
    }

    /// Returns how long this process leaves the rows to other writers after this call.
    pub(crate) fn yield_time(&self, before: &Rows<'_>) -> Duration {
        let Some(took) = self.took else { return Duration::ZERO };
        let writers = before.all().iter().flatten().map(|row| row.writers(self.inner.writer));
        let (others, is_writer) = writers.max().unwrap_or_default();
        backoff::yield_to_writers(took, others, is_writer).min(self.inner.options.response_reserve())
    }

    /// Waits after another writer was faster.
    async fn back_off(&mut self, took: Duration) -> Result<(), StoreError> {
        self.lost_races += 1;
        let error = error::contention(self.lost_races);
        self.sleep(backoff::after_lost_race(self.lost_races, took), error).await
    }

    async fn wait_to_retry(&self, error: StoreError) -> Result<(), StoreError> {
        self.sleep(backoff::RETRY_DELAY, error).await
    }

    /// Sleeps, or fails with `error` if no time for a response would be left afterwards.
    async fn sleep(&self, span: Duration, error: StoreError) -> Result<(), StoreError> {
        let until = backoff::deadline(span);
        if until + self.inner.options.response_reserve() >= self.deadline {
            return Err(self.with_effect(error));
        }
        if span > Duration::ZERO {
            sleep_until(until).await;
        }
        Ok(())
    }
}
