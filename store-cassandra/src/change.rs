//! Making a pure function come true: it is tried on the rows as they were seen last, and what it makes of them is written
//! by a transaction that holds only if they still are so.

use tokio::time::timeout_at;
use tollgate_core::{Limit, StoreError, Time};

use crate::attempt::Attempt;
use crate::error;
use crate::pace;
use crate::row::Row;
use crate::store::Inner;

/// The rows of some limits of one entity, for a step to work on.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    limits: &'a [&'a Limit],
    /// Some may hold what nobody understands.
    rows: Vec<Result<Row, StoreError>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(limits: &'a [&'a Limit], rows: Vec<Result<Row, StoreError>>) -> Self {
        Self { limits, rows }
    }

    /// The row of a limit that the change was announced for.
    pub(crate) fn of(&mut self, limit: &Limit) -> Result<&mut Row, StoreError> {
        let index = self.limits.iter().position(|known| known.id() == limit.id());
        self.rows[index.expect("every limit was announced")].as_mut().map_err(|error| error.clone())
    }

    pub(crate) fn all(&self) -> &[Result<Row, StoreError>] {
        &self.rows
    }

    /// What has become of each row, where that is something else than `before`.
    fn changes(self, before: &Self, now: Time) -> Vec<Option<Row>> {
        let pairs = self.limits.iter().zip(before.rows.iter().zip(self.rows));
        let changed = pairs.map(|(limit, (before, after))| match (before, after) {
            (Ok(before), Ok(after)) => (!before.says_the_same(&after, limit, now)).then_some(after),
            _ => None,
        });
        changed.collect()
    }
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
    // Whoever has its turn shall have time for an answer, too.
    let in_line = deadline - inner.settings.reserve();
    let turn = timeout_at(in_line, inner.queues.wait(partition)).await.map_err(|_| error::too_many())?;
    let mut attempt = Attempt::new(inner, cluster, partition, limits, now, deadline);
    loop {
        let before = attempt.rows(limits);
        if before.all().iter().any(Result::is_err) && !attempt.is_of_now() {
            // Somebody may have put it right since.
            attempt.look().await?;
            continue;
        }
        let mut after = before.clone();
        let answer = step(&mut after);
        let changes = after.changes(&before, now);
        if changes.iter().any(Option::is_some) {
            if attempt.write(&before, &changes).await? {
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
