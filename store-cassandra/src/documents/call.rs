//! A call in progress: its requests, with their deadlines and retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::try_join_all;
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use super::head::Head;
use super::item;
use super::statements::DocumentStatements;
use crate::backoff;
use crate::error::{self, Failure};
use crate::options::StoreOptions;
use crate::session::{LazySession, PreparedSession};
use crate::transaction::ResponseRows;

/// How many items are written at the same time, or read by one query.
const ITEMS_AT_ONCE: usize = 8;

/// A head, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredHead {
    /// `None` if it was never written.
    bytes: Option<Vec<u8>>,
    pub(super) head: Head,
}

impl StoredHead {
    fn new(bytes: Option<Vec<u8>>) -> Result<Self, StoreError> {
        let head = bytes.as_deref().map(Head::decode).transpose()?.unwrap_or_default();
        Ok(Self { bytes, head })
    }
}

/// A call in progress.
#[derive(Debug)]
pub(super) struct Call<'a> {
    session: Arc<PreparedSession<DocumentStatements>>,
    options: &'a StoreOptions,
    deadline: Instant,
    /// The replica that requests start with. Incremented when a replica does not respond.
    replica: AtomicUsize,
    /// A replica that did not respond may still execute a transaction.
    in_doubt: bool,
}

impl<'a> Call<'a> {
    pub(super) async fn start(
        session: &LazySession<DocumentStatements>,
        options: &'a StoreOptions,
    ) -> Result<Self, StoreError> {
        let deadline = backoff::deadline(options.call_timeout);
        let session = timeout_at(deadline, session.get()).await.map_err(|_| error::timed_out())??;
        Ok(Self { session, options, deadline, replica: AtomicUsize::new(0), in_doubt: false })
    }

    /// Reads the head of the document in a partition, after all transactions that were applied or are in progress.
    pub(super) async fn head(&self, partition: &[u8]) -> Result<StoredHead, StoreError> {
        let response = self.repeat(|statements| &statements.head, &(partition, item::HEAD)).await?;
        let rows = ResponseRows::parse(response)?;
        StoredHead::new(rows.blob("value").map(<[u8]>::to_vec))
    }

    /// Replaces the head by one transaction, if it is as `expected`. Returns the current one otherwise.
    pub(super) async fn replace(
        &mut self,
        partition: &[u8],
        expected: &StoredHead,
        head: &Head,
    ) -> Result<Option<StoredHead>, Failure> {
        let values = (head.encode(), partition, item::HEAD, expected.bytes.as_deref());
        let result = self.once(|statements| &statements.replace, &values).await;
        let result = result.and_then(|response| {
            let rows = ResponseRows::parse(response).map_err(Failure::Unknown)?;
            if rows.applied() {
                return Ok(None);
            }
            let current = StoredHead::new(rows.blob("value").map(<[u8]>::to_vec));
            Ok(Some(current.map_err(Failure::NotExecuted)?))
        });
        self.in_doubt |= matches!(result, Err(Failure::Unknown(_)));
        result
    }

    /// Writes items of a partition.
    pub(super) async fn write(&self, partition: &[u8], items: &[(Vec<u8>, &[u8])]) -> Result<(), StoreError> {
        for items in items.chunks(ITEMS_AT_ONCE) {
            let values: Vec<_> = items.iter().map(|(item, value)| (partition, &item[..], *value)).collect();
            try_join_all(values.iter().map(|values| self.repeat(|statements| &statements.write, values)))
                .await?;
        }
        Ok(())
    }

    /// Reads items of a partition, in this order. `None` if one of them does not exist.
    pub(super) async fn read(
        &self,
        partition: &[u8],
        items: &[Vec<u8>],
    ) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let mut values = Vec::with_capacity(items.len());
        for items in items.chunks(ITEMS_AT_ONCE) {
            let response = self.repeat(|statements| &statements.read, &(partition, items)).await?;
            let rows = response.into_rows_result().map_err(error::unexpected_response)?;
            let rows = rows.rows::<(Vec<u8>, Vec<u8>)>().map_err(error::unexpected_response)?;
            let mut rows = rows.collect::<Result<Vec<_>, _>>().map_err(error::unexpected_response)?;
            for item in items {
                let Some(index) = rows.iter().position(|(name, _)| name == item) else { return Ok(None) };
                values.push(rows.swap_remove(index).1);
            }
        }
        Ok(Some(values))
    }

    /// Returns the items of a partition from `first` until before `end`.
    pub(super) async fn items(
        &self,
        partition: &[u8],
        first: &[u8],
        end: &[u8],
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let (mut items, mut page) = (Vec::new(), PagingState::start());
        loop {
            let (response, next) =
                self.repeat_page(|statements| &statements.names, &(partition, first, end), &page).await?;
            let rows = response.into_rows_result().map_err(error::unexpected_response)?;
            for row in rows.rows::<(Vec<u8>,)>().map_err(error::unexpected_response)? {
                items.push(row.map_err(error::unexpected_response)?.0);
            }
            match next {
                PagingStateResponse::HasMorePages { state } => page = state,
                PagingStateResponse::NoMorePages => return Ok(items),
            }
        }
    }

    /// Removes the items of a partition from `first` until before `end`, if that succeeds at once. They are of no use;
    /// if it does not succeed, a later change removes them.
    pub(super) async fn remove(&self, partition: &[u8], first: &[u8], end: &[u8]) {
        let _removed = self.once(|statements| &statements.remove, &(partition, first, end)).await;
    }

    /// Marks an error that ends this call with an unknown effect if a transaction is in doubt.
    pub(super) fn with_effect(&self, error: StoreError) -> StoreError {
        if self.in_doubt { error.with_unknown_effect() } else { error }
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The transaction in doubt was applied, or cannot be applied any more.
    pub(super) fn has_resolved_doubt(&mut self) {
        self.in_doubt = false;
    }

    /// Waits before another attempt, or fails with `error` if no time for a response would be left afterwards.
    pub(super) async fn wait_to_retry(&self, error: StoreError) -> Result<(), StoreError> {
        let until = backoff::deadline(backoff::RETRY_DELAY);
        if until + self.options.response_reserve() >= self.deadline {
            return Err(self.with_effect(error));
        }
        sleep_until(until).await;
        Ok(())
    }

    /// Sends a request that may be repeated, until there is a response.
    async fn repeat(
        &self,
        statement: fn(&DocumentStatements) -> &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<QueryResult, StoreError> {
        loop {
            match self.once(statement, values).await {
                Ok(response) => return Ok(response),
                Err(failure) => self.can_retry(failure).await?,
            }
        }
    }

    /// Sends a query that may be repeated, until there is a response with one page.
    async fn repeat_page(
        &self,
        statement: fn(&DocumentStatements) -> &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        page: &PagingState,
    ) -> Result<(QueryResult, PagingStateResponse), StoreError> {
        loop {
            let (replica, statements) = self.statements();
            let query = self.session.session.execute_single_page(statement(statements), values, page.clone());
            match self.in_time(replica, query).await {
                Ok(response) => return Ok(response),
                Err(failure) => self.can_retry(failure).await?,
            }
        }
    }

    /// Sends a request once.
    async fn once(
        &self,
        statement: fn(&DocumentStatements) -> &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<QueryResult, Failure> {
        let (replica, statements) = self.statements();
        self.in_time(replica, self.session.session.execute_unpaged(statement(statements), values)).await
    }

    fn statements(&self) -> (usize, &DocumentStatements) {
        let replica = self.replica.load(Ordering::Relaxed);
        (replica, self.session.statements(replica))
    }

    /// Waits for a response, and leaves time to try another replica. The next requests start with that one then.
    async fn in_time<T>(
        &self,
        replica: usize,
        request: impl Future<Output = Result<T, scylla::errors::ExecutionError>>,
    ) -> Result<T, Failure> {
        let until = self.deadline.min(backoff::deadline(self.options.call_timeout / 2));
        let result = match timeout_at(until, request).await {
            Ok(result) => result.map_err(|cause| error::from_execution(&cause)),
            Err(_) => Err(Failure::Unknown(error::timed_out())),
        };
        if matches!(result, Err(Failure::Unknown(_))) {
            // Once for all requests that were waiting for the same replica.
            let (from, to) = (replica, replica.wrapping_add(1));
            let _next = self.replica.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        }
        result
    }

    /// Waits before a request is repeated, or fails if that is of no use.
    async fn can_retry(&self, failure: Failure) -> Result<(), StoreError> {
        match failure {
            Failure::Unknown(error) => self.wait_to_retry(error).await,
            // The connection broke together with the lost response, and is being restored.
            Failure::NotExecuted(error) if self.in_doubt && error.kind() == ErrorKind::Unavailable => {
                self.wait_to_retry(error).await
            }
            Failure::NotExecuted(error) => Err(self.with_effect(error)),
        }
    }
}
