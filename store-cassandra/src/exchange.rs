//! One transaction, and one read: what is sent and what comes back.

use std::sync::Arc;

use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{CqlValue, Row};
use tollgate_core::StoreError;

use crate::error::{self, Fault};
use crate::link::{Connected, Statements, TURNS};

/// What a transaction makes of a row, if it is as expected.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) row: &'a str,
    pub(crate) before: Option<Arc<[u8]>>,
    /// With its time-to-live in seconds. None if it shall stay as it is.
    pub(crate) after: Option<(Arc<[u8]>, i32)>,
}

impl Write<'_> {
    /// In the order of the statement.
    fn values(&self, partition: &[u8]) -> Vec<Option<CqlValue>> {
        let blob = |bytes: &[u8]| Some(CqlValue::Blob(bytes.to_vec()));
        let named = [
            blob(partition),
            Some(CqlValue::Text(self.row.to_owned())),
            self.before.as_deref().and_then(blob),
        ];
        let after =
            self.after.iter().flat_map(|(after, seconds)| [Some(CqlValue::Int(*seconds)), blob(after)]);
        after.chain(named).collect()
    }
}

/// A row by its name, as a server has it.
pub(crate) type Found = (String, Arc<[u8]>);

/// What became of a transaction.
#[derive(Debug)]
pub(crate) enum Written {
    Applied,
    /// A row was not as expected. All rows that there are of those that were to be written.
    Refused(Vec<Found>),
}

impl Connected {
    fn statements(&self, turn: usize) -> &Statements {
        &self.statements[turn % TURNS]
    }

    /// Writes all of the rows, or none of them.
    pub(crate) async fn write(
        &self,
        partition: &[u8],
        writes: &[Write<'_>],
        turn: usize,
    ) -> Result<Written, Fault> {
        let Statements { update, guard, profile, .. } = self.statements(turn);
        let sent = if let [write] = writes {
            self.session.execute_unpaged(update, write.values(partition)).await
        } else {
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_execution_profile_handle(Some(profile.clone()));
            for write in writes {
                batch.append_statement(if write.after.is_some() { update.clone() } else { guard.clone() });
            }
            let values: Vec<_> = writes.iter().map(|write| write.values(partition)).collect();
            self.session.batch(&batch, values).await
        };
        let answer = sent.map_err(|cause| error::of_request(&cause))?;
        let rows = Rows::read(answer).map_err(Fault::Unknown)?;
        if rows.applied() {
            return Ok(Written::Applied);
        }
        // A single row needs no name.
        let only = if let [write] = writes { Some(write.row) } else { None };
        Ok(Written::Refused(rows.found(only)))
    }

    /// The rows of these names that there are, after everything that has been agreed on.
    pub(crate) async fn read(
        &self,
        partition: &[u8],
        names: &[&str],
        turn: usize,
    ) -> Result<Vec<Found>, Fault> {
        let Statements { select, .. } = self.statements(turn);
        let answer = self.session.execute_unpaged(select, (partition, names)).await;
        let answer = answer.map_err(|cause| error::of_request(&cause))?;
        Ok(Rows::read(answer).map_err(Fault::NotDone)?.found(None))
    }
}

/// What came back. Which columns it has depends on what happened.
struct Rows {
    names: Vec<String>,
    rows: Vec<Row>,
}

impl Rows {
    fn read(answer: QueryResult) -> Result<Self, StoreError> {
        let answer = answer.into_rows_result().map_err(error::not_understood)?;
        let names = answer.column_specs().iter().map(|column| column.name().to_owned()).collect();
        let rows = answer.rows::<Row>().map_err(error::not_understood)?;
        let rows = rows.collect::<Result<_, _>>().map_err(error::not_understood)?;
        Ok(Self { names, rows })
    }

    fn value<'r>(&self, row: &'r Row, name: &str) -> Option<&'r CqlValue> {
        let column = self.names.iter().position(|known| known == name)?;
        row.columns.get(column)?.as_ref()
    }

    fn applied(&self) -> bool {
        self.rows.first().and_then(|row| self.value(row, "[applied]")) == Some(&CqlValue::Boolean(true))
    }

    fn found(&self, only: Option<&str>) -> Vec<Found> {
        let found = |row: &Row| {
            let Some(CqlValue::Blob(state)) = self.value(row, "state") else { return None };
            let name = match self.value(row, "limit_name") {
                Some(CqlValue::Text(name)) => name,
                _ => only?,
            };
            Some((name.to_owned(), Arc::from(state.as_slice())))
        };
        self.rows.iter().filter_map(found).collect()
    }
}
