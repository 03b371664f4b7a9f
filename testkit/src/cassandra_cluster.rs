//! A Cassandra cluster on this machine.

use std::net::Ipv4Addr;

use crate::cassandra::Cassandra;
use crate::cql::Consistency;
use crate::wait::Deadline;

/// The start of each node's range of the ring. The ranges have the same size, and are fixed so that no node has to
/// negotiate its own.
const TOKENS: [&str; 3] = ["-9223372036854775808", "-3074457345618258603", "3074457345618258602"];

/// A cluster of three nodes, each on a loopback address of its own. Dropping it ends the nodes.
#[derive(Debug)]
pub struct CassandraCluster {
    nodes: Vec<Cassandra>,
}

impl CassandraCluster {
    /// Starts a cluster and waits until it has [settled](Self::settled).
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a cluster with additional settings for each node, as in `cassandra.yaml`.
    pub async fn start_with(settings: &'static [(&str, &str)]) -> Self {
        let seeds = TOKENS.map(|_| Cassandra::free_address());
        // At the same time: each node is a seed, so none waits for another.
        let starting: Vec<_> = seeds
            .into_iter()
            .zip(TOKENS)
            .map(|(address, token)| tokio::spawn(start_node(address, seeds, token, settings)))
            .collect();
        let mut nodes = Vec::new();
        for node in starting {
            nodes.push(node.await.expect("the node starts"));
        }
        let cluster = Self { nodes };
        cluster.settled().await;
        cluster
    }

    /// Returns `127.x.y.z:9042` of every node, killed ones included.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Cassandra::address).collect()
    }

    /// Returns `cassandra://127.x.y.z:9042,…` with all nodes.
    pub fn url(&self) -> String {
        format!("cassandra://{}", self.addresses().join(","))
    }

    /// Returns one of the three nodes.
    pub fn node(&self, index: usize) -> &Cassandra {
        &self.nodes[index]
    }

    /// Returns one of the three nodes, to kill it and to start it again.
    pub fn node_mut(&mut self, index: usize) -> &mut Cassandra {
        &mut self.nodes[index]
    }

    /// Waits until every node reaches every other and all have the same schema, which spreads in the background. Await
    /// it after a start and after a change of the schema, while all nodes are running.
    pub async fn settled(&self) {
        let deadline = Deadline::long("nodes that reach each other");
        for node in &self.nodes {
            while let Err(missing) = reaches_all(node).await {
                deadline.wait(&format!("{}: {missing}", node.address())).await;
            }
        }
    }
}

async fn start_node(
    address: Ipv4Addr,
    seeds: [Ipv4Addr; 3],
    token: &str,
    settings: &[(&str, &str)],
) -> Cassandra {
    let settings = [&[("initial_token", token)], settings].concat();
    // A node that restarts asks the others for its identity first, and gives up after this time.
    Cassandra::launch(address, &seeds, "4000", &settings).await
}

async fn reaches_all(node: &Cassandra) -> Result<(), String> {
    let query = async |query: &str, consistency| {
        node.try_query_at(query, consistency).await.map_err(|error| error.to_string())
    };
    let mut schemas = query("SELECT schema_version FROM system.peers_v2", Consistency::One).await?;
    schemas.extend(query("SELECT schema_version FROM system.local", Consistency::One).await?);
    let agreed = schemas.len() == TOKENS.len() && schemas.iter().all(|schema| *schema == schemas[0]);
    if !agreed {
        return Err(format!("the schemas differ: {schemas:?}"));
    }
    // A table of Cassandra's own, with a replica on every node.
    query("SELECT * FROM system_distributed.view_build_status", Consistency::All).await.map(drop)
}
