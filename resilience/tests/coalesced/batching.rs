//! What is batched, in which order, and what is merged.

use tollgate_core::store::Store;
use tollgate_core::{Action, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError};

use crate::scripted::{Fixture, NOW, at, done, run_all_tasks, soon};

fn limit(count: u32) -> Limit {
    Limit::per_hour(count).build("api").expect("valid")
}

/// Checks these keys and costs while a call is held. Returns their decisions.
async fn check_while_held(fixture: &Fixture, limit: &Limit, checks: &[(&str, u32)]) -> Vec<Decision> {
    let first = fixture.check(limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for (key, cost) in checks {
        tasks.push(fixture.check(limit, (*key).into(), *cost).await);
    }
    assert_eq!(fixture.calls(), [["direct first:1"]], "later requests wait");
    fixture.release(0);
    assert!(done(first).await.expect("a decision").is_allowed());
    let mut decisions = Vec::new();
    for task in tasks {
        decisions.push(done(task).await.expect("a decision"));
    }
    decisions
}

#[tokio::test]
async fn any_number_of_equal_checks_are_two_calls() {
    let (fixture, limit) = (Fixture::holding([0]), limit(60));
    let decisions = check_while_held(&fixture, &limit, &[("a", 1); 99]).await;
    assert_eq!(fixture.calls(), [["direct first:1"], ["99×a:1"]]);
    let passed: Vec<_> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(passed, [[true; 60].as_slice(), &[false; 39]].concat(), "first come, first served");
    assert_eq!((decisions[0].remaining(), decisions[59].remaining()), (59, 0), "to each its own decision");
}

#[tokio::test]
async fn no_request_waits_while_no_call_is_in_flight() {
    let (fixture, limit) = (Fixture::holding([]), limit(60));
    for _ in 0..3 {
        let decision = soon(fixture.store.decide_one(&limit.charge("a"), &NOW)).await;
        assert!(decision.expect("a decision").is_allowed());
    }
    assert_eq!(fixture.calls(), [["direct a:1"], ["direct a:1"], ["direct a:1"]]);
}

#[tokio::test]
async fn several_calls_can_be_in_flight() {
    let fixture = Fixture::configured([0, 1], |builder| builder.max_in_flight(2));
    let limit = limit(60);
    let mut tasks = Vec::new();
    for key in ["a", "b", "c", "d"] {
        tasks.push(fixture.check(&limit, key.into(), 1).await);
    }
    assert_eq!(fixture.calls(), [["direct a:1"], ["direct b:1"]]);
    fixture.release(1);
    run_all_tasks().await;
    assert_eq!(fixture.calls()[2..], [["1×c:1", "1×d:1"]]);
    fixture.release(0);
    for task in tasks {
        assert!(done(task).await.expect("a decision").is_allowed());
    }
}

#[tokio::test]
async fn requests_are_decided_in_the_order_of_arrival() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let decisions =
        check_while_held(&fixture, &limit, &[("a", 3), ("a", 4), ("a", 3), ("a", 4), ("a", 3)]).await;
    assert_eq!(fixture.calls()[1], ["1×a:3", "1×a:4", "1×a:3", "1×a:4", "1×a:3"]);
    let granted: Vec<_> = decisions.iter().map(Decision::granted).collect();
    assert_eq!(granted, [3, 4, 3, 0, 0]);
}

#[tokio::test]
async fn equal_checks_merge_across_checks_of_other_keys() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let checks = [("a", 1), ("b", 1), ("a", 1), ("b", 2), ("b", 1), ("a", 1), ("b", 1)];
    let decisions = check_while_held(&fixture, &limit, &checks).await;
    assert_eq!(fixture.calls()[1], ["3×a:1", "1×b:1", "1×b:2", "2×b:1"]);
    let remaining: Vec<_> = decisions.iter().map(Decision::remaining).collect();
    assert_eq!(remaining, [9, 9, 8, 7, 6, 7, 5], "as without merging");
}

#[tokio::test]
async fn requests_of_several_charges_merge_only_if_none_came_between() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let first = fixture.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    let both = ["a", "b"];
    for keys in [both, both, ["a", "c"], both, ["d", "e"], both, ["f", "b"], both, ["b", "a"]] {
        let (store, limit) = (fixture.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            store.decide(Request::new(&keys.map(|key| limit.charge(key))), NOW).await
        }));
        run_all_tasks().await;
    }
    fixture.release(0);
    let mut remaining = Vec::new();
    for task in tasks {
        let verdict = done(task).await.expect("a decision");
        remaining.push(verdict.decisions()[0].remaining());
    }
    let runs = ["2×a:1+b:1", "1×a:1+c:1", "2×a:1+b:1", "1×d:1+e:1", "1×f:1+b:1", "1×a:1+b:1", "1×b:1+a:1"];
    assert_eq!(fixture.calls()[1], runs);
    assert_eq!(remaining, [9, 8, 7, 6, 9, 5, 9, 4, 3]);
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn requests_with_idempotency_keys_are_not_merged_and_executed_once() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let first = fixture.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for key in [1, 1, 2] {
        let (store, limit) = (fixture.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            let request = [limit.charge("a").with_cost(4)];
            store.decide(Request::new(&request).with_idempotency_key(IdempotencyKey::new(key)), NOW).await
        }));
        run_all_tasks().await;
    }
    fixture.release(0);
    for task in tasks {
        assert!(done(task).await.expect("a decision").is_allowed());
    }
    assert_eq!(fixture.calls()[1], ["1×a:4", "1×a:4", "1×a:4"]);
    assert_eq!(fixture.remaining(&limit, "a").await, 2, "two keys, one of them repeated");
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn routes_do_not_wait_for_each_other() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let held = fixture.check(&limit, Key::new("", "a"), 1).await;
    let waiting = fixture.check(&limit, Key::new("", "b"), 1).await;
    let other = fixture.check(&limit, Key::new("other", "a"), 1).await;
    assert!(done(other).await.expect("a decision").is_allowed());
    assert!(!held.is_finished() && !waiting.is_finished());
    let across = [limit.charge(Key::new("", "c")), limit.charge(Key::new("other", "c"))];
    assert!(soon(fixture.store.decide(Request::new(&across), NOW)).await.expect("a decision").is_allowed());
    assert!(soon(fixture.store.decide(Request::new(&[]), NOW)).await.expect("a decision").is_allowed());
    assert_eq!(fixture.calls(), [["direct a:1"], ["direct a:1"], ["direct c:1+c:1"], ["direct "]]);
    fixture.release(0);
    assert!(done(held).await.is_ok() && done(waiting).await.is_ok());
}

#[tokio::test]
async fn a_batch_is_decided_at_the_latest_time() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let first = fixture.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for nanos in [5, 900, 40] {
        let (store, limit) = (fixture.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            let now = tollgate_core::Clock::now(&at(nanos));
            store.decide(Request::new(&[limit.charge("a")]), now).await
        }));
        run_all_tasks().await;
    }
    fixture.release(0);
    for task in tasks {
        let verdict = done(task).await.expect("a decision");
        assert_eq!(verdict.decided_at().nanos(), NOW.nanos() + 900);
    }
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn unsupported_requests_do_not_wait() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10));
    let first = fixture.check(&limit, "first".into(), 1).await;
    let charge = limit.charge("a").with_action(Action::Renew);
    let unsupported =
        |error: Option<StoreError>| error.is_some_and(|error| error.kind() == ErrorKind::Unsupported);
    assert!(unsupported(soon(fixture.store.decide_one(&charge, &NOW)).await.err()));
    assert!(unsupported(soon(fixture.store.decide(Request::new(&[charge]), NOW)).await.err()));
    fixture.release(0);
    assert!(done(first).await.is_ok());
    assert_eq!(fixture.calls(), [["direct first:1"]]);
}

#[tokio::test]
async fn requests_beyond_the_batch_size_are_in_the_next_batch() {
    let (fixture, limit) = (Fixture::holding([0]), limit(10_000));
    let decisions = check_while_held(&fixture, &limit, &vec![("a", 1); 300]).await;
    assert_eq!(fixture.calls(), [["direct first:1"], ["256×a:1"], ["44×a:1"]]);
    assert!(decisions.iter().all(Decision::is_allowed));
    assert_eq!(fixture.remaining(&limit, "a").await, 9_700);
}
