//! The prepared statements for the table of documents.

use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use tollgate_core::StoreError;

use crate::schema::Table;
use crate::session::{Statements, prepare, set_serial_read};

/// The statements for the table of documents. All but `replace` may be repeated.
#[derive(Debug)]
pub(crate) struct DocumentStatements {
    /// A transaction. Values: new head, key, item, expected head.
    pub(super) replace: PreparedStatement,
    /// A serial read. Values: key, item.
    pub(super) head: PreparedStatement,
    /// Values: key, item, value.
    pub(super) write: PreparedStatement,
    /// Values: key, items.
    pub(super) read: PreparedStatement,
    /// Values: key, first item, item after the last.
    pub(super) names: PreparedStatement,
    /// Values: key, first item, item after the last.
    pub(super) remove: PreparedStatement,
}

impl Statements for DocumentStatements {
    async fn prepare(session: &Session, table: &Table) -> Result<Self, StoreError> {
        let table = table.quoted();
        let prepare = async |text: String| prepare(session, text).await;
        let range = "WHERE key = ? AND item >= ? AND item < ?";
        Ok(Self {
            replace: prepare(format!("UPDATE {table} SET value = ? WHERE key = ? AND item = ? IF value = ?"))
                .await?,
            head: prepare(format!("SELECT value FROM {table} WHERE key = ? AND item = ?")).await?,
            write: prepare(format!("INSERT INTO {table} (key, item, value) VALUES (?, ?, ?)")).await?,
            read: prepare(format!("SELECT item, value FROM {table} WHERE key = ? AND item IN ?")).await?,
            names: prepare(format!("SELECT item FROM {table} {range}")).await?,
            remove: prepare(format!("DELETE FROM {table} {range}")).await?,
        })
    }

    fn with_profile(&self, profile: &ExecutionProfileHandle, serial: SerialConsistency) -> Self {
        // What a head names was written before it, and must be found with it, whatever the level of commits is.
        let quorum = match serial {
            SerialConsistency::Serial => Consistency::Quorum,
            SerialConsistency::LocalSerial => Consistency::LocalQuorum,
        };
        let plain = |statement: &PreparedStatement| {
            let mut statement = statement.clone();
            statement.set_execution_profile_handle(Some(profile.clone()));
            statement.set_consistency(quorum);
            statement.set_is_idempotent(true);
            statement
        };
        let (mut replace, mut head) = (self.replace.clone(), plain(&self.head));
        replace.set_execution_profile_handle(Some(profile.clone()));
        set_serial_read(&mut head, serial);
        Self {
            replace,
            head,
            write: plain(&self.write),
            read: plain(&self.read),
            names: plain(&self.names),
            remove: plain(&self.remove),
        }
    }
}
