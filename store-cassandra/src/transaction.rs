//! The two requests that are sent: a lightweight transaction and a serial read.

use std::sync::Arc;

use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{CqlValue, Row};
use tollgate_core::StoreError;

use crate::error::{self, Failure};
use crate::session::{LimitStatements, PreparedSession};

/// A conditional write of one row.
#[derive(Debug)]
pub(crate) struct RowWrite<'a> {
    pub(crate) row: &'a str,
    pub(crate) expected: Option<Arc<[u8]>>,
    /// The new state, and its time-to-live in seconds. `None` if the row is only a condition.
    pub(crate) update: Option<(Arc<[u8]>, i32)>,
}

impl RowWrite<'_> {
    /// Returns the values, in the order of the statement.
    fn values(&self, partition: &[u8]) -> Vec<Option<CqlValue>> {
        let blob = |bytes: &[u8]| Some(CqlValue::Blob(bytes.to_vec()));
        let condition = [
            blob(partition),
            Some(CqlValue::Text(self.row.to_owned())),
            self.expected.as_deref().and_then(blob),
        ];
        let update =
            self.update.iter().flat_map(|(state, seconds)| [Some(CqlValue::Int(*seconds)), blob(state)]);
        update.chain(condition).collect()
    }
}

/// The name and the value of a row on the server.
pub(crate) type StoredRow = (String, Arc<[u8]>);

/// The response to a transaction.
#[derive(Debug)]
pub(crate) enum TransactionResult {
    Applied,
    /// A row was not as expected. Contains the rows of the transaction that exist.
    NotApplied(Vec<StoredRow>),
}

impl PreparedSession {
    /// Writes all rows if all are as expected, and none otherwise.
    pub(crate) async fn write(
        &self,
        partition: &[u8],
        writes: &[RowWrite<'_>],
        replica: usize,
    ) -> Result<TransactionResult, Failure> {
        let LimitStatements { update, guard, profile, .. } = self.statements(replica);
        let response = if let [write] = writes {
            self.session.execute_unpaged(update, write.values(partition)).await
        } else {
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_execution_profile_handle(profile.clone());
            for write in writes {
                batch.append_statement(if write.update.is_some() { update.clone() } else { guard.clone() });
            }
            let values: Vec<_> = writes.iter().map(|write| write.values(partition)).collect();
            self.session.batch(&batch, values).await
        };
        let response = response.map_err(|cause| error::from_execution(&cause))?;
        let rows = ResponseRows::parse(response).map_err(Failure::Unknown)?;
        if rows.applied() {
            return Ok(TransactionResult::Applied);
        }
        // The response to a single statement does not contain the name of the row.
        let only = if let [write] = writes { Some(write.row) } else { None };
        Ok(TransactionResult::NotApplied(rows.stored(only)))
    }

    /// Reads the rows of these names that exist, after all transactions that were applied or are in progress.
    pub(crate) async fn read(
        &self,
        partition: &[u8],
        names: &[&str],
        replica: usize,
    ) -> Result<Vec<StoredRow>, Failure> {
        let LimitStatements { select, .. } = self.statements(replica);
        let response = self.session.execute_unpaged(select, (partition, names)).await;
        let response = response.map_err(|cause| error::from_execution(&cause))?;
        Ok(ResponseRows::parse(response).map_err(Failure::NotExecuted)?.stored(None))
    }
}

/// The rows of a response. Its columns depend on the statement and on whether it was applied.
pub(crate) struct ResponseRows {
    columns: Vec<String>,
    rows: Vec<Row>,
}

impl ResponseRows {
    pub(crate) fn parse(response: QueryResult) -> Result<Self, StoreError> {
        let response = response.into_rows_result().map_err(error::unexpected_response)?;
        let columns = response.column_specs().iter().map(|column| column.name().to_owned()).collect();
        let rows = response.rows::<Row>().map_err(error::unexpected_response)?;
        let rows = rows.collect::<Result<_, _>>().map_err(error::unexpected_response)?;
        Ok(Self { columns, rows })
    }

    fn value<'r>(&self, row: &'r Row, name: &str) -> Option<&'r CqlValue> {
        let column = self.columns.iter().position(|known| known == name)?;
        row.columns.get(column)?.as_ref()
    }

    pub(crate) fn applied(&self) -> bool {
        self.rows.first().and_then(|row| self.value(row, "[applied]")) == Some(&CqlValue::Boolean(true))
    }

    /// Returns a column of the first row. `None` if it is null, or if there is no row.
    pub(crate) fn blob(&self, column: &str) -> Option<&[u8]> {
        match self.value(self.rows.first()?, column)? {
            CqlValue::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the rows with a state. `only` is the name of the row if the response does not contain it.
    fn stored(&self, only: Option<&str>) -> Vec<StoredRow> {
        let stored = |row: &Row| {
            let Some(CqlValue::Blob(state)) = self.value(row, "state") else { return None };
            let name = match self.value(row, "limit_name") {
                Some(CqlValue::Text(name)) => name,
                _ => only?,
            };
            Some((name.to_owned(), Arc::from(state.as_slice())))
        };
        self.rows.iter().filter_map(stored).collect()
    }
}
