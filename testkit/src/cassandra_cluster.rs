//! A Cassandra cluster on this machine.

use std::net::Ipv4Addr;

use crate::cassandra::Cassandra;
use crate::cql::Consistency;
use crate::wait::Deadline;

/// Where each node's part of the ring begins: parts of the same size, and no node has to ask others what is left.
const TOKENS: [&str; 3] = ["-9223372036854775808", "-3074457345618258603", "3074457345618258602"];

/// Three nodes, each on a loopback address of its own. Dropped, it is gone.
#[derive(Debug)]
pub struct CassandraCluster {
    nodes: Vec<Cassandra>,
}

impl CassandraCluster {
    /// Starts a cluster and waits until it has [settled](Self::settled).
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more or other settings for each node, as in `cassandra.yaml`.
    pub async fn start_with(settings: &'static [(&str, &str)]) -> Self {
        let seeds = TOKENS.map(|_| Cassandra::free_address());
        // All at once: each is a seed, so none waits for another.
        let starting: Vec<_> = seeds
            .into_iter()
            .zip(TOKENS)
            .map(|(address, token)| tokio::spawn(start_node(address, seeds, token, settings)))
            .collect();
        let mut nodes = Vec::new();
        for node in starting {
            nodes.push(node.await.expect("a node of the cluster"));
        }
        let cluster = Self { nodes };
        cluster.settled().await;
        cluster
    }

    /// `127.x.y.z:9042` of every node, also of those that were killed.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Cassandra::address).collect()
    }

    /// `cassandra://127.x.y.z:9042,…`: all nodes.
    pub fn url(&self) -> String {
        format!("cassandra://{}", self.addresses().join(","))
    }

    /// One of three.
    pub fn node(&self, index: usize) -> &Cassandra {
        &self.nodes[index]
    }

    /// One of three, to kill and to start again.
    pub fn node_mut(&mut self, index: usize) -> &mut Cassandra {
        &mut self.nodes[index]
    }

    /// Waits until every node reaches every other and all have the same schema, which they tell each other in their own
    /// time: to be awaited after a start and after a change of the schema. For when all of them run.
    pub async fn settled(&self) {
        let deadline = Deadline::long("nodes that see each other");
        for node in &self.nodes {
            while let Err(missing) = sees_all(node).await {
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
    // A node that comes back asks the others who it is before it answers, and gives up after this time.
    Cassandra::launch(address, &seeds, "4000", &settings).await
}

async fn sees_all(node: &Cassandra) -> Result<(), String> {
    let ask = async |query: &str, consistency| {
        node.try_query_at(query, consistency).await.map_err(|error| error.to_string())
    };
    let mut schemas = ask("SELECT schema_version FROM system.peers_v2", Consistency::One).await?;
    schemas.extend(ask("SELECT schema_version FROM system.local", Consistency::One).await?);
    let agreed = schemas.len() == TOKENS.len() && schemas.iter().all(|schema| *schema == schemas[0]);
    if !agreed {
        return Err(format!("no agreement on the schema: {schemas:?}"));
    }
    // Cassandra's own, with a replica on every node.
    ask("SELECT * FROM system_distributed.view_build_status", Consistency::All).await.map(drop)
}
