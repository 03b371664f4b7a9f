//! The slots of keys, script calls per slot, and what happens with the wrong URL or nodes that hang.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Effect, ErrorKind, IdempotencyKey, Key, Request, StoreError};
use tollgate_testkit::{Redis, RedisCluster, Reply};

use crate::frozen_clock::{NOW, config, limit, take, used};
use crate::{decide, each, entities_of_many_slots, entities_of_one_slot, open, shared, slot, url};

/// Returns the number of script calls that the nodes have received.
async fn script_calls(cluster: &RedisCluster) -> u32 {
    let mut sum = 0;
    for server in cluster.servers() {
        let stats = server.call(&["INFO", "commandstats"]).await;
        for command in ["cmdstat_evalsha", "cmdstat_eval"] {
            let calls = stats.field(command).and_then(|stat| {
                stat.split(',').find_map(|part| part.strip_prefix("calls=")?.parse::<u32>().ok())
            });
            sum += calls.unwrap_or(0);
        }
    }
    sum
}

/// Returns the idempotency records on all nodes.
async fn records(cluster: &RedisCluster, name: &str) -> Vec<String> {
    let (mut records, pattern) = (Vec::new(), format!("*{{{name}:*op~*"));
    for server in &cluster.servers()[..3] {
        records.extend(server.call(&["KEYS", &pattern]).await.texts());
    }
    records
}

#[tokio::test]
async fn deltas_of_many_slots_are_forgotten_by_one_pipeline_per_node() {
    let cluster = shared().await;
    let (store, limit, users) =
        (open(cluster).await, limit("api", 100), entities_of_many_slots("forget", 60));
    let keys: Vec<_> = users.iter().map(|user| (Key::from(user), IdempotencyKey::unique())).collect();
    for (user, (_, key)) in users.iter().zip(&keys) {
        let delta = [limit.charge(user).with_action(Action::Debit { at: None })];
        let request = Request::new(&delta).with_idempotency_key(*key);
        store.apply_deltas(request, NOW).await.expect("states");
    }
    assert_eq!(records(cluster, "forget").await.len(), users.len());
    store.forget_idempotency_keys(&keys[1..]).await;
    let left = records(cluster, "forget").await;
    assert!(left.len() == 1 && left[0].contains(&users[0]), "all but the first: {left:?}");
    assert_eq!(store.stats().deletions, 3, "one pipeline per node");
    assert_eq!(store.stats().redirects, 0);
    for user in &users {
        assert_eq!(used(&store, &limit, user).await, 1);
    }
}

#[tokio::test]
async fn a_request_is_one_call_for_any_entity_name_and_a_batch_is_one_call_per_slot() {
    let cluster = RedisCluster::start().await;
    let store = open(&cluster).await;
    let hostile = ["", "{", "}", "{}", "}{", "a}b{c", "{user}", "%", "%7b", "}{}{", "{{}}"];
    let limits = ["a", "b", "{c}", "}d{", "e"].map(|name| limit(name, 100));
    let namespaces: Vec<_> = (0..hostile.len()).map(|index| format!("ns{index}")).collect();
    for round in 0..2 {
        let before = script_calls(&cluster).await;
        for (namespace, entity) in namespaces.iter().zip(hostile) {
            let charges = limits.each_ref().map(|limit| limit.charge(Key::new(namespace, entity)));
            let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
            assert!(store.decide(request, NOW).await.expect("a decision").is_allowed());
        }
        if round == 1 {
            assert_eq!(script_calls(&cluster).await - before, u32::try_from(hostile.len()).expect("few"));
        }
    }
    // The slots as the server reports them.
    let mut slots: BTreeMap<String, Vec<Reply>> = BTreeMap::new();
    for server in &cluster.servers()[..3] {
        for key in server.call(&["KEYS", "*"]).await.texts() {
            let namespace = key.split(':').nth(1).expect("a namespace").to_owned();
            slots.entry(namespace).or_default().push(server.call(&["CLUSTER", "KEYSLOT", &key]).await);
        }
    }
    assert_eq!(slots.len(), hostile.len());
    for (namespace, slots) in slots {
        assert_eq!(slots.len(), limits.len() + 2, "{namespace}: all limits, and two idempotency records");
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{namespace}: {slots:?}");
    }

    // Each entity twice, and two entities in one slot: as many calls as slots.
    let mut users = entities_of_many_slots("batch", 30);
    let (_, more) = entities_of_one_slot(2);
    users.extend(more);
    let charges: Vec<_> = users.iter().map(|user| [limits[0].charge(user)]).collect();
    let runs: Vec<_> =
        charges.iter().chain(&charges).map(|charge| Run::new(Request::new(charge), 1)).collect();
    let distinct: BTreeSet<_> = users.iter().map(|user| slot(user)).collect();
    store.decide_batch(&runs, NOW).await;
    let before = script_calls(&cluster).await;
    let results = store.decide_batch(&runs, NOW).await;
    assert_eq!(script_calls(&cluster).await - before, u32::try_from(distinct.len()).expect("few"));
    assert!(results.iter().all(|result| result.as_ref().is_ok_and(|run| run.passed() == 1)));
    for user in &users {
        assert_eq!(used(&store, &limits[0], user).await, 4);
    }
}

#[tokio::test]
async fn a_wrong_url_scheme_is_refused_with_advice() {
    let cluster = shared().await;
    let store =
        config(&cluster.servers()[0].url()).require_reachable().connect().await.expect("a reachable node");
    let limit = limit("advice", 10);
    let users = entities_of_many_slots("advice", 20);
    let mut refused = 0;
    for user in &users {
        if let Err(error) = take(&store, &limit, user).await {
            assert_advice(&error, "redis+cluster://");
            refused += 1;
        }
    }
    assert!((1..20).contains(&refused), "{refused} of 20 entities live on the other two nodes");
    assert_advice(
        &decide(&store, &each(&limit, &users)).await.expect_err("several slots"),
        "redis+cluster://",
    );

    // And vice versa.
    let single = Redis::start(&[]).await;
    let error = config(&format!("redis+cluster://{}", single.address())).require_reachable().connect().await;
    assert_advice(&error.expect_err("not a cluster"), "redis://");
}

fn assert_advice(error: &StoreError, use_instead: &str) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
    assert!(error.to_string().contains(&format!("use {use_instead}")), "{error}");
}

#[tokio::test]
async fn a_node_that_hangs_does_not_prevent_reading_the_slot_map() {
    let cluster = RedisCluster::start().await;
    for replica in &cluster.servers()[3..] {
        replica.freeze().await;
    }
    let limit = limit("hangs", 10);
    // Half of the seeds hang, in whichever order they are queried.
    for _ in 0..8 {
        let store = open(&cluster).await;
        take(&store, &limit, "user:1").await.expect("a decision");
    }
}

#[tokio::test]
async fn the_longest_timeouts_are_valid() {
    let config = config(&url(shared().await)).connect_timeout(Duration::MAX).call_timeout(Duration::MAX);
    let store = config.require_reachable().connect().await.expect("a reachable cluster");
    take(&store, &limit("longest", 10), "user:1").await.expect("a decision");
}
