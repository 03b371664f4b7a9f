//! The migration of a slot from one primary of a cluster to another.

use crate::cluster::RedisCluster;
use crate::redis::Redis;

/// The migration of a slot. During it, the old primary replies `ASK` for keys that it does not have, and the new one
/// serves requests that follow `ASKING`. After it, the old primary replies `MOVED`.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> Migration<'a> {
    pub(crate) async fn start(cluster: &'a RedisCluster, slot: u16, from: usize, to: usize) -> Self {
        let migration = Self { cluster, slot: slot.to_string(), from, to };
        let (source, target) = (migration.source(), migration.target());
        let (source_id, target_id) = (id(source).await, id(target).await);
        target.call(&["CLUSTER", "SETSLOT", &migration.slot, "IMPORTING", &source_id]).await;
        source.call(&["CLUSTER", "SETSLOT", &migration.slot, "MIGRATING", &target_id]).await;
        migration
    }

    /// Returns the old primary.
    pub fn source(&self) -> &'a Redis {
        &self.cluster.servers()[self.from]
    }

    /// Returns the new primary.
    pub fn target(&self) -> &'a Redis {
        &self.cluster.servers()[self.to]
    }

    /// Moves the keys that are in the slot.
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

    /// Moves the remaining keys, assigns the slot to the new primary, and waits until all servers agree.
    pub async fn finish(self) {
        self.move_keys().await;
        let target_id = id(self.target()).await;
        let assign = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &target_id];
        // The target first, so that the slot always has an owner.
        self.target().call(&assign).await;
        self.source().call(&assign).await;
        self.cluster.served_by(self.slot.parse().expect("a slot is a number"), self.to).await;
    }
}

async fn id(server: &Redis) -> String {
    server.call(&["CLUSTER", "MYID"]).await.text()
}
