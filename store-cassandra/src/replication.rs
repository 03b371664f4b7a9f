//! How a keyspace is replicated.

use scylla::client::session::Session;
use scylla::statement::SerialConsistency;
use tollgate_core::{ErrorKind, StoreError};

/// The replication of a keyspace, for [`Config::create_schema`](crate::Config::create_schema). There is no default:
/// it decides which failures the cluster survives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replication {
    /// The keyspace exists already. It is an error if it does not.
    Existing,
    /// `SimpleStrategy` with this replication factor: for a cluster in one datacenter, such as a single node for
    /// development.
    Simple(u8),
    /// `NetworkTopologyStrategy` with a replication factor for each of these datacenters.
    Datacenters(Vec<(String, u8)>),
}

impl Replication {
    /// Creates a `NetworkTopologyStrategy` from datacenters and their replication factors.
    pub fn in_datacenters<'a>(factors: impl IntoIterator<Item = (&'a str, u8)>) -> Self {
        Self::Datacenters(factors.into_iter().map(|(name, factor)| (name.to_owned(), factor)).collect())
    }

    /// Returns the `replication` option of the statement that creates the keyspace.
    pub(crate) fn to_cql(&self, keyspace: &str, session: &Session) -> Result<String, StoreError> {
        let cluster = session.get_cluster_state();
        let nodes = cluster.get_nodes_info();
        let mut datacenters: Vec<&str> = nodes.iter().filter_map(|node| node.datacenter.as_deref()).collect();
        datacenters.sort_unstable();
        let nodes_in = |name: &str| datacenters.iter().filter(|datacenter| **datacenter == name).count();
        let mut names = datacenters.clone();
        names.dedup();
        let check_factor = |factor: u8, nodes: usize, location: &str| {
            if factor == 0 || usize::from(factor) > nodes {
                return Err(refused(format!(
                    "replication factor {factor} is not possible in {location}, which has {nodes} nodes; use 1 to \
                     {nodes}, and 3 if possible"
                )));
            }
            Ok(())
        };
        match self {
            Self::Existing => Err(refused(format!(
                "cassandra has no keyspace `{keyspace}`; create it, or set its replication: \
                 Replication::in_datacenters([(\"{}\", 3)])",
                names.first().unwrap_or(&"datacenter1")
            ))),
            Self::Simple(_) if names.len() > 1 => Err(refused(format!(
                "the cluster has {} datacenters ({}); set a replication factor for each of them: \
                 Replication::in_datacenters",
                names.len(),
                names.join(", ")
            ))),
            Self::Simple(factor) => {
                check_factor(*factor, nodes.len(), "the cluster")?;
                Ok(format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"))
            }
            Self::Datacenters(factors) => {
                if factors.is_empty() {
                    return Err(refused("the replication has no datacenter; add at least one".to_owned()));
                }
                let mut options = vec!["'class': 'NetworkTopologyStrategy'".to_owned()];
                for (name, factor) in factors {
                    if nodes_in(name) == 0 {
                        return Err(refused(format!(
                            "the cluster has no datacenter `{}`; its datacenters: {}",
                            name.escape_default(),
                            names.join(", ")
                        )));
                    }
                    check_factor(*factor, nodes_in(name), &format!("datacenter {name}"))?;
                    options.push(format!("'{}': {factor}", name.replace('\'', "''")));
                }
                Ok(format!("{{{}}}", options.join(", ")))
            }
        }
    }
}

fn refused(message: String) -> StoreError {
    StoreError::new(ErrorKind::Refused, message)
}

/// Returns an error if a keyspace is replicated in several datacenters and transactions would be agreed on in each of
/// them separately. They share the rows: of two concurrent transactions, the later one would overwrite the other.
pub(crate) fn check_serial_consistency(
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
        "keyspace `{keyspace}` is replicated in {}: with LOCAL_SERIAL each datacenter would decide separately, and \
         limits would be exceeded; use Config::consistency(Consistency::Quorum, SerialConsistency::Serial), or a \
         keyspace in one datacenter",
        datacenters.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_datacenters_need_serial() {
        let replication = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (local, global) = (SerialConsistency::LocalSerial, SerialConsistency::Serial);
        let two = replication("class NetworkTopologyStrategy dc1 3 dc2 3");
        let error = check_serial_consistency("limits", &two, local).expect_err("two").to_string();
        assert!(error.contains("dc1, dc2") && error.contains("SerialConsistency::Serial"), "{error}");
        assert!(check_serial_consistency("limits", &two, global).is_ok());
        for one in ["class NetworkTopologyStrategy dc1 3", "class SimpleStrategy replication_factor 3"] {
            assert!(check_serial_consistency("limits", &replication(one), local).is_ok(), "{one}");
        }
    }
}
