//! The keyspace and its tables: created on request, checked on every connection.

use scylla::client::session::Session;
use scylla::statement::SerialConsistency;
use scylla::value::CqlValue;
use tollgate_core::{ErrorKind, StoreError};

use crate::error;
use crate::replication::{Replication, check_serial_consistency};

/// What a table is for, and how it is created.
#[derive(Debug)]
pub(crate) struct Layout {
    /// What the table contains. Part of its comment.
    content: &'static str,
    /// The schema version that this program needs. It is stored in the table's comment.
    version: u32,
    /// Name, type and kind of each column, the primary key first. A column of the primary key cannot be added later.
    columns: &'static [(&'static str, &'static str, &'static str)],
    options: &'static str,
}

/// The states of limits. They are overwritten often and expire. Those written at about the same time expire together,
/// so whole files can be dropped (time windows). A node that was down for more than a day has to be repaired or
/// replaced: other nodes have removed their tombstones by then.
pub(crate) const LIMITS: Layout = Layout {
    content: "limits",
    version: 1,
    columns: &[
        ("key", "blob", "partition_key"),
        ("limit_name", "text", "clustering"),
        ("state", "blob", "regular"),
        ("guard", "boolean", "regular"),
    ],
    options: " AND gc_grace_seconds = 86400 AND compaction = \
              {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': 1}",
};

/// Versioned documents. What an item contains follows from its name, so all columns have the same type.
pub(crate) const DOCUMENTS: Layout = Layout {
    content: "documents",
    version: 1,
    columns: &[
        ("key", "blob", "partition_key"),
        ("item", "blob", "clustering"),
        ("value", "blob", "regular"),
    ],
    options: "",
};

/// A table in a keyspace, by names that are safe in a statement.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    layout: &'static Layout,
    keyspace: String,
    name: String,
}

fn refused(message: String) -> StoreError {
    StoreError::new(ErrorKind::Refused, message)
}

impl Table {
    pub(crate) fn new(layout: &'static Layout, keyspace: &str, name: &str) -> Result<Self, StoreError> {
        for (what, name) in [("keyspace", keyspace), ("table", name)] {
            let characters =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            let start = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
            if !characters || !start || name.len() > 48 {
                return Err(refused(format!(
                    "`{}` is not a valid name for a {what}; use a lower-case letter, followed by lower-case letters, \
                     digits and underscores, at most 48 characters",
                    name.escape_default()
                )));
            }
        }
        Ok(Self { layout, keyspace: keyspace.to_owned(), name: name.to_owned() })
    }

    /// Returns the name for a statement. Quoted, because a name may be a CQL keyword.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.keyspace, self.name)
    }

    /// Returns the name for messages.
    fn plain(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// Returns an error unless the table exists in the schema version that this program needs.
    pub(crate) async fn check(&self, session: &Session, serial: SerialConsistency) -> Result<(), StoreError> {
        let Some(replication) = self.keyspace_replication(session).await? else {
            return Err(refused(format!("cassandra has no keyspace `{}`; {CREATE}", self.keyspace)));
        };
        check_serial_consistency(&self.keyspace, &replication, serial)?;
        let Some(version) = self.version(session).await? else {
            return Err(refused(format!("cassandra has no table {}; {CREATE}", self.plain())));
        };
        let needed = self.layout.version;
        if version > needed {
            return Err(refused(format!(
                "table {} has schema version {version}, but this program supports version {needed}; upgrade the \
                 program, or use another table",
                self.plain()
            )));
        }
        // Checked before an upgrade is suggested: a table that is not a store's cannot be upgraded.
        let missing = self.missing_columns(session).await?;
        if version < needed {
            return Err(refused(format!(
                "table {} has schema version {version}, but this program needs version {needed}; {UPGRADE}",
                self.plain()
            )));
        }
        match missing.first() {
            Some(column) => {
                Err(refused(format!("table {} has no column `{column}`; {UPGRADE}", self.plain())))
            }
            None => Ok(()),
        }
    }

    /// Creates the keyspace and the table if they do not exist, and upgrades an older table.
    pub(crate) async fn create(
        &self,
        session: &Session,
        replication: &Replication,
        serial: SerialConsistency,
    ) -> Result<(), StoreError> {
        if self.keyspace_replication(session).await?.is_none() {
            let replication = replication.to_cql(&self.keyspace, session)?;
            execute(
                session,
                &format!(
                    "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {replication} AND durable_writes = true",
                    self.keyspace
                ),
            )
            .await?;
        }
        execute(session, &self.creation()).await?;
        let (version, needed) = (self.version(session).await?.unwrap_or(0), self.layout.version);
        if version <= needed {
            for column in self.missing_columns(session).await? {
                let (_, kind, _) =
                    self.layout.columns.iter().find(|(name, ..)| *name == column).expect("a known column");
                execute(session, &format!("ALTER TABLE {} ADD {column} {kind}", self.quoted())).await?;
            }
        }
        if version < needed {
            execute(session, &format!("ALTER TABLE {} WITH {}", self.quoted(), self.options())).await?;
        }
        self.check(session, serial).await
    }

    /// Returns the statement that creates the table.
    fn creation(&self) -> String {
        let columns = self.layout.columns;
        let primary: Vec<_> =
            columns.iter().filter(|(.., kind)| *kind != "regular").map(|(name, ..)| *name).collect();
        let columns: Vec<_> =
            columns.iter().map(|(name, data_type, _)| format!("{name} {data_type}")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({})) WITH {}",
            self.quoted(),
            columns.join(", "),
            primary.join(", "),
            self.options()
        )
    }

    fn options(&self) -> String {
        format!("comment = '{}{}'{}", self.comment(), self.layout.version, self.layout.options)
    }

    /// Returns what the table's comment contains before the version.
    fn comment(&self) -> String {
        format!("tollgate {}, schema ", self.layout.content)
    }

    /// Returns the keyspace's replication options, name and value alternating. `None` if there is no such keyspace.
    async fn keyspace_replication(&self, session: &Session) -> Result<Option<Vec<String>>, StoreError> {
        let rows = query_texts(
            session,
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?",
            &[&self.keyspace],
        )
        .await?;
        Ok(rows.into_iter().next())
    }

    /// Returns the table's schema version, 0 if its comment has none. `None` if there is no such table.
    async fn version(&self, session: &Session) -> Result<Option<u32>, StoreError> {
        let rows = query_texts(
            session,
            "SELECT comment FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?",
            &[&self.keyspace, &self.name],
        )
        .await?;
        let comment = self.comment();
        let version = |row: &Vec<String>| row.first()?.strip_prefix(&comment)?.parse().ok();
        Ok(rows.first().map(|row| version(row).unwrap_or(0)))
    }

    /// Returns the columns that are missing. An error if a column has another type or kind.
    async fn missing_columns(&self, session: &Session) -> Result<Vec<&'static str>, StoreError> {
        let rows = query_texts(
            session,
            "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?",
            &[&self.keyspace, &self.name],
        )
        .await?;
        let mut missing = Vec::new();
        for &(name, data_type, kind) in self.layout.columns {
            match rows.iter().find(|row| row[0] == name) {
                Some(row) if row[1] == data_type && row[2] == kind => {}
                None if kind == "regular" => missing.push(name),
                Some(_) | None => {
                    return Err(refused(format!(
                        "table {} is not a tollgate table for {}: `{name}` is not a {} column of type {data_type}; \
                         use another table",
                        self.plain(),
                        self.layout.content,
                        kind.replace('_', " ")
                    )));
                }
            }
        }
        Ok(missing)
    }
}

const CREATE: &str = "create it with Config::create_schema, once, when you deploy";
const UPGRADE: &str = "upgrade it with Config::create_schema, once, when you deploy";

async fn execute(session: &Session, statement: &str) -> Result<(), StoreError> {
    let result = session.query_unpaged(statement, ()).await;
    result.map(|_| ()).map_err(|cause| error::from_execution(&cause).into_error())
}

/// Executes a query, and returns the texts of each row.
async fn query_texts(
    session: &Session,
    statement: &str,
    values: &[&str],
) -> Result<Vec<Vec<String>>, StoreError> {
    let response = session.query_unpaged(statement, values).await;
    let response = response.map_err(|cause| error::from_execution(&cause).into_error())?;
    let rows = response.into_rows_result().map_err(error::unexpected_response)?;
    let rows = rows.rows::<scylla::value::Row>().map_err(error::unexpected_response)?;
    rows.map(|row| {
        let row = row.map_err(error::unexpected_response)?;
        Ok(row.columns.into_iter().flat_map(texts).collect())
    })
    .collect()
}

/// Returns a text, or the keys and values of a map of texts.
fn texts(value: Option<CqlValue>) -> Vec<String> {
    match value {
        Some(CqlValue::Text(text) | CqlValue::Ascii(text)) => vec![text],
        Some(CqlValue::Map(pairs)) => pairs
            .into_iter()
            .flat_map(|(key, value)| [texts(Some(key)), texts(Some(value))].concat())
            .collect(),
        _ => vec![String::new()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_inject_cql_are_refused() {
        for name in ["", "Limits", "9lives", "a-b", "a\"; DROP", "a.b", "_a", &"x".repeat(49)] {
            let error = Table::new(&LIMITS, name, "limits").expect_err(name).to_string();
            assert!(error.contains("keyspace") && error.contains("lower-case"), "{error}");
            assert!(Table::new(&LIMITS, "limits", name).is_err());
        }
        assert_eq!(Table::new(&LIMITS, "limits", "table").expect("valid").quoted(), "\"limits\".\"table\"");
    }
}
