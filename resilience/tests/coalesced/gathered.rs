//! What goes together, in which order, and as one.

use tollgate_core::store::Store;
use tollgate_core::{Action, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError};

use crate::scripted::{NOW, Stand, at, done, everybody_moves, left, soon};

fn limit(count: u32) -> Limit {
    Limit::per_hour(count).build("api").expect("valid")
}

/// Checks of these keys and costs, behind one of another key that is held; all answered.
async fn behind_one(stand: &Stand, limit: &Limit, checks: &[(&str, u32)]) -> Vec<Decision> {
    let first = stand.check(limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for (key, cost) in checks {
        tasks.push(stand.check(limit, (*key).into(), *cost).await);
    }
    assert_eq!(stand.calls(), [["alone first:1"]], "those who come later wait");
    stand.let_go(0);
    assert!(done(first).await.expect("an answer").is_allowed());
    let mut told = Vec::new();
    for task in tasks {
        told.push(done(task).await.expect("an answer"));
    }
    told
}

#[tokio::test]
async fn equal_checks_are_two_calls_however_many() {
    let (stand, limit) = (Stand::holding([0]), limit(60));
    let told = behind_one(&stand, &limit, &[("a", 1); 99]).await;
    assert_eq!(stand.calls(), [["alone first:1"], ["99×a:1"]]);
    let passed: Vec<_> = told.iter().map(Decision::is_allowed).collect();
    assert_eq!(passed, [[true; 60].as_slice(), &[false; 39]].concat(), "first come, first served");
    assert_eq!((told[0].remaining(), told[59].remaining()), (59, 0), "to each its own answer");
}

#[tokio::test]
async fn nobody_waits_where_no_call_is_under_way() {
    let (stand, limit) = (Stand::holding([]), limit(60));
    for _ in 0..3 {
        let told = soon(stand.store.decide_one(&limit.charge("a"), &NOW)).await;
        assert!(told.expect("an answer").is_allowed());
    }
    assert_eq!(stand.calls(), [["alone a:1"], ["alone a:1"], ["alone a:1"]]);
}

#[tokio::test]
async fn several_calls_may_be_under_way() {
    let (stand, limit) = (Stand::holding([0, 1]), limit(60));
    let stand = Stand { store: stand.store.clone().in_flight(2), ..stand };
    let mut tasks = Vec::new();
    for key in ["a", "b", "c", "d"] {
        tasks.push(stand.check(&limit, key.into(), 1).await);
    }
    assert_eq!(stand.calls(), [["alone a:1"], ["alone b:1"]]);
    stand.let_go(1);
    everybody_moves().await;
    assert_eq!(stand.calls()[2..], [["1×c:1", "1×d:1"]]);
    stand.let_go(0);
    for task in tasks {
        assert!(done(task).await.expect("an answer").is_allowed());
    }
}

#[tokio::test]
async fn the_order_of_arrival_is_kept() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let told = behind_one(&stand, &limit, &[("a", 3), ("a", 4), ("a", 3), ("a", 4), ("a", 3)]).await;
    assert_eq!(stand.calls()[1], ["1×a:3", "1×a:4", "1×a:3", "1×a:4", "1×a:3"]);
    let granted: Vec<_> = told.iter().map(Decision::granted).collect();
    assert_eq!(granted, [3, 4, 3, 0, 0]);
}

#[tokio::test]
async fn equals_merge_around_others_that_do_not_touch_them() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let checks = [("a", 1), ("b", 1), ("a", 1), ("b", 2), ("b", 1), ("a", 1), ("b", 1)];
    let told = behind_one(&stand, &limit, &checks).await;
    assert_eq!(stand.calls()[1], ["3×a:1", "1×b:1", "1×b:2", "2×b:1"]);
    let remaining: Vec<_> = told.iter().map(Decision::remaining).collect();
    assert_eq!(remaining, [9, 9, 8, 7, 6, 7, 5], "as if each had come alone");
}

#[tokio::test]
async fn requests_of_several_charges_merge_only_if_nobody_came_between() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let first = stand.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    let both = ["a", "b"];
    for keys in [both, both, ["a", "c"], both, ["d", "e"], both, ["f", "b"], both, ["b", "a"]] {
        let (store, limit) = (stand.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            store.decide(Request::new(&keys.map(|key| limit.charge(key))), NOW).await
        }));
        everybody_moves().await;
    }
    stand.let_go(0);
    let mut remaining = Vec::new();
    for task in tasks {
        let verdict = done(task).await.expect("an answer");
        remaining.push(verdict.decisions()[0].remaining());
    }
    let runs = ["2×a:1+b:1", "1×a:1+c:1", "2×a:1+b:1", "1×d:1+e:1", "1×f:1+b:1", "1×a:1+b:1", "1×b:1+a:1"];
    assert_eq!(stand.calls()[1], runs);
    assert_eq!(remaining, [9, 8, 7, 6, 9, 5, 9, 4, 3]);
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn named_operations_do_not_merge_and_are_executed_once() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let first = stand.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for id in [1, 1, 2] {
        let (store, limit) = (stand.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            let request = [limit.charge("a").with_cost(4)];
            store.decide(Request::new(&request).with_idempotency_key(IdempotencyKey::new(id)), NOW).await
        }));
        everybody_moves().await;
    }
    stand.let_go(0);
    for task in tasks {
        assert!(done(task).await.expect("an answer").is_allowed());
    }
    assert_eq!(stand.calls()[1], ["1×a:4", "1×a:4", "1×a:4"]);
    assert_eq!(left(&stand, &limit, "a").await, 2, "two operations, one of them told twice");
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn lanes_do_not_wait_for_each_other() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let held = stand.check(&limit, Key::new("", "a"), 1).await;
    let waits = stand.check(&limit, Key::new("", "b"), 1).await;
    let other = stand.check(&limit, Key::new("other", "a"), 1).await;
    assert!(done(other).await.expect("an answer").is_allowed());
    assert!(!held.is_finished() && !waits.is_finished());
    let across = [limit.charge(Key::new("", "c")), limit.charge(Key::new("other", "c"))];
    assert!(soon(stand.store.decide(Request::new(&across), NOW)).await.expect("an answer").is_allowed());
    assert!(soon(stand.store.decide(Request::new(&[]), NOW)).await.expect("an answer").is_allowed());
    assert_eq!(stand.calls(), [["alone a:1"], ["alone a:1"], ["alone c:1+c:1"], ["alone "]]);
    stand.let_go(0);
    assert!(done(held).await.is_ok() && done(waits).await.is_ok());
}

#[tokio::test]
async fn those_who_go_together_are_decided_as_of_the_latest_time() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let first = stand.check(&limit, "first".into(), 1).await;
    let mut tasks = Vec::new();
    for nanos in [5, 900, 40] {
        let (store, limit) = (stand.store.clone(), limit.clone());
        tasks.push(tokio::spawn(async move {
            let now = tollgate_core::Clock::now(&at(nanos));
            store.decide(Request::new(&[limit.charge("a")]), now).await
        }));
        everybody_moves().await;
    }
    stand.let_go(0);
    for task in tasks {
        let verdict = done(task).await.expect("an answer");
        assert_eq!(verdict.decided_at().nanos(), NOW.nanos() + 900);
    }
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_decided_is_refused_before_it_gathers() {
    let (stand, limit) = (Stand::holding([0]), limit(10));
    let first = stand.check(&limit, "first".into(), 1).await;
    let charge = limit.charge("a").with_action(Action::Renew);
    let refused = |told: Option<StoreError>| told.is_some_and(|told| told.kind() == ErrorKind::Unsupported);
    assert!(refused(soon(stand.store.decide_one(&charge, &NOW)).await.err()));
    assert!(refused(soon(stand.store.decide(Request::new(&[charge]), NOW)).await.err()));
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    assert_eq!(stand.calls(), [["alone first:1"]]);
}

#[tokio::test]
async fn what_does_not_fit_into_a_batch_goes_with_the_next() {
    let (stand, limit) = (Stand::holding([0]), limit(10_000));
    let told = behind_one(&stand, &limit, &vec![("a", 1); 300]).await;
    assert_eq!(stand.calls(), [["alone first:1"], ["256×a:1"], ["44×a:1"]]);
    assert!(told.iter().all(Decision::is_allowed));
    assert_eq!(left(&stand, &limit, "a").await, 9_700);
}
