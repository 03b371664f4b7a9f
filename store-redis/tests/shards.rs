//! Client-side shards, some of which are down.

mod frozen_clock;

use frozen_clock::{NOW, config, limit, take, used};
use tollgate_core::store::Store;
use tollgate_core::{Charge, Effect, ErrorKind, IdempotencyKey, Limit, Request};
use tollgate_testkit::Redis;
use tollgate_testkit::eventually;

async fn start<const N: usize>() -> [Redis; N] {
    let mut servers = Vec::new();
    for _ in 0..N {
        servers.push(Redis::start(&[]).await);
    }
    servers.try_into().expect("N servers")
}

fn url<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> String {
    let all: Vec<_> = servers.into_iter().map(Redis::address).collect();
    format!("redis+shards://{}", all.join(","))
}

fn users(count: usize) -> Vec<String> {
    (0..count).map(|user| format!("user:{user}")).collect()
}

/// Returns one charge for each entity.
fn each<'a>(limit: &'a Limit, entities: &'a [String]) -> Vec<Charge<'a>> {
    entities.iter().map(|entity| limit.charge(entity)).collect()
}

/// Returns the server of each user.
async fn servers_of(servers: &[Redis], users: &[String]) -> Vec<usize> {
    let mut keys = Vec::new();
    for server in servers {
        keys.push(server.call(&["KEYS", "*"]).await.texts());
    }
    let lives_on = |user: &String| {
        let on: Vec<_> = (0..servers.len())
            .filter(|index| keys[*index].iter().any(|key| key.contains(&format!("{{{user}}}"))))
            .collect();
        assert_eq!(on.len(), 1, "{user} is on {on:?}");
        on[0]
    };
    users.iter().map(lives_on).collect()
}

#[tokio::test]
async fn a_new_shard_moves_only_its_own_entities() {
    let servers: [Redis; 4] = start().await;
    let (limit, users) = (limit("api", 10), users(120));
    let mut before = Vec::new();
    for shards in [&servers[..3], &servers[..]] {
        // The order of the shards does not matter.
        let store =
            config(&url(shards.iter().rev())).require_reachable().connect().await.expect("reachable shards");
        for server in &servers {
            server.call(&["FLUSHALL"]).await;
        }
        for user in &users {
            assert!(take(&store, &limit, user).await.expect("a decision"));
        }
        let now = servers_of(&servers, &users).await;
        for shard in 0..shards.len() {
            let part = now.iter().filter(|home| **home == shard).count();
            assert!(part > 120 / shards.len() / 3, "shard {shard} has {part} of 120");
        }
        for (before, now) in before.iter().zip(&now) {
            assert!(before == now || *now == 3, "from {before} to {now}");
        }
        before = now;
    }
}

#[tokio::test]
async fn a_shard_that_is_down_fails_only_its_own_entities() {
    let mut servers: [Redis; 3] = start().await;
    let store = config(&url(&servers)).require_reachable().connect().await.expect("reachable shards");
    let (limit, users) = (limit("api", 10), users(60));
    for user in &users {
        assert!(take(&store, &limit, user).await.expect("a decision"));
    }
    let homes = servers_of(&servers, &users).await;
    servers[1].kill().await;
    for (user, home) in users.iter().zip(&homes) {
        match take(&store, &limit, user).await {
            Ok(passed) => assert!(passed && *home != 1, "{user}"),
            Err(error) => {
                assert_eq!((*home, error.kind()), (1, ErrorKind::Unavailable), "{user}: {error}");
                assert!(error.to_string().contains(&servers[1].address()), "{error}");
            }
        }
    }
    // All or nothing, although one shard is down.
    let all = each(&limit, &users);
    let idempotent = Request::new(&all).with_idempotency_key(IdempotencyKey::unique());
    for request in [Request::new(&all), idempotent, idempotent] {
        let error = store.decide(request, NOW).await.expect_err("a shard is down");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
        for (user, home) in users.iter().zip(&homes).filter(|(_, home)| **home != 1) {
            assert_eq!(used(&store, &limit, user).await, 2, "{user} on {home}");
        }
    }
    servers[1].start_again().await;
    // After its backoff the shard is used again. What was refunded is debited again.
    let verdict = eventually("the shard", async || store.decide(idempotent, NOW).await.ok()).await;
    assert!(verdict.is_allowed());
    for _ in 0..2 {
        for (user, home) in users.iter().zip(&homes) {
            let all = if *home == 1 { 1 } else { 3 };
            assert_eq!(used(&store, &limit, user).await, all, "{user} on {home}; shard 1 has lost its data");
        }
        assert!(
            store.decide(idempotent, NOW).await.expect("a decision").is_allowed(),
            "repeated, but not executed"
        );
    }
}

#[tokio::test]
async fn a_promoted_replica_of_a_shard_is_used() {
    let [mut a, other] = start().await;
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &a.port().to_string()]).await;
    let linked = async || replica.call(&["INFO", "replication"]).await.field("master_link_status");
    eventually("replication", async || (linked().await.as_deref() == Some("up")).then_some(())).await;
    let url = format!("redis+shards://{}|{},{}", a.address(), replica.address(), other.address());
    let store = config(&url).require_reachable().connect().await.expect("reachable shards");
    let (limit, users) = (limit("api", 10), users(40));
    for user in &users {
        assert!(take(&store, &limit, user).await.expect("a decision"));
    }
    let keys = a.call(&["DBSIZE"]).await;
    eventually("a replica in sync", async || (replica.call(&["DBSIZE"]).await == keys).then_some(())).await;

    a.kill().await;
    let mut failed = 0;
    for user in &users {
        if let Err(error) = take(&store, &limit, user).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            failed += 1;
        }
    }
    assert!((1..40).contains(&failed), "{failed} of 40 entities live on it");
    replica.call(&["REPLICAOF", "NO", "ONE"]).await;
    for user in &users {
        let now = eventually("the replica", async || {
            take(&store, &limit, user).await.ok()?;
            Some(used(&store, &limit, user).await)
        })
        .await;
        assert!(now >= 2, "{user}: the replica has the state of its primary");
    }
}

#[tokio::test]
async fn a_shard_whose_primary_hangs_fails_over_to_its_replica() {
    let [a, b] = start().await;
    let url = format!("redis+shards://{}|{}", a.address(), b.address());
    let store = config(&url).require_reachable().connect().await.expect("reachable shards");
    let limit = limit("api", 10);
    assert!(take(&store, &limit, "user:1").await.expect("a decision"));
    a.freeze().await;
    // One call times out; later calls use the other server.
    let error = take(&store, &limit, "user:1").await.expect_err("it hangs");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    eventually("the other server", async || take(&store, &limit, "user:1").await.ok()).await;
    assert_eq!(used(&store, &limit, "user:1").await, 1, "on the other server");
}
