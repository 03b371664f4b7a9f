//! Bare statements on the store's own table, by the store's own driver: what everybody else has to begin with.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use super::server::Server;
use crate::redis::subject::Failure;

/// As long as the state of a token bucket that has been used for a while, with all that the store notes beside it.
pub const ROW_BYTES: usize = 174;
/// What the store calls the row of a token bucket named `api`.
pub const ROW: &str = "api~1";
/// Seconds; longer than a run.
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

    /// Whether the row was as expected, and is now as wanted.
    pub async fn write(&self, key: &[u8], before: Option<&[u8]>, after: &[u8]) -> Result<bool, Failure> {
        let values = (TIME_TO_LIVE, after, key, ROW, before);
        let answer = self.session.execute_unpaged(&self.update, values).await?.into_rows_result()?;
        let row: Row = answer.first_row()?;
        Ok(row.columns.first() == Some(&Some(CqlValue::Boolean(true))))
    }

    pub async fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let answer = self.session.execute_unpaged(&self.select, (key, ROW)).await?.into_rows_result()?;
        Ok(answer.maybe_first_row::<(Vec<u8>,)>()?.map(|(state,)| state))
    }
}

/// The partition of a key, as the store names it.
pub fn partition(namespace: &str, name: &str) -> Vec<u8> {
    let length = u16::try_from(namespace.len()).expect("a short name").to_be_bytes();
    [&[0], &length[..], namespace.as_bytes(), name.as_bytes()].concat()
}

/// A state that differs from those of other counts.
pub fn state(count: u64) -> Vec<u8> {
    let mut state = count.to_be_bytes().to_vec();
    state.resize(ROW_BYTES, 0xa5);
    state
}

/// What the count was.
pub fn count(state: &[u8]) -> Option<u64> {
    state.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_as_large_as_the_stores_and_tell_their_count() {
        for number in [0, 1, 1 << 40] {
            assert_eq!((state(number).len(), count(&state(number))), (ROW_BYTES, Some(number)));
        }
        assert_eq!(partition("one", "user"), b"\0\0\x03oneuser");
    }
}
