//! Requests over several entities are all or nothing.

use tokio::task::JoinSet;
use tollgate_core::store::Store;
use tollgate_core::{Action, Charge, Decision, IdempotencyKey, Limit, Request};
use tollgate_store_redis::RedisStore;

use crate::frozen_clock::{NOW, limit, used};
use crate::{decide, each, entities_of_many_slots, open, shared};
use tollgate_testkit::eventually;

#[tokio::test]
async fn a_denial_by_one_entity_refunds_the_other_nine() {
    let store = open(shared().await).await;
    let users = entities_of_many_slots("nine", 10);
    let narrow = limit("narrow", 20);
    let log = Limit::per_hour(20).sliding_log().build("log").expect("valid");
    for limit in [&narrow, &log] {
        let all = each(limit, &users);
        for _ in 0..5 {
            assert!(decide(&store, &all).await.expect("a decision").is_allowed());
        }
        let last = [limit.charge(&users[9]).with_cost(15)];
        assert!(decide(&store, &last).await.expect("a decision").is_allowed());
        let peeks: Vec<_> = all.iter().map(|charge| charge.with_cost(0)).collect();
        let before = peek(&store, &peeks).await;
        let key = IdempotencyKey::unique();
        for request in [
            Request::new(&all),
            Request::new(&all).with_idempotency_key(key),
            Request::new(&all).with_idempotency_key(key),
        ] {
            let denied = store.decide(request, NOW).await.expect("a decision");
            assert!(denied.is_denied());
            assert_eq!(denied.most_restrictive_index(), Some(9));
            assert_eq!(peek(&store, &peeks).await, before, "{}", limit.name());
        }
        // The same key again, with room: the result matches what is debited.
        let reset = [limit.charge(&users[9]).with_action(Action::Reset)];
        assert!(decide(&store, &reset).await.expect("a decision").is_allowed());
        let verdict =
            store.decide(Request::new(&all).with_idempotency_key(key), NOW).await.expect("a decision");
        let more = u32::from(verdict.is_allowed());
        for (index, user) in users.iter().enumerate() {
            let before = if index == 9 { 0 } else { 5 };
            assert_eq!(used(&store, limit, user).await, before + more, "{}", limit.name());
        }
    }
}

async fn peek(store: &RedisStore, peeks: &[Charge<'_>]) -> Vec<Decision> {
    let mut all = Vec::new();
    for charge in peeks {
        all.push(store.decide_one(charge, &NOW).await.expect("a decision"));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_over_many_entities_never_exceed_a_limit() {
    const LIMIT: u32 = 60;
    let store = open(shared().await).await;
    let users = entities_of_many_slots("crowd", 10);
    let limit = limit("crowd", LIMIT);
    let mut callers = JoinSet::new();
    for caller in 0..16_usize {
        let (store, users, limit) = (store.clone(), users.clone(), limit.clone());
        callers.spawn(async move {
            let mut passed = vec![0_u32; users.len()];
            for round in 0..40_usize {
                let chosen: Vec<_> =
                    (0..4).map(|index| (caller + round * 3 + index * (round % 2 + 1)) % 10).collect();
                let charges: Vec<_> = chosen.iter().map(|index| limit.charge(&users[*index])).collect();
                if decide(&store, &charges).await.expect("a decision").is_allowed() {
                    for index in chosen {
                        passed[index] += 1;
                    }
                }
            }
            passed
        });
    }
    let all = callers.join_all().await;
    for (index, user) in users.iter().enumerate() {
        let passed: u32 = all.iter().map(|passed| passed[index]).sum();
        assert!(passed <= LIMIT, "{user}: {passed}");
        assert!(passed > LIMIT / 4, "{user}: {passed} of a demand of 256");
        assert_eq!(used(&store, &limit, user).await, passed, "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_leaves_no_partial_debit() {
    const ROUNDS: u32 = 600;
    const NARROW: u32 = 40;
    let store = open(shared().await).await;
    let users = entities_of_many_slots("dropped", 6);
    let (wide, narrow) = (limit("wide", 100_000), limit("narrow", NARROW));
    let (mut ended, mut dropped) = (0, 0);
    for round in 0..ROUNDS {
        let task = tokio::spawn({
            let (store, users, wide, narrow) = (store.clone(), users.clone(), wide.clone(), narrow.clone());
            async move {
                let mut charges = each(&wide, &users[1..]);
                charges.push(narrow.charge(&users[0]));
                decide(&store, &charges).await.expect("a decision").is_allowed()
            }
        });
        // At any point, from before it starts until after it has ended.
        for _ in 0..round * 37 % 4_000 {
            tokio::task::yield_now().await;
        }
        task.abort();
        match task.await {
            Ok(passed) => ended += u32::from(passed),
            Err(_) => dropped += 1,
        }
    }
    assert!(dropped > 0, "no future was dropped");
    eventually("all refunds", async || {
        let whole = used(&store, &narrow, &users[0]).await;
        assert!(
            whole == NARROW && whole >= ended,
            "{whole} used, {ended} completed: the others must be refunded"
        );
        for user in &users[1..] {
            if used(&store, &wide, user).await != whole {
                return None;
            }
        }
        Some(())
    })
    .await;
}
