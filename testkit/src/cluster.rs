//! A Redis Cluster on this machine.

use tempfile::TempDir;

use crate::migration::Migration;
use crate::redis::Redis;
use crate::wait::Deadline;

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// Three primaries with a replica each, every server on a port of 127.0.0.1. Dropped, it is gone.
///
/// Servers are named by their index in [`servers`](Self::servers): primaries first, each one's replica three further.
/// That changes with every [`fail_over`](Self::fail_over).
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<Redis>,
    // What the servers remember of each other. Last, so that it goes when they have gone.
    _files: TempDir,
}

/// What one server says about another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    port: u16,
    id: String,
    /// The primary that this replica follows.
    follows: Option<String>,
    /// First and last of each range that it serves.
    slots: Vec<(u16, u16)>,
}

impl RedisCluster {
    /// Starts a cluster and waits until all its servers agree that it works, with every replica in sync.
    pub async fn start() -> Self {
        let files = tempfile::tempdir().expect("a directory for the cluster's files");
        let starting: Vec<_> = (0..2 * PRIMARIES)
            .map(|index| tokio::spawn(start_server(files.path().to_owned(), index)))
            .collect();
        let mut servers = Vec::new();
        for server in starting {
            servers.push(server.await.expect("a server of the cluster"));
        }
        let cluster = Self { servers, _files: files };
        cluster.introduce().await;
        cluster.settled("a new cluster", |_| Ok(())).await;
        cluster
    }

    /// Deals out the slots, makes the servers known to each other, and gives each primary its replica.
    async fn introduce(&self) {
        let first = self.servers[0].port().to_string();
        for (index, server) in self.servers.iter().enumerate() {
            if index < PRIMARIES {
                let (from, to) = (SLOTS * index / PRIMARIES, SLOTS * (index + 1) / PRIMARIES - 1);
                server.call(&["CLUSTER", "ADDSLOTSRANGE", &from.to_string(), &to.to_string()]).await;
            }
            // Servers that start with the same epoch would first have to settle whose is newer.
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

    /// All servers, also those that were killed.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The URLs of all servers, for a client to start from.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    /// The index of the server that serves a slot, by the word of all that run.
    pub async fn primary_of_slot(&self, slot: u16) -> usize {
        self.settled("one primary for a slot", |nodes| self.primary_among(nodes, slot)).await
    }

    /// Kills the primary of a slot and waits until its replica serves in its place. Returns the index of the killed.
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

    /// Starts a killed server, which follows whoever took over, and waits until it is in sync.
    pub async fn start_again(&mut self, index: usize) {
        self.servers[index].start_again().await;
        let port = self.servers[index].port();
        self.settled("a server that comes back", |nodes| match nodes.iter().find(|node| node.port == port) {
            Some(Node { follows: Some(_), .. }) => Ok(()),
            other => Err(format!("it does not follow: {other:?}")),
        })
        .await;
    }

    /// Begins to move a slot to another primary. Until the migration is [finished](Migration::finish), keys that have
    /// moved, or are not there, are answered with `ASK`.
    pub async fn migrate(&self, slot: u16, to: usize) -> Migration<'_> {
        Migration::begin(self, slot, self.primary_of_slot(slot).await, to).await
    }

    /// Waits until all servers know that a slot is served by that one.
    pub(crate) async fn served_by(&self, slot: u16, index: usize) {
        self.settled("a slot that has moved", |nodes| match self.primary_among(nodes, slot)? {
            primary if primary == index => Ok(()),
            primary => Err(format!("server {primary} serves it")),
        })
        .await;
    }

    fn primary_among(&self, nodes: &[Node], slot: u16) -> Result<usize, String> {
        let serves = |node: &Node| node.slots.iter().any(|&(from, to)| (from..=to).contains(&slot));
        let port = nodes.iter().find(|node| serves(node)).ok_or("nobody serves the slot")?.port;
        Ok(self.servers.iter().position(|server| server.port() == port).expect("a server of this cluster"))
    }

    /// Waits until all servers that run say the same, and that all is well, and that it is as wanted.
    async fn settled<T>(&self, what: &'static str, wanted: impl Fn(&[Node]) -> Result<T, String>) -> T {
        let deadline = Deadline::new(what);
        loop {
            match self.agreed().await.and_then(|nodes| wanted(&nodes)) {
                Ok(it) => break it,
                Err(missing) => deadline.wait(&missing).await,
            }
        }
    }

    /// What all servers that run say.
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

    /// How one server sees all that run, if it finds them well.
    async fn view(&self, server: &Redis) -> Result<Vec<Node>, String> {
        let ask = async |command| server.try_call(command).await.map_err(|error| error.to_string());
        let state = ask(&["CLUSTER", "INFO"]).await?.field("cluster_state");
        if state.as_deref() != Some("ok") {
            return Err(format!("{}: cluster_state:{state:?}", server.address()));
        }
        let replication = ask(&["INFO", "replication"]).await?;
        if replication.field("master_link_status").is_some_and(|status| status != "up") {
            return Err(format!("{} is not in sync", server.address()));
        }
        let nodes = ask(&["CLUSTER", "NODES"]).await?.text();
        let running = |node: &Node| self.servers.iter().any(|at| at.is_running() && at.port() == node.port);
        let mut view: Vec<_> = nodes.lines().filter_map(Node::read).filter(running).collect();
        view.sort();
        if view.len() < self.servers.iter().filter(|server| server.is_running()).count() {
            return Err(format!("{} does not see everybody well:\n{nodes}", server.address()));
        }
        Ok(view)
    }
}

impl Node {
    /// Reads a line of `CLUSTER NODES`: id, address, flags, primary, ping, pong, epoch, link, slots. Nothing if the server
    /// is not well.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [id, address, flags, primary, _, _, _, link, slots @ ..] = words.as_slice() else { return None };
        let well = flags.split(',').all(|flag| ["myself", "master", "slave"].contains(&flag));
        let port = address.split_once(':')?.1.split('@').next()?.parse().ok()?;
        // Slots that are about to move are listed once more, in brackets.
        let range = |range: &&str| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        (well && *link == "connected").then(|| Self {
            port,
            id: (*id).to_owned(),
            follows: (*primary != "-").then(|| (*primary).to_owned()),
            slots: slots.iter().filter_map(range).collect(),
        })
    }
}

async fn start_server(files: std::path::PathBuf, index: usize) -> Redis {
    let directory = files.display().to_string();
    let memory = format!("nodes-{index}.conf");
    let arguments = [
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", "1000"],
        ["--cluster-config-file", &memory],
        ["--dir", &directory],
        // Replicas stay where they are put.
        ["--cluster-allow-replica-migration", "no"],
    ];
    Redis::start_with_files(&files, arguments.as_flattened()).await
}
