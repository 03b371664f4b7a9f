//! A Redis primary with a replica, watched by Sentinels.

use std::path::Path;

use tempfile::TempDir;

use crate::port;
use crate::redis::Redis;
use crate::wait::Deadline;
use crate::wire::Reply;

/// A primary and its replica with three Sentinels, all on ports of 127.0.0.1. Dropped, they are gone.
#[derive(Debug)]
pub struct RedisSentinel {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
    // The Sentinels' configurations, which they rewrite. Last, so that it goes when they have gone.
    _files: TempDir,
}

impl RedisSentinel {
    /// The name under which the Sentinels know the primary.
    pub const NAME: &str = "tollgate";

    /// Starts them all, and waits until the Sentinels know each other and the replica.
    pub async fn start() -> Self {
        let primary = Redis::start(&[]).await;
        let port = primary.port().to_string();
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
        replication(&replica, "master_link_status", "up").await;

        let files = tempfile::tempdir().expect("a directory for the Sentinels' files");
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(start_sentinel(files.path(), &port).await);
        }
        let all = Self { servers: vec![primary, replica], sentinels, _files: files };
        let known = [("flags", "master"), ("num-slaves", "1"), ("num-other-sentinels", "2")];
        all.sentinels_say(&["SENTINEL", "MASTER", Self::NAME], &known).await;
        all
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The two servers, also one that was killed.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// The server that all Sentinels name as the primary.
    pub async fn primary(&self) -> &Redis {
        &self.servers[self.named(|_| true).await]
    }

    /// Kills the primary and waits until all Sentinels name the replica in its place, which then takes writes.
    pub async fn fail_over(&mut self) {
        let killed = self.named(|_| true).await;
        self.servers[killed].kill().await;
        let promoted = self.named(|index| index != killed).await;
        replication(&self.servers[promoted], "role", "master").await;
    }

    /// Starts the killed server as a replica of the other, and waits until it is in sync and all Sentinels find it well.
    pub async fn start_again(&mut self) {
        let primary = self.named(|_| true).await;
        let (killed, port) = (1 - primary, self.servers[primary].port().to_string());
        let killed = &mut self.servers[killed];
        killed.start_again().await;
        // As its configuration would say if it kept one: Sentinels take half a minute to find out.
        killed.call(&["REPLICAOF", "127.0.0.1", &port]).await;
        replication(killed, "master_link_status", "up").await;
        self.sentinels_say(&["SENTINEL", "REPLICAS", Self::NAME], &[("flags", "slave")]).await;
    }

    /// Waits until all Sentinels say this.
    async fn sentinels_say(&self, question: &[&str], wanted: &[(&str, &str)]) {
        for sentinel in &self.sentinels {
            let deadline = Deadline::new("a Sentinel that knows the others");
            loop {
                let mut answer = sentinel.call(question).await;
                // Of one replica, in a list of replicas.
                if let Reply::List(items) = &mut answer
                    && matches!(items[..], [Reply::List(_)])
                {
                    answer = items.remove(0);
                }
                let state = answer.texts();
                if wanted.iter().all(|&(name, value)| state.windows(2).any(|pair| pair == [name, value])) {
                    break;
                }
                deadline.wait(&format!("{state:?}")).await;
            }
        }
    }

    /// The index of the primary that all Sentinels name, once it is as wanted.
    async fn named(&self, wanted: impl Fn(usize) -> bool) -> usize {
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

/// Waits until a server says this about its replication.
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
    // Sentinels try a new connection once a second, so those with less deadline take a server for dead that they have
    // only just switched to.
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
    std::fs::write(&path, configuration).expect("a Sentinel's configuration");
    Redis::launch(port, false, Some(files), vec![&path.display().to_string(), "--sentinel"]).await
}
