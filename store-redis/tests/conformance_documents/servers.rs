//! The servers that the suite runs on.

use tollgate_core::documents::DocumentStore;
use tollgate_store_redis::RedisDocuments;
use tollgate_testkit::{Redis, RedisCluster, RedisSentinel, Reply};

/// How Redis is deployed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deployment {
    Single,
    Cluster,
    Sentinel,
    Shards,
}

/// Running servers, and the URL of the document store on them.
pub(crate) enum Servers {
    Single(Redis, String),
    Cluster(RedisCluster, String),
    Sentinel(RedisSentinel, String),
    Shards([Redis; 2], String),
}

impl Servers {
    pub(crate) async fn start(deployment: Deployment) -> Self {
        match deployment {
            Deployment::Single => {
                let redis = Redis::start(&[]).await;
                let url = redis.url();
                Self::Single(redis, url)
            }
            Deployment::Cluster => {
                let cluster = RedisCluster::start().await;
                // One seed; the other nodes are discovered.
                let url = format!("redis+cluster://{}", cluster.servers()[0].address());
                Self::Cluster(cluster, url)
            }
            Deployment::Sentinel => {
                let sentinel = RedisSentinel::start().await;
                let sentinels: Vec<_> = sentinel.sentinels().iter().map(Redis::address).collect();
                let url = format!("redis+sentinel://{}/{}", sentinels.join(","), RedisSentinel::NAME);
                Self::Sentinel(sentinel, url)
            }
            Deployment::Shards => {
                let shards = [Redis::start(&[]).await, Redis::start(&[]).await];
                let url = format!("redis+shards://{},{}", shards[0].address(), shards[1].address());
                Self::Shards(shards, url)
            }
        }
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Single(_, url) | Self::Cluster(_, url) | Self::Sentinel(_, url) | Self::Shards(_, url) => {
                url
            }
        }
    }

    /// Fails over, if these servers do, and waits until the store has followed.
    pub(crate) async fn fail_over(&mut self, documents: &RedisDocuments) {
        match self {
            Self::Sentinel(servers, _) => {
                servers.fail_over().await;
                // The first call may fail, because the known primary is down. Then the new one is found.
                let _ = documents.list("").await;
                documents.list("").await.expect("an answer of the new primary");
            }
            Self::Single(..) | Self::Cluster(..) | Self::Shards(..) => {}
        }
    }

    /// Returns the fields of a hash, from the server that has it.
    pub(crate) async fn fields(&self, key: &str) -> Vec<String> {
        let servers = match self {
            Self::Single(redis, _) => std::slice::from_ref(redis),
            Self::Cluster(cluster, _) => cluster.servers(),
            Self::Sentinel(sentinel, _) => sentinel.servers(),
            Self::Shards(shards, _) => shards,
        };
        let mut fields = Vec::new();
        for redis in servers {
            // Other nodes of a cluster reply with an error, and a killed server does not reply.
            if let Ok(reply @ Reply::List(_)) = redis.try_call(&["HKEYS", key]).await {
                fields.extend(reply.texts());
            }
        }
        fields
    }
}
