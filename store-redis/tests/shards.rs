//! Client-side shards on real servers, of which some are down.

mod patience;
mod spending;

use patience::eventually;
use spending::{NOW, config, limit, spent, take};
use tollgate_core::store::Store;
use tollgate_core::{Charge, Effect, ErrorKind, IdempotencyKey, Limit, Request};
use tollgate_testkit::Redis;

async fn start<const N: usize>() -> [Redis; N] {
    let mut servers = Vec::new();
    for _ in 0..N {
        servers.push(Redis::start(&[]).await);
    }
    servers.try_into().expect("as many")
}

fn url<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> String {
    let all: Vec<_> = servers.into_iter().map(Redis::address).collect();
    format!("redis+shards://{}", all.join(","))
}

fn users(count: usize) -> Vec<String> {
    (0..count).map(|user| format!("user:{user}")).collect()
}

/// One of each, or nothing.
fn each<'a>(limit: &'a Limit, entities: &'a [String]) -> Vec<Charge<'a>> {
    entities.iter().map(|entity| limit.charge(entity)).collect()
}

/// On which server each of them is.
async fn places(servers: &[Redis], users: &[String]) -> Vec<usize> {
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
async fn a_new_shard_moves_only_what_it_gains() {
    let servers: [Redis; 4] = start().await;
    let (limit, users) = (limit("api", 10), users(120));
    let mut before = Vec::new();
    for shards in [&servers[..3], &servers[..]] {
        // In another order: their names count.
        let store = config(&url(shards.iter().rev())).must_be_there().connect().await.expect("shards");
        for server in &servers {
            server.call(&["FLUSHALL"]).await;
        }
        for user in &users {
            assert!(take(&store, &limit, user).await.expect("an answer"));
        }
        let now = places(&servers, &users).await;
        for shard in 0..shards.len() {
            let part = now.iter().filter(|place| **place == shard).count();
            assert!(part > 120 / shards.len() / 3, "shard {shard} has {part} of 120");
        }
        for (before, now) in before.iter().zip(&now) {
            assert!(before == now || *now == 3, "from {before} to {now}");
        }
        before = now;
    }
}

#[tokio::test]
async fn a_shard_that_is_down_fails_its_own_entities_only() {
    let mut servers: [Redis; 3] = start().await;
    let store = config(&url(&servers)).must_be_there().connect().await.expect("shards");
    let (limit, users) = (limit("api", 10), users(60));
    for user in &users {
        assert!(take(&store, &limit, user).await.expect("an answer"));
    }
    let places = places(&servers, &users).await;
    servers[1].kill().await;
    for (user, place) in users.iter().zip(&places) {
        match take(&store, &limit, user).await {
            Ok(passed) => assert!(passed && *place != 1, "{user}"),
            Err(error) => {
                assert_eq!((*place, error.kind()), (1, ErrorKind::Unavailable), "{user}: {error}");
                assert!(error.to_string().contains(&servers[1].address()), "{error}");
            }
        }
    }
    // All or nothing, although a part of it cannot be asked.
    let all = each(&limit, &users);
    let named = Request::new(&all).with_idempotency_key(IdempotencyKey::unique());
    for request in [Request::new(&all), named, named] {
        let error = store.decide(request, NOW).await.expect_err("a part is down");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
        for (user, place) in users.iter().zip(&places).filter(|(_, place)| **place != 1) {
            assert_eq!(spent(&store, &limit, user).await, 2, "{user} on {place}");
        }
    }
    servers[1].start_again().await;
    // It is left alone for a moment after it could not be reached. What was given back is not taken for granted.
    let told = eventually("the shard", async || store.decide(named, NOW).await.ok()).await;
    assert!(told.is_allowed());
    for _ in 0..2 {
        for (user, place) in users.iter().zip(&places) {
            let all = if *place == 1 { 1 } else { 3 };
            assert_eq!(
                spent(&store, &limit, user).await,
                all,
                "{user} on {place}; the memory of 1 was empty"
            );
        }
        assert!(store.decide(named, NOW).await.expect("an answer").is_allowed(), "again, but not executed");
    }
}

#[tokio::test]
async fn the_replica_of_a_shard_takes_over_when_it_is_promoted() {
    let [mut a, other] = start().await;
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &a.port().to_string()]).await;
    let linked = async || replica.call(&["INFO", "replication"]).await.field("master_link_status");
    eventually("a replica", async || (linked().await.as_deref() == Some("up")).then_some(())).await;
    let url = format!("redis+shards://{}|{},{}", a.address(), replica.address(), other.address());
    let store = config(&url).must_be_there().connect().await.expect("shards");
    let (limit, users) = (limit("api", 10), users(40));
    for user in &users {
        assert!(take(&store, &limit, user).await.expect("an answer"));
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
    assert!((1..40).contains(&failed), "{failed} of 40 live on it");
    replica.call(&["REPLICAOF", "NO", "ONE"]).await;
    for user in &users {
        let now = eventually("the replica", async || {
            take(&store, &limit, user).await.ok()?;
            Some(spent(&store, &limit, user).await)
        })
        .await;
        assert!(now >= 2, "{user}: it knows what its primary knew");
    }
}

#[tokio::test]
async fn a_shard_whose_primary_hangs_is_followed_to_its_replica() {
    let [a, b] = start().await;
    let url = format!("redis+shards://{}|{}", a.address(), b.address());
    let store = config(&url).must_be_there().connect().await.expect("shards");
    let limit = limit("api", 10);
    assert!(take(&store, &limit, "anybody").await.expect("an answer"));
    a.freeze().await;
    // Its own silence is one call's error; the next knows better.
    let error = take(&store, &limit, "anybody").await.expect_err("it hangs");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    eventually("the other one", async || take(&store, &limit, "anybody").await.ok()).await;
    assert_eq!(spent(&store, &limit, "anybody").await, 1, "of the other one");
}
