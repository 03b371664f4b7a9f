//! The keyspace and the table: made when asked for, checked on every connection.

use scylla::client::session::Session;
use scylla::statement::SerialConsistency;
use scylla::value::CqlValue;
use tollgate_core::{ErrorKind, StoreError};

use crate::error;

/// The version of the table that this program needs. It is written in the table's comment.
const VERSION: u32 = 1;
const COMMENT: &str = "tollgate limits, schema ";
/// The columns, and what they must be: a part of the key cannot be added later.
const COLUMNS: [(&str, &str, &str); 4] = [
    ("key", "blob", "partition_key"),
    ("limit_name", "text", "clustering"),
    ("state", "blob", "regular"),
    ("guard", "boolean", "regular"),
];

/// How a keyspace is replicated, if it has to be made. That is never guessed: it decides what a cluster survives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replication {
    /// The keyspace is there already, or somebody else makes it.
    Existing,
    /// So many replicas, wherever they are: for a cluster in one datacenter, such as one node for development.
    Simple(u8),
    /// So many replicas in each of these datacenters.
    Datacenters(Vec<(String, u8)>),
}

impl Replication {
    /// So many replicas in each of these datacenters.
    pub fn in_datacenters<'a>(replicas: impl IntoIterator<Item = (&'a str, u8)>) -> Self {
        Self::Datacenters(replicas.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
    }
}

/// A table in a keyspace, by names that can be written into a statement.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    keyspace: String,
    name: String,
}

fn refused(message: String) -> StoreError {
    StoreError::new(ErrorKind::Refused, message)
}

impl Table {
    pub(crate) fn new(keyspace: &str, name: &str) -> Result<Self, StoreError> {
        for (what, name) in [("keyspace", keyspace), ("table", name)] {
            let letters =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
            if !letters || !begins || name.len() > 48 {
                return Err(refused(format!(
                    "the {what} `{}` is no name for one; use a lower-case letter, then lower-case letters, digits and \
                     underscores, 48 at most",
                    name.escape_default()
                )));
            }
        }
        Ok(Self { keyspace: keyspace.to_owned(), name: name.to_owned() })
    }

    /// As it is written in a statement. Quoted, so that no name is a word of the language.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\".\"{}\"", self.keyspace, self.name)
    }

    fn plain(&self) -> String {
        format!("{}.{}", self.keyspace, self.name)
    }

    /// An error unless the table is there, in the version that this program needs.
    pub(crate) async fn check(&self, session: &Session, serial: SerialConsistency) -> Result<(), StoreError> {
        let Some(replication) = self.keyspace_replication(session).await? else {
            return Err(refused(format!("cassandra has no keyspace `{}`; {}", self.keyspace, make("it"))));
        };
        one_agreement(&self.keyspace, &replication, serial)?;
        let Some(version) = self.version(session).await? else {
            return Err(refused(format!("cassandra has no table {}; {}", self.plain(), make("it"))));
        };
        if version > VERSION {
            return Err(refused(format!(
                "the table {} has schema {version}, which is newer than this program's {VERSION}; use a newer program, \
                 or another table",
                self.plain()
            )));
        }
        // Before it is said that it can be brought up to date, since that of somebody else cannot.
        let missing = self.missing_columns(session).await?;
        if version < VERSION {
            return Err(refused(format!(
                "the table {} has schema {version}, and this program needs {VERSION}; {}",
                self.plain(),
                make("the newer one")
            )));
        }
        match missing.first() {
            Some(column) => {
                Err(refused(format!("the table {} has no column `{column}`; {}", self.plain(), make("it"))))
            }
            None => Ok(()),
        }
    }

    /// Makes what is not there. What is there stays as it is, and asking twice changes nothing.
    pub(crate) async fn create(
        &self,
        session: &Session,
        replication: &Replication,
        serial: SerialConsistency,
    ) -> Result<(), StoreError> {
        if self.keyspace_replication(session).await?.is_none() {
            let replication = self.replication(session, replication)?;
            run(
                session,
                &format!(
                    "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {replication} AND durable_writes = true",
                    self.keyspace
                ),
            )
            .await?;
        }
        run(
            session,
            &format!(
                "CREATE TABLE IF NOT EXISTS {} (key blob, limit_name text, state blob, guard boolean, PRIMARY KEY (key, limit_name)) \
                 WITH {}",
                self.quoted(),
                options()
            ),
        )
        .await?;
        let version = self.version(session).await?.unwrap_or(0);
        if version <= VERSION {
            for column in self.missing_columns(session).await? {
                let (_, kind, _) = COLUMNS.iter().find(|(name, ..)| *name == column).expect("one of ours");
                run(session, &format!("ALTER TABLE {} ADD {column} {kind}", self.quoted())).await?;
            }
        }
        if version < VERSION {
            run(session, &format!("ALTER TABLE {} WITH {}", self.quoted(), options())).await?;
        }
        self.check(session, serial).await
    }

    fn replication(&self, session: &Session, replication: &Replication) -> Result<String, StoreError> {
        let cluster = session.get_cluster_state();
        let nodes = cluster.get_nodes_info();
        let mut datacenters: Vec<&str> = nodes.iter().filter_map(|node| node.datacenter.as_deref()).collect();
        datacenters.sort_unstable();
        let nodes_in = |name: &str| datacenters.iter().filter(|datacenter| **datacenter == name).count();
        let mut names = datacenters.clone();
        names.dedup();
        let enough = |replicas: u8, nodes: usize, place: &str| {
            if replicas == 0 || usize::from(replicas) > nodes {
                return Err(refused(format!(
                    "{replicas} replicas {place}, which has {nodes} nodes; use 1 to {nodes}, and 3 where there are as many"
                )));
            }
            Ok(())
        };
        match replication {
            Replication::Existing => Err(refused(format!(
                "cassandra has no keyspace `{}`; make it, or say how it is replicated: \
                 Replication::in_datacenters([(\"{}\", 3)])",
                self.keyspace,
                names.first().unwrap_or(&"datacenter1")
            ))),
            Replication::Simple(_) if names.len() > 1 => Err(refused(format!(
                "the cluster has {} datacenters ({}); say how many replicas each of them has: \
                 Replication::in_datacenters",
                names.len(),
                names.join(", ")
            ))),
            Replication::Simple(replicas) => {
                enough(*replicas, nodes.len(), "in a cluster")?;
                Ok(format!("{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"))
            }
            Replication::Datacenters(replicas) => {
                if replicas.is_empty() {
                    return Err(refused("no datacenter was named to replicate in".to_owned()));
                }
                let mut parts = vec!["'class': 'NetworkTopologyStrategy'".to_owned()];
                for (name, count) in replicas {
                    if nodes_in(name) == 0 {
                        return Err(refused(format!(
                            "the cluster has no datacenter `{}`; it has {}",
                            name.escape_default(),
                            names.join(", ")
                        )));
                    }
                    enough(*count, nodes_in(name), &format!("in datacenter {name}"))?;
                    parts.push(format!("'{}': {count}", name.replace('\'', "''")));
                }
                Ok(format!("{{{}}}", parts.join(", ")))
            }
        }
    }

    /// How the keyspace is replicated, if it is there: pairs of a name and a value.
    async fn keyspace_replication(&self, session: &Session) -> Result<Option<Vec<String>>, StoreError> {
        let found = texts(
            session,
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?",
            &[&self.keyspace],
        )
        .await?;
        Ok(found.into_iter().next())
    }

    /// The version that the table says it has; 0 if it says none.
    async fn version(&self, session: &Session) -> Result<Option<u32>, StoreError> {
        let found = texts(
            session,
            "SELECT comment FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?",
            &[&self.keyspace, &self.name],
        )
        .await?;
        let said = |row: &Vec<String>| row.first()?.strip_prefix(COMMENT)?.parse().ok();
        Ok(found.first().map(|row| said(row).unwrap_or(0)))
    }

    /// Which columns are not there. An error if one is there that is something else.
    async fn missing_columns(&self, session: &Session) -> Result<Vec<&'static str>, StoreError> {
        let found = texts(
            session,
            "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?",
            &[&self.keyspace, &self.name],
        )
        .await?;
        let mut missing = Vec::new();
        for (name, kind, role) in COLUMNS {
            match found.iter().find(|row| row[0] == name) {
                Some(row) if row[1] == kind && row[2] == role => {}
                None if role == "regular" => missing.push(name),
                _ => {
                    return Err(refused(format!(
                        "the table {} is another's: its column `{name}` is not a {kind} that is {}; use another table",
                        self.plain(),
                        role.replace('_', " ")
                    )));
                }
            }
        }
        Ok(missing)
    }
}

/// An error if replicas in several datacenters would each agree among themselves. They hold the same rows: the later of two
/// agreements would undo the other.
fn one_agreement(
    keyspace: &str,
    replication: &[String],
    serial: SerialConsistency,
) -> Result<(), StoreError> {
    let names = replication.chunks_exact(2).map(|pair| pair[0].as_str());
    let datacenters: Vec<_> = names.filter(|name| !matches!(*name, "class" | "replication_factor")).collect();
    if datacenters.len() < 2 || serial == SerialConsistency::Serial {
        return Ok(());
    }
    Err(refused(format!(
        "the keyspace `{keyspace}` is replicated in {}, which with LOCAL_SERIAL agree each for itself, so limits would not \
         hold; use Config::consistency(Consistency::Quorum, SerialConsistency::Serial), or a keyspace in one of them",
        datacenters.join(", ")
    )))
}

fn make(what: &str) -> String {
    format!("to make {what}, call Config::create_schema once, when you deploy")
}

/// States are written over and over and end by themselves. Those of one time end together, so their files can go as a whole
/// (time windows). A node that was away for more than a day has to be repaired or replaced: others have
/// forgotten by then what has ended.
fn options() -> String {
    format!(
        "comment = '{COMMENT}{VERSION}' AND gc_grace_seconds = 86400 AND compaction = \
         {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', 'compaction_window_size': 1}}"
    )
}

async fn run(session: &Session, statement: &str) -> Result<(), StoreError> {
    let done = session.query_unpaged(statement, ()).await;
    done.map(|_| ()).map_err(|cause| error::of_request(&cause).into_error())
}

/// Rows of texts.
async fn texts(session: &Session, statement: &str, values: &[&str]) -> Result<Vec<Vec<String>>, StoreError> {
    let answer = session.query_unpaged(statement, values).await;
    let answer = answer.map_err(|cause| error::of_request(&cause).into_error())?;
    let rows = answer.into_rows_result().map_err(error::not_understood)?;
    let rows = rows.rows::<scylla::value::Row>().map_err(error::not_understood)?;
    rows.map(|row| {
        let row = row.map_err(error::not_understood)?;
        Ok(row.columns.into_iter().flat_map(texts_of).collect())
    })
    .collect()
}

/// A text, or all texts of a map.
fn texts_of(value: Option<CqlValue>) -> Vec<String> {
    match value {
        Some(CqlValue::Text(text) | CqlValue::Ascii(text)) => vec![text],
        Some(CqlValue::Map(pairs)) => pairs
            .into_iter()
            .flat_map(|(name, value)| [texts_of(Some(name)), texts_of(Some(value))].concat())
            .collect(),
        _ => vec![String::new()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_more_than_names_are_refused() {
        for name in ["", "Limits", "9lives", "a-b", "a\"; DROP", "a.b", "_a", &"x".repeat(49)] {
            let error = Table::new(name, "limits").expect_err(name).to_string();
            assert!(error.contains("keyspace") && error.contains("lower-case"), "{error}");
            assert!(Table::new("limits", name).is_err());
        }
        assert_eq!(Table::new("limits", "table").expect("valid").quoted(), "\"limits\".\"table\"");
    }

    #[test]
    fn datacenters_that_would_each_agree_for_themselves_are_refused() {
        let replication = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (local, global) = (SerialConsistency::LocalSerial, SerialConsistency::Serial);
        let two = replication("class NetworkTopologyStrategy dc1 3 dc2 3");
        let error = one_agreement("limits", &two, local).expect_err("two").to_string();
        assert!(error.contains("dc1, dc2") && error.contains("SerialConsistency::Serial"), "{error}");
        assert!(one_agreement("limits", &two, global).is_ok());
        for one in ["class NetworkTopologyStrategy dc1 3", "class SimpleStrategy replication_factor 3"] {
            assert!(one_agreement("limits", &replication(one), local).is_ok(), "{one}");
        }
    }
}
