//! A Redis primary with a replica, monitored by Sentinels.

use std::path::Path;

use tempfile::TempDir;

use crate::port;
use crate::redis::Redis;
use crate::wait::Deadline;
use crate::wire::Reply;

/// A primary and its replica with three Sentinels, all on ports of 127.0.0.1. Dropping it ends the servers.
#[derive(Debug)]
pub struct RedisSentinel {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
    // The Sentinels' configurations, which they rewrite. Last, so that the files are deleted after they have ended.
    _files: TempDir,
}

impl RedisSentinel {
    /// The name under which the Sentinels know the primary.
    pub const NAME: &str = "tollgate";

    /// Starts all servers, and waits until the Sentinels have discovered each other and the replica.
    pub async fn start() -> Self {
        let primary = Redis::start(&[]).await;
        let port = primary.port().to_string();
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
        replication(&replica, "master_link_status", "up").await;

        let files = tempfile::tempdir().expect("a directory for the Sentinels");
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(start_sentinel(files.path(), &port).await);
        }
        let all = Self { servers: vec![primary, replica], sentinels, _files: files };
        let known = [("flags", "master"), ("num-slaves", "1"), ("num-other-sentinels", "2")];
        all.sentinels_report(&["SENTINEL", "MASTER", Self::NAME], &known).await;
        all
    }

    /// Returns the Sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Returns both servers, a killed one included.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Returns the server that all Sentinels name as the primary.
    pub async fn primary(&self) -> &Redis {
        &self.servers[self.named_primary(|_| true).await]
    }

    /// Kills the primary and waits until all Sentinels name the replica as the primary, and it accepts writes.
    pub async fn fail_over(&mut self) {
        let killed = self.named_primary(|_| true).await;
        self.servers[killed].kill().await;
        let promoted = self.named_primary(|index| index != killed).await;
        replication(&self.servers[promoted], "role", "master").await;
    }

    /// Starts the killed server as a replica of the other, and waits until it is in sync and all Sentinels find it
    /// healthy.
    pub async fn start_again(&mut self) {
        let primary = self.named_primary(|_| true).await;
        let (killed, port) = (1 - primary, self.servers[primary].port().to_string());
        let killed = &mut self.servers[killed];
        killed.start_again().await;
        // As a persisted configuration would: Sentinels take half a minute to reconfigure it.
        killed.call(&["REPLICAOF", "127.0.0.1", &port]).await;
        replication(killed, "master_link_status", "up").await;
        self.sentinels_report(&["SENTINEL", "REPLICAS", Self::NAME], &[("flags", "slave")]).await;
    }

    /// Waits until all Sentinels report these fields.
    async fn sentinels_report(&self, command: &[&str], wanted: &[(&str, &str)]) {
        for sentinel in &self.sentinels {
            let deadline = Deadline::new("a Sentinel that has discovered the others");
            loop {
                let mut reply = sentinel.call(command).await;
                // A list of replicas, with one replica.
                if let Reply::List(items) = &mut reply
                    && matches!(items[..], [Reply::List(_)])
                {
                    reply = items.remove(0);
                }
                let state = reply.texts();
                if wanted.iter().all(|&(name, value)| state.windows(2).any(|pair| pair == [name, value])) {
                    break;
                }
                deadline.wait(&format!("{state:?}")).await;
            }
        }
    }

    /// Returns the index of the primary that all Sentinels name, once it is as wanted.
    async fn named_primary(&self, wanted: impl Fn(usize) -> bool) -> usize {
        let deadline = Deadline::new("Sentinels that name one primary");
        loop {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                named.push(sentinel.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME]).await.texts());
            }
            let by_all = |server: &Redis| {
                let address = ["127.0.0.1".to_owned(), server.port().to_string()];
                named.iter().all(|named| *named == address)
            };
            match self.servers.iter().position(by_all) {
                Some(index) if wanted(index) => break index,
                _ => deadline.wait(&format!("{named:?}")).await,
            }
        }
    }
}

/// Waits until a field of a server's `INFO replication` has this value.
async fn replication(server: &Redis, field: &str, value: &str) {
    let deadline = Deadline::new("replication");
    loop {
        match server.call(&["INFO", "replication"]).await.field(field) {
            Some(found) if found == value => break,
            found => deadline.wait(&format!("{field} is {found:?}, not {value}")).await,
        }
    }
}

async fn start_sentinel(files: &Path, primary: &str) -> Redis {
    let (port, name, directory) = (port::free(), RedisSentinel::NAME, files.display());
    let path = files.join(format!("sentinel-{port}.conf"));
    // Sentinels reconnect once a second: with less time than this they take a server for dead that they have only just
    // switched to.
    let configuration = format!(
        "port {port}
bind 127.0.0.1
protected-mode no
dir {directory}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} 2000
sentinel failover-timeout {name} 2000
"
    );
    std::fs::write(&path, configuration).expect("a Sentinel's configuration is written");
    Redis::launch(port, false, Some(files), vec![&path.display().to_string(), "--sentinel"]).await
}
