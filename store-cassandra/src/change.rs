//! Making a pure function come true: it is tried on the rows as they were seen last, and what it makes of them is written
//! by a transaction that holds only if they still are so.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::{ErrorKind, Limit, StoreError, Time};

use crate::counts::Counters;
use crate::error::{self, Fault};
use crate::exchange::{Found, Write, Written};
use crate::key;
use crate::link::Connected;
use crate::pace;
use crate::row::{self, Row};
use crate::store::Inner;

/// For how long a row with named operations is kept at least.
const OPERATION_MEMORY: Duration = Duration::from_secs(60);
/// Servers take no time-to-live that ends after 2038, unless they are told to. A state that is not used for this long is gone.
const LONGEST_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long to wait for a connection, to find out what became of a transaction that went with the last one.
const RECONNECTING: Duration = Duration::from_millis(50);

/// A store that seems to be alone with a row lets others try every so many times. They may be there: whoever is never fast enough
/// leaves nothing to see.
const ALONE: u32 = 32;
/// For how many others a store waits at most, once it has written a row.
const MOST_OTHERS: u32 = 4;

/// The rows of some limits of one entity, for a step to work on.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    limits: &'a [&'a Limit],
    rows: Vec<Row>,
}

impl Rows<'_> {
    /// The row of a limit that the change was announced for.
    pub(crate) fn of(&mut self, limit: &Limit) -> &mut Row {
        let index = self.limits.iter().position(|known| known.id() == limit.id());
        &mut self.rows[index.expect("every limit was announced")]
    }
}

/// A row, and how it was seen.
#[derive(Debug)]
struct Seen<'a> {
    limit: &'a Limit,
    name: String,
    value: Option<Arc<[u8]>>,
    /// During this call, in an agreement of the replicas: what is decided by it is right, even if it changes nothing.
    confirmed: bool,
}

/// Changes rows of a partition by `step`, which may be tried several times and whose last answer counts. Answers that change
/// nothing are given for rows as they are now, too.
pub(crate) async fn change<T>(
    inner: &Inner,
    partition: &[u8],
    limits: &[&Limit],
    now: Time,
    step: impl Fn(&mut Rows<'_>) -> T,
) -> Result<T, StoreError> {
    let deadline = pace::in_future(inner.settings.call_timeout);
    let cluster = timeout_at(deadline, inner.link.get()).await.map_err(|_| error::late())??;
    let turn = timeout_at(deadline, inner.queues.wait(partition)).await.map_err(|_| error::too_many())?;
    let seen = limits.iter().map(|limit| {
        let name = key::row(limit);
        let value = inner.last_seen.get(partition, &name);
        Seen { limit, name, value, confirmed: false }
    });
    let seen = seen.collect();
    let mut attempt = Attempt {
        inner,
        cluster,
        partition,
        seen,
        deadline,
        stamp: row::new_stamp(inner.writer),
        turn: 0,
        losses: 0,
        in_doubt: false,
        took: None,
    };
    loop {
        let before = match attempt.rows() {
            // Somebody may have put it right since.
            Err(_) if !attempt.is_of_now() => {
                attempt.look().await?;
                continue;
            }
            rows => rows?,
        };
        let mut rows = Rows { limits, rows: before.clone() };
        let answer = step(&mut rows);
        let changed: Vec<bool> = limits
            .iter()
            .zip(before.iter().zip(&rows.rows))
            .map(|(limit, (before, after))| !before.says_the_same(after, limit, now))
            .collect();
        if changed.contains(&true) {
            if attempt.write(&before, rows.rows, &changed, now).await? {
                turn.hold(attempt.courtesy(&before));
                return Ok(answer);
            }
        } else if attempt.is_of_now() {
            return Ok(answer);
        } else {
            attempt.look().await?;
        }
    }
}

/// A change under way.
struct Attempt<'a> {
    inner: &'a Inner,
    cluster: &'a Connected,
    partition: &'a [u8],
    seen: Vec<Seen<'a>>,
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

impl Attempt<'_> {
    fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let row = |seen: &Seen<'_>| match &seen.value {
            Some(value) => Row::decode(seen.limit, value),
            None => Ok(Row::default()),
        };
        self.seen.iter().map(row).collect::<Result<_, _>>().map_err(|error| self.failure(error))
    }

    /// Whether all rows were seen during this call.
    fn is_of_now(&self) -> bool {
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

    /// Writes what has changed, on the condition that all rows that were looked at are as they were seen. `false` if they are
    /// not; they have been seen anew then.
    async fn write(
        &mut self,
        before: &[Row],
        after: Vec<Row>,
        changed: &[bool],
        now: Time,
    ) -> Result<bool, StoreError> {
        let began = pace::now();
        let mut writes = Vec::with_capacity(after.len());
        for ((seen, mut row), changed) in self.seen.iter().zip(after).zip(changed) {
            if !changed && seen.confirmed {
                continue;
            }
            let time_to_live = time_to_live(&row, now, &self.inner.settings.margin());
            let after = if *changed {
                row.stamp(self.stamp);
                Some(row.encode(seen.limit).into())
            } else {
                seen.value.clone()
            };
            writes.push(Write { row: &seen.name, before: seen.value.clone(), after, time_to_live });
        }
        Counters::add(&self.inner.counters.transactions);
        let sent = timeout_at(self.patience(), self.cluster.write(self.partition, &writes, self.turn)).await;
        match sent.unwrap_or_else(|_| Err(Fault::Unknown(error::late()))) {
            Ok(Written::Applied) => {
                self.took = Some(began.elapsed());
                for Write { row, after, .. } in writes {
                    self.inner.last_seen.put(self.partition, row, after);
                }
                Ok(true)
            }
            Ok(Written::Refused(found)) => {
                let names: Vec<_> = writes.iter().map(|write| write.row.to_owned()).collect();
                Counters::add(&self.inner.counters.refused);
                self.saw(&names, &found);
                // It may have been an earlier one of this call that was faster: one that was looked for before it arrived.
                if self.in_doubt && self.was_applied(before, changed, &error::late())? {
                    return Ok(true);
                }
                self.pause(began.elapsed()).await?;
                Ok(false)
            }
            Err(Fault::NotDone(error)) => Err(self.failure(error)),
            Err(Fault::Unknown(error)) => {
                let names: Vec<_> = writes.iter().map(|write| write.row.to_owned()).collect();
                Counters::add(&self.inner.counters.lost);
                (self.turn, self.in_doubt) = (self.turn + 1, true);
                self.find_out(&names, before, changed, error).await
            }
        }
    }

    /// What became of a transaction whose answer was lost: `true` if it was applied, `false` if it was not.
    async fn find_out(
        &mut self,
        names: &[String],
        before: &[Row],
        changed: &[bool],
        lost: StoreError,
    ) -> Result<bool, StoreError> {
        if self.look().await.is_err() {
            // Nobody knows what is there now.
            for name in names {
                self.inner.last_seen.put(self.partition, name, None);
            }
            return Err(lost.with_unknown_effect());
        }
        self.was_applied(before, changed, &lost)
    }

    /// Whether a transaction of this call shows in the rows as they were just seen. An error if they have forgotten.
    ///
    /// Any of its transactions that can have been applied was made from the same rows, and says the same: once they have
    /// changed, those that were made from them come to nothing.
    fn was_applied(&self, before: &[Row], changed: &[bool], lost: &StoreError) -> Result<bool, StoreError> {
        let now = self.rows()?;
        let mut rows =
            now.iter().zip(before).zip(changed).filter(|(_, changed)| **changed).map(|(rows, _)| rows);
        if rows.clone().any(|(now, _)| now.has_stamp(self.stamp)) {
            return Ok(true);
        }
        if rows.any(|(now, before)| now.tells_all_since(before)) {
            return Ok(false);
        }
        // So many others have written it since that the row has forgotten whether this one was among them.
        Err(lost.clone().with_unknown_effect())
    }

    /// Reads all rows anew.
    async fn look(&mut self) -> Result<(), StoreError> {
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
                Err(Fault::Unknown(_)) if pace::now() < self.deadline => self.turn += 1,
                // The connection went with the answer, and will be made again.
                Err(Fault::NotDone(error))
                    if self.in_doubt
                        && error.kind() == ErrorKind::Unavailable
                        && pace::in_future(RECONNECTING) < self.deadline =>
                {
                    sleep_until(pace::in_future(RECONNECTING)).await;
                    self.turn += 1;
                }
                Err(fault) => return Err(self.failure(fault.into_error())),
            }
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
    fn courtesy(&self, before: &[Row]) -> Duration {
        let Some(took) = self.took else { return Duration::ZERO };
        let writers = before.iter().map(|row| row.writers(self.inner.writer));
        let (others, ours) = writers.max().unwrap_or_default();
        let times = match u32::try_from(others).unwrap_or(MOST_OTHERS).min(MOST_OTHERS) {
            0 if ours && fastrand::u32(..ALONE) == 0 => 3,
            0 => return Duration::ZERO,
            others => others,
        };
        (took * times).mul_f64(0.5 + fastrand::f64()).min(self.inner.settings.call_timeout / 8)
    }

    /// Others were faster, and shall not be so again by the same rhythm: a pause of random length. Not after the first time, when the
    /// row was only seen too long ago.
    async fn pause(&mut self, took: Duration) -> Result<(), StoreError> {
        self.losses += 1;
        let longest = took * (self.losses - 1).min(1);
        let until = pace::now() + longest.mul_f64(fastrand::f64());
        if until >= self.deadline {
            let error = error::outrun(self.losses);
            return Err(self.failure(error));
        }
        if longest > Duration::ZERO {
            sleep_until(until).await;
        }
        Ok(())
    }
}

/// How long a row is kept, in seconds: until it equals a fresh one, rounded up, and by the margin longer.
fn time_to_live(row: &Row, now: Time, margin: &Duration) -> i32 {
    let remembered = if row.has_operations() { OPERATION_MEMORY } else { Duration::ZERO };
    let needed = row.state.fresh_at().since(now).max(remembered).saturating_add(*margin);
    let seconds = needed.min(LONGEST_LIFE).as_secs() + 1;
    i32::try_from(seconds).unwrap_or(i32::MAX)
}
