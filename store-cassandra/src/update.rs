//! The compare-and-set loop: a pure function computes new rows from the rows as this store saw them last, and a
//! lightweight transaction writes them if they have not changed since.

use tokio::time::timeout_at;
use tollgate_core::{Limit, StoreError, Time};

use crate::backoff;
use crate::call::Call;
use crate::error;
use crate::row::Row;
use crate::store::Inner;

/// The rows of several limits of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    limits: &'a [&'a Limit],
    /// An error for each row that cannot be decoded.
    rows: Vec<Result<Row, StoreError>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(limits: &'a [&'a Limit], rows: Vec<Result<Row, StoreError>>) -> Self {
        Self { limits, rows }
    }

    /// Returns the row of a limit, which must be one of those that the update was started with.
    pub(crate) fn of(&mut self, limit: &Limit) -> Result<&mut Row, StoreError> {
        let index = self.limits.iter().position(|known| known.id() == limit.id());
        self.rows[index.expect("a limit of this update")].as_mut().map_err(|error| error.clone())
    }

    pub(crate) fn all(&self) -> &[Result<Row, StoreError>] {
        &self.rows
    }

    /// Returns the new value of each row that differs from `before`.
    fn changes(self, before: &Self, now: Time) -> Vec<Option<Row>> {
        let pairs = self.limits.iter().zip(before.rows.iter().zip(self.rows));
        let changed = pairs.map(|(limit, (before, after))| match (before, after) {
            (Ok(before), Ok(after)) => (!before.is_equivalent(&after, limit, now)).then_some(after),
            (Err(_), _) | (_, Err(_)) => None,
        });
        changed.collect()
    }
}

/// Updates rows of a partition by `step`, and returns its result. `step` may run several times; the last run counts.
/// If it changes nothing, its result still belongs to the current rows: cached ones are read again first.
///
/// `step` gets the time to decide at: that of the caller, who passes `now`, or of other clients that are ahead.
pub(crate) async fn update<T>(
    inner: &Inner,
    partition: &[u8],
    limits: &[&Limit],
    now: Time,
    step: impl Fn(&mut Rows<'_>, Time) -> T,
) -> Result<T, StoreError> {
    let deadline = backoff::deadline(inner.options.call_timeout);
    inner.clock_lead.called_at(now);
    let session = timeout_at(deadline, inner.session.get()).await.map_err(|_| error::timed_out())??;
    // A call that gets the lock needs time for a response, too.
    let lock_deadline = deadline - inner.options.response_reserve();
    let lock = timeout_at(lock_deadline, inner.partition_locks.lock(partition)).await;
    let lock = lock.map_err(|_| error::queue_timeout())?;
    let mut call = Call::new(inner, &session, partition, limits, now, deadline);
    loop {
        let before = call.rows(limits);
        if before.all().iter().any(Result::is_err) && !call.is_current() {
            // The row may have been repaired since it was cached.
            call.read().await?;
            continue;
        }
        let (mut after, decided_at) = (before.clone(), call.decided_at());
        let result = step(&mut after, decided_at);
        let changes = after.changes(&before, decided_at);
        if changes.iter().any(Option::is_some) {
            if call.write(&before, &changes).await? {
                lock.release_after(call.yield_time(&before));
                return Ok(result);
            }
        } else if call.is_current() {
            return Ok(result);
        } else {
            call.read().await?;
        }
    }
}
