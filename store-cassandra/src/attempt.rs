//! A change under way: what was seen of its rows, what was sent, and what may have become of that.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::{ErrorKind, Limit, StoreError, Time};

use crate::change::Rows;
use crate::counts::Counters;
use crate::error::{self, Fault};
use crate::exchange::{Found, Write, Written};
use crate::key;
use crate::link::Connected;
use crate::pace;
use crate::row::{self, Row};
use crate::store::Inner;

/// How long to wait after a failure that came at once: a connection is made again, or a replica comes to itself.
const BREATH: Duration = Duration::from_millis(50);
/// A store that seems to be alone with a row lets others try every so many times. They may be there: whoever is never fast
/// enough leaves nothing to see.
const ALONE: u32 = 32;
/// For how many others a store waits at most, once it has written a row.
const MOST_OTHERS: u32 = 4;

/// A row, and how it was seen.
#[derive(Debug)]
struct Seen<'a> {
    limit: &'a Limit,
    name: String,
    value: Option<Arc<[u8]>>,
    /// During this call, in an agreement of the replicas: what is decided by it is right, even if it changes nothing.
    confirmed: bool,
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    inner: &'a Inner,
    cluster: &'a Connected,
    partition: &'a [u8],
    seen: Vec<Seen<'a>>,
    now: Time,
    deadline: Instant,
    /// What its transactions leave in the rows: at most one of them is applied.
    stamp: u64,
    /// How many nodes have failed to answer.
    turn: usize,
    /// How often others were faster.
    losses: u32,
    /// A transaction may still be executed by a node that was given up.
    in_doubt: bool,
    /// How long the transaction took that was applied.
    took: Option<Duration>,
}

impl<'a> Attempt<'a> {
    /// Begins with the rows as they were seen last.
    pub(crate) fn new(
        inner: &'a Inner,
        cluster: &'a Connected,
        partition: &'a [u8],
        limits: &[&'a Limit],
        now: Time,
        deadline: Instant,
    ) -> Self {
        let margin = inner.settings.margin();
        let seen = limits.iter().map(|limit| {
            let name = key::row(limit);
            // What has ended since is not there any more, most likely. To be wrong about that costs a transaction.
            let lives =
                |value: &Arc<[u8]>| Row::decode(limit, value).map_or(true, |row| row.is_kept_at(now, margin));
            let value = inner.last_seen.get(partition, &name).filter(lives);
            Seen { limit, name, value, confirmed: false }
        });
        let (seen, stamp) = (seen.collect(), row::new_stamp(inner.writer));
        let (turn, losses, in_doubt, took) = (0, 0, false, None);
        Self { inner, cluster, partition, seen, now, deadline, stamp, turn, losses, in_doubt, took }
    }

    /// The rows as they were seen.
    pub(crate) fn rows<'l>(&self, limits: &'l [&'l Limit]) -> Rows<'l> {
        let row = |seen: &Seen<'_>| match &seen.value {
            Some(value) => Row::decode(seen.limit, value).map_err(|error| self.failure(error)),
            None => Ok(Row::default()),
        };
        Rows::new(limits, self.seen.iter().map(row).collect())
    }

    /// Whether all rows were seen during this call.
    pub(crate) fn is_of_now(&self) -> bool {
        self.seen.iter().all(|seen| seen.confirmed)
    }

    /// Until when a single node may take to answer: there must be time left to ask another.
    fn patience(&self) -> Instant {
        self.deadline.min(pace::in_future(self.inner.settings.call_timeout / 2))
    }

    /// What the caller is told if it ends here.
    fn failure(&self, error: StoreError) -> StoreError {
        if self.in_doubt { error.with_unknown_effect() } else { error }
    }

    /// Writes what has changed, on the condition that all rows are as they were seen. `false` if they are not; they have been
    /// seen anew then.
    pub(crate) async fn write(
        &mut self,
        before: &Rows<'_>,
        changes: &[Option<Row>],
    ) -> Result<bool, StoreError> {
        let (began, margin) = (pace::now(), self.inner.settings.margin());
        let mut writes = Vec::with_capacity(changes.len());
        for ((seen, before), after) in self.seen.iter().zip(before.all()).zip(changes) {
            // Nothing was decided by what nobody understands.
            if before.is_ok() {
                let after = after.clone().map(|mut row| {
                    row.stamp(self.stamp);
                    (row.encode(seen.limit).into(), row.time_to_live(self.now, margin))
                });
                writes.push(Write { row: &seen.name, before: seen.value.clone(), after });
            }
        }
        Counters::add(&self.inner.counters.transactions);
        let sent = timeout_at(self.patience(), self.cluster.write(self.partition, &writes, self.turn)).await;
        match sent.unwrap_or_else(|_| Err(Fault::Unknown(error::late()))) {
            Ok(Written::Applied) => {
                self.took = Some(began.elapsed());
                for Write { row, before, after } in writes {
                    let value = after.map_or(before, |(after, _)| Some(after));
                    self.inner.last_seen.put(self.partition, row, value);
                }
                Ok(true)
            }
            Ok(Written::Refused(found)) => {
                Counters::add(&self.inner.counters.refused);
                let names: Vec<_> = writes.iter().map(|write| write.row.to_owned()).collect();
                self.saw(&names, &found);
                // It may have been an earlier one of this call that was faster: one that was looked for before it arrived.
                if self.was_applied(before, changes)? {
                    return Ok(true);
                }
                self.pause(began.elapsed()).await?;
                Ok(false)
            }
            Err(Fault::NotDone(error)) => Err(self.failure(error)),
            Err(Fault::Unknown(error)) => {
                Counters::add(&self.inner.counters.lost);
                (self.turn, self.in_doubt) = (self.turn + 1, true);
                self.find_out(before, changes, error).await
            }
        }
    }

    /// What became of a transaction whose answer was lost: `true` if it was applied, `false` if it was not.
    async fn find_out(
        &mut self,
        before: &Rows<'_>,
        changes: &[Option<Row>],
        lost: StoreError,
    ) -> Result<bool, StoreError> {
        if self.look().await.is_err() {
            // Nobody knows what is there now.
            for seen in &self.seen {
                self.inner.last_seen.put(self.partition, &seen.name, None);
            }
            return Err(lost.with_unknown_effect());
        }
        let applied = self.was_applied(before, changes)?;
        if !applied {
            self.breathe(lost).await?;
        }
        Ok(applied)
    }

    /// Whether a transaction of this call shows in the rows as they were just seen. An error if one was lost, and they have
    /// forgotten.
    ///
    /// Any of its transactions that can have been applied was made from the same rows, and says the same: once they have
    /// changed, those that were made from them come to nothing.
    fn was_applied(&self, before: &Rows<'_>, changes: &[Option<Row>]) -> Result<bool, StoreError> {
        let now = self.rows(&[]);
        let rows = now.all().iter().zip(before.all()).zip(changes);
        let changed: Vec<(&Row, &Row)> = rows
            .filter_map(|((now, before), change)| {
                change.as_ref()?;
                Some((now.as_ref().ok()?, before.as_ref().ok()?))
            })
            .collect();
        if changed.iter().any(|(now, _)| now.has_stamp(self.stamp)) {
            return Ok(true);
        }
        if !self.in_doubt || changed.iter().any(|(now, before)| now.tells_all_since(before)) {
            return Ok(false);
        }
        Err(error::forgotten())
    }

    /// Reads all rows anew.
    pub(crate) async fn look(&mut self) -> Result<(), StoreError> {
        let names: Vec<_> = self.seen.iter().map(|seen| seen.name.clone()).collect();
        let rows: Vec<_> = names.iter().map(String::as_str).collect();
        loop {
            Counters::add(&self.inner.counters.reads);
            let read = timeout_at(self.patience(), self.cluster.read(self.partition, &rows, self.turn)).await;
            match read.unwrap_or_else(|_| Err(Fault::Unknown(error::late()))) {
                Ok(found) => {
                    self.saw(&names, &found);
                    return Ok(());
                }
                Err(Fault::Unknown(error)) => self.breathe(error).await?,
                // The connection went with the answer, and will be made again.
                Err(Fault::NotDone(error)) if self.in_doubt && error.kind() == ErrorKind::Unavailable => {
                    self.breathe(error).await?;
                }
                Err(fault) => return Err(self.failure(fault.into_error())),
            }
            self.turn += 1;
        }
    }

    /// These rows were seen just now; those that were not found are not there.
    fn saw(&mut self, names: &[String], found: &[Found]) {
        for seen in self.seen.iter_mut().filter(|seen| names.contains(&seen.name)) {
            let value = found.iter().find(|(name, _)| *name == seen.name).map(|(_, value)| Arc::clone(value));
            self.inner.last_seen.put(self.partition, &seen.name, value.clone());
            (seen.value, seen.confirmed) = (value, true);
        }
    }

    /// For how long this store leaves the rows to others, now that it has written them. It knows what is there before they
    /// do: at full speed it would always be faster, and they would never have their turn.
    pub(crate) fn courtesy(&self, before: &Rows<'_>) -> Duration {
        let Some(took) = self.took else { return Duration::ZERO };
        let writers = before.all().iter().flatten().map(|row| row.writers(self.inner.writer));
        let (others, ours) = writers.max().unwrap_or_default();
        let times = match u32::try_from(others).unwrap_or(MOST_OTHERS).min(MOST_OTHERS) {
            0 if ours && fastrand::u32(..ALONE) == 0 => 3,
            0 => return Duration::ZERO,
            others => others,
        };
        (took * times).mul_f64(0.5 + fastrand::f64()).min(self.inner.settings.reserve())
    }

    /// Others were faster, and shall not be so again by the same rhythm: a pause of random length. Not after the first time,
    /// when the row was only seen too long ago.
    async fn pause(&mut self, took: Duration) -> Result<(), StoreError> {
        self.losses += 1;
        let longest = if self.losses > 1 { took } else { Duration::ZERO };
        let error = error::outrun(self.losses);
        self.sleep(longest.mul_f64(fastrand::f64()), error).await
    }

    async fn breathe(&self, error: StoreError) -> Result<(), StoreError> {
        self.sleep(BREATH, error).await
    }

    /// Sleeps if there is time for that, and for an answer afterwards.
    async fn sleep(&self, span: Duration, error: StoreError) -> Result<(), StoreError> {
        let until = pace::in_future(span);
        if until + self.inner.settings.reserve() >= self.deadline {
            return Err(self.failure(error));
        }
        if span > Duration::ZERO {
            sleep_until(until).await;
        }
        Ok(())
    }
}
