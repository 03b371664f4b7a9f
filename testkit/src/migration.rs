//! A slot on its way from one primary of a cluster to another.

use crate::cluster::RedisCluster;
use crate::redis::Redis;

/// A slot that moves. In between, its old primary answers `ASK` for keys that it does not have (any more), and the new
/// one serves whoever says `ASKING`; once finished, the old one answers `MOVED`.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> Migration<'a> {
    pub(crate) async fn begin(cluster: &'a RedisCluster, slot: u16, from: usize, to: usize) -> Self {
        let migration = Self { cluster, slot: slot.to_string(), from, to };
        let (source, target) = (migration.source(), migration.target());
        let (source_id, target_id) = (id(source).await, id(target).await);
        target.call(&["CLUSTER", "SETSLOT", &migration.slot, "IMPORTING", &source_id]).await;
        source.call(&["CLUSTER", "SETSLOT", &migration.slot, "MIGRATING", &target_id]).await;
        migration
    }

    /// Where the slot comes from.
    pub fn source(&self) -> &'a Redis {
        &self.cluster.servers()[self.from]
    }

    /// Where it goes.
    pub fn target(&self) -> &'a Redis {
        &self.cluster.servers()[self.to]
    }

    /// Moves the keys that are in the slot now.
    pub async fn move_keys(&self) {
        loop {
            let keys = self.source().call(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"]).await.texts();
            if keys.is_empty() {
                break;
            }
            let port = self.target().port().to_string();
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(keys.iter().map(String::as_str));
            self.source().call(&command).await;
        }
    }

    /// Moves what is left, tells every primary who has the slot now, and waits until all servers know.
    pub async fn finish(self) {
        self.move_keys().await;
        let target_id = id(self.target()).await;
        let hand_over = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &target_id];
        // The target first: a slot that its source has given up must have somebody to serve it.
        self.target().call(&hand_over).await;
        self.source().call(&hand_over).await;
        self.cluster.served_by(self.slot.parse().expect("a slot"), self.to).await;
    }
}

async fn id(server: &Redis) -> String {
    server.call(&["CLUSTER", "MYID"]).await.text()
}
