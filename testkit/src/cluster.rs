//! A Redis Cluster on this machine.

use tempfile::TempDir;

use crate::migration::Migration;
use crate::redis::Redis;
use crate::wait::Deadline;

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// A cluster of three primaries with a replica each, all on ports of 127.0.0.1. Dropping it ends the servers.
///
/// Servers are addressed by their index in [`servers`](Self::servers): at first, 0 to 2 are primaries, and the replica
/// of each is three further. Every [`fail_over`](Self::fail_over) changes the roles.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<Redis>,
    // The servers' views of the cluster. Last, so that the files are deleted after the servers have ended.
    _files: TempDir,
}

/// One server's view of another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    port: u16,
    id: String,
    /// The primary that it replicates.
    primary: Option<String>,
    /// The first and last slot of each range that it serves.
    slots: Vec<(u16, u16)>,
}

impl RedisCluster {
    /// Starts a cluster and waits until all servers agree that it is healthy, with every replica in sync.
    pub async fn start() -> Self {
        let files = tempfile::tempdir().expect("a directory for the cluster");
        let starting: Vec<_> = (0..2 * PRIMARIES)
            .map(|index| tokio::spawn(start_server(files.path().to_owned(), index)))
            .collect();
        let mut servers = Vec::new();
        for server in starting {
            servers.push(server.await.expect("the server starts"));
        }
        let cluster = Self { servers, _files: files };
        cluster.join().await;
        cluster.settled("a new cluster", |_| Ok(())).await;
        cluster
    }

    /// Assigns the slots, joins the servers into one cluster, and assigns a replica to each primary.
    async fn join(&self) {
        let first = self.servers[0].port().to_string();
        for (index, server) in self.servers.iter().enumerate() {
            if index < PRIMARIES {
                let (from, to) = (SLOTS * index / PRIMARIES, SLOTS * (index + 1) / PRIMARIES - 1);
                server.call(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]).await;
            }
            // Servers that start with the same epoch would have to resolve the conflict first.
            server.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await;
            server.call(&["CLUSTER", "MEET", "127.0.0.1", &first]).await;
        }
        for (primary, replica) in self.servers.iter().zip(&self.servers[PRIMARIES..]) {
            let id = primary.call(&["CLUSTER", "MYID"]).await.text();
            let deadline = Deadline::new("a replica that knows its primary");
            loop {
                match replica.try_call(&["CLUSTER", "REPLICATE", &id]).await {
                    Ok(reply) if reply.text() == "OK" => break,
                    other => deadline.wait(&format!("{other:?}")).await,
                }
            }
        }
    }

    /// Returns all servers, killed ones included.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Returns the URLs of all servers.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    /// Returns the index of the server that serves a slot, once all running servers agree on it.
    pub async fn primary_of_slot(&self, slot: u16) -> usize {
        self.settled("one primary for a slot", |nodes| self.primary_among(nodes, slot)).await
    }

    /// Kills the primary of a slot and waits until its replica serves the slot. Returns the index of the killed server.
    pub async fn fail_over(&mut self, slot: u16) -> usize {
        let killed = self.primary_of_slot(slot).await;
        self.servers[killed].kill().await;
        self.settled("a replica that takes over", |nodes| {
            let primary = self.primary_among(nodes, slot)?;
            if primary == killed { Err("the killed primary still has the slot".to_owned()) } else { Ok(()) }
        })
        .await;
        killed
    }

    /// Starts a killed server as a replica of the new primary, and waits until it is in sync.
    pub async fn start_again(&mut self, index: usize) {
        self.servers[index].start_again().await;
        let port = self.servers[index].port();
        self.settled("a restarted server", |nodes| match nodes.iter().find(|node| node.port == port) {
            Some(Node { primary: Some(_), .. }) => Ok(()),
            other => Err(format!("it is not a replica: {other:?}")),
        })
        .await;
    }

    /// Starts to move a slot to another primary. Until the migration is [finished](Migration::finish), the old primary
    /// replies `ASK` for keys that have moved or do not exist.
    pub async fn migrate(&self, slot: u16, to: usize) -> Migration<'_> {
        Migration::start(self, slot, self.primary_of_slot(slot).await, to).await
    }

    /// Waits until all servers agree that this server serves a slot.
    pub(crate) async fn served_by(&self, slot: u16, index: usize) {
        self.settled("a slot that has moved", |nodes| match self.primary_among(nodes, slot)? {
            primary if primary == index => Ok(()),
            primary => Err(format!("server {primary} serves it")),
        })
        .await;
    }

    fn primary_among(&self, nodes: &[Node], slot: u16) -> Result<usize, String> {
        let serves = |node: &Node| node.slots.iter().any(|&(from, to)| (from..=to).contains(&slot));
        let port = nodes.iter().find(|node| serves(node)).ok_or("no server serves the slot")?.port;
        Ok(self.servers.iter().position(|server| server.port() == port).expect("a server of this cluster"))
    }

    /// Waits until all running servers agree on a healthy cluster that is as wanted.
    async fn settled<T>(&self, what: &'static str, wanted: impl Fn(&[Node]) -> Result<T, String>) -> T {
        let deadline = Deadline::new(what);
        loop {
            match self.agreed().await.and_then(|nodes| wanted(&nodes)) {
                Ok(found) => break found,
                Err(missing) => deadline.wait(&missing).await,
            }
        }
    }

    /// Returns the view that all running servers share.
    async fn agreed(&self) -> Result<Vec<Node>, String> {
        let mut views = Vec::new();
        for server in self.servers.iter().filter(|server| server.is_running()) {
            views.push(self.view(server).await?);
        }
        let agreed = views.pop().ok_or("no server runs")?;
        if views.iter().all(|view| *view == agreed) {
            Ok(agreed)
        } else {
            Err(format!("{agreed:?} is not {views:?}"))
        }
    }

    /// Returns one server's view of all running servers, if it finds them healthy.
    async fn view(&self, server: &Redis) -> Result<Vec<Node>, String> {
        let call = async |command| server.try_call(command).await.map_err(|error| error.to_string());
        let state = call(&["CLUSTER", "INFO"]).await?.field("cluster_state");
        if state.as_deref() != Some("ok") {
            return Err(format!("{}: cluster_state:{state:?}", server.address()));
        }
        let replication = call(&["INFO", "replication"]).await?;
        if replication.field("master_link_status").is_some_and(|status| status != "up") {
            return Err(format!("{} is not in sync", server.address()));
        }
        let nodes = call(&["CLUSTER", "NODES"]).await?.text();
        let running = |node: &Node| self.servers.iter().any(|at| at.is_running() && at.port() == node.port);
        let mut view: Vec<_> = nodes.lines().filter_map(Node::parse).filter(running).collect();
        view.sort();
        if view.len() < self.servers.iter().filter(|server| server.is_running()).count() {
            return Err(format!("{} does not reach every server:\n{nodes}", server.address()));
        }
        Ok(view)
    }
}

impl Node {
    /// Parses a line of `CLUSTER NODES`: id, address, flags, primary, ping, pong, epoch, link, slots. `None` if the
    /// server is not healthy.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [id, address, flags, primary, _, _, _, link, slots @ ..] = words.as_slice() else { return None };
        let healthy = flags.split(',').all(|flag| ["myself", "master", "slave"].contains(&flag));
        let port = address.split_once(':')?.1.split('@').next()?.parse().ok()?;
        // Slots that are migrating are listed once more, in brackets. They are no ranges.
        let range = |range: &&str| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        (healthy && *link == "connected").then(|| Self {
            port,
            id: (*id).to_owned(),
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            slots: slots.iter().filter_map(range).collect(),
        })
    }
}

async fn start_server(files: std::path::PathBuf, index: usize) -> Redis {
    let directory = files.display().to_string();
    let nodes_file = format!("nodes-{index}.conf");
    let arguments = [
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", "1000"],
        ["--cluster-config-file", &nodes_file],
        ["--dir", &directory],
        // Replicas stay with their primaries.
        ["--cluster-allow-replica-migration", "no"],
    ];
    Redis::start_with_files(&files, arguments.as_flattened()).await
}
