//! Bare statements on the table of the store, through the same driver.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use super::server::Server;
use crate::redis::subject::Failure;

/// The size of the state of a token bucket that has been in use, including the metadata of the store.
pub const ROW_BYTES: usize = 174;
/// The name of the row of a token bucket named `api`.
pub const ROW: &str = "api~1";
/// In seconds; longer than a run.
const TIME_TO_LIVE: i32 = 3_600;

pub struct Bare {
    session: Session,
    update: PreparedStatement,
    select: PreparedStatement,
}

impl Bare {
    pub async fn connect(server: &Server) -> Result<Self, Failure> {
        let session = server.session().await?;
        let table = Server::table();
        let mut update = session
            .prepare(format!(
                "UPDATE {table} USING TTL ? SET state = ? WHERE key = ? AND limit_name = ? IF state = ?"
            ))
            .await?;
        update.set_consistency(Consistency::LocalQuorum);
        update.set_serial_consistency(Some(SerialConsistency::LocalSerial));
        let mut select =
            session.prepare(format!("SELECT state FROM {table} WHERE key = ? AND limit_name = ?")).await?;
        select.set_consistency(Consistency::LocalQuorum);
        Ok(Self { session, update, select })
    }

    /// Writes `after` if the row equals `before`. Returns whether it did.
    pub async fn write(&self, key: &[u8], before: Option<&[u8]>, after: &[u8]) -> Result<bool, Failure> {
        let values = (TIME_TO_LIVE, after, key, ROW, before);
        let result = self.session.execute_unpaged(&self.update, values).await?.into_rows_result()?;
        let row: Row = result.first_row()?;
        Ok(row.columns.first() == Some(&Some(CqlValue::Boolean(true))))
    }

    pub async fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let result = self.session.execute_unpaged(&self.select, (key, ROW)).await?.into_rows_result()?;
        Ok(result.maybe_first_row::<(Vec<u8>,)>()?.map(|(state,)| state))
    }
}

/// Returns the partition key of the store for a key.
pub fn partition(namespace: &str, name: &str) -> Vec<u8> {
    let length = u16::try_from(namespace.len()).expect("a short name").to_be_bytes();
    [&[0], &length[..], namespace.as_bytes(), name.as_bytes()].concat()
}

/// Returns a state that encodes a count.
pub fn state(count: u64) -> Vec<u8> {
    let mut state = count.to_be_bytes().to_vec();
    state.resize(ROW_BYTES, 0xa5);
    state
}

/// Returns the count that a state encodes.
pub fn count(state: &[u8]) -> Option<u64> {
    state.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_size_of_the_stores_and_encode_their_count() {
        for number in [0, 1, 1 << 40] {
            assert_eq!((state(number).len(), count(&state(number))), (ROW_BYTES, Some(number)));
        }
        assert_eq!(partition("one", "user"), b"\0\0\x03oneuser");
    }
}
