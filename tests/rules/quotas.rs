//! Descriptors in quota mode: a request is denied if all of them are exhausted.

use std::sync::Arc;

use tollgate::memory::MemoryStore;
use tollgate::store::ImmediateStore;
use tollgate::{Decision, ErrorKind, Limiter, ManualClock, Source};

use crate::Bench;
use crate::failing::Failing;

const TENANT: (&str, &str) = ("tenant", "acme");
const PROJECT: (&str, &str) = ("project", "rocket");
const STAFF: (&str, &str) = ("staff", "ann");
const BETA: (&str, &str) = ("beta", "x");
const ADDRESS: (&str, &str) = ("remote_address", "192.0.2.1");

fn bench() -> Bench {
    Bench::new("edge.yaml", include_str!("edge.yaml"))
}

#[tokio::test]
async fn one_quota_denies_like_any_other_limit() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(20, &[[TENANT]]).await, 3);
    let denied = bench.admit_descriptors(&[[TENANT]]).await;
    assert_eq!(denied.verdict().decisions()[0].source(), Source::Store);
}

#[tokio::test]
async fn several_quotas_deny_together() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(20, &[[TENANT], [PROJECT]]).await, 5);
    assert_eq!(bench.count_descriptors(20, &[[TENANT]]).await, 0);
    assert_eq!(bench.count_descriptors(20, &[[PROJECT]]).await, 0);
    // A quota of another project is not exhausted.
    assert_eq!(bench.count_descriptors(20, &[[TENANT], [("project", "other")]]).await, 5);
}

#[tokio::test]
async fn exhausted_quotas_charge_nothing_else() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS], [TENANT], [PROJECT]]).await, 5);
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS]]).await, 5, "the denied ones are refunded");
}

#[tokio::test]
async fn exhausted_quotas_leave_nothing_in_shadow_mode() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(50, &[[TENANT], [PROJECT]]).await, 5);
    assert_eq!(bench.count_descriptors(50, &[[BETA], [TENANT], [PROJECT]]).await, 0);
    let next = bench.admit_descriptors(&[[BETA]]).await;
    assert!(next.shadowed().iter().flatten().all(|decision| !decision.is_shadowed()), "{next:?}");
}

#[tokio::test]
async fn exhausted_quotas_hold_no_slot() {
    let rules = "
rules:
  - { name: calls, per: remote_address, concurrent: 1 }
  - { name: planned, per: remote_address, concurrent: 1, shadow: true }
";
    let bench = Bench::new("edge.yaml", &(include_str!("edge.yaml").to_owned() + rules));
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS], [TENANT], [PROJECT]]).await, 5);
    let running = bench.admit_descriptors(&[[ADDRESS]]).await;
    assert!(running.is_allowed() && running.permits().len() == 2, "{running:?}");
    assert!(bench.admit_descriptors(&[[ADDRESS]]).await.is_denied());
    drop(running);
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS]]).await, 4);
}

#[tokio::test]
async fn another_limit_that_denies_charges_no_quota() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS]]).await, 10);
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS], [TENANT], [PROJECT]]).await, 0);
    assert_eq!(bench.count_descriptors(50, &[[TENANT], [PROJECT]]).await, 5);
}

#[tokio::test]
async fn an_unlimited_quota_is_never_exhausted() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(50, &[[TENANT], [STAFF]]).await, 50);
    assert_eq!(bench.count_descriptors(50, &[[TENANT]]).await, 0, "it is counted");
    assert_eq!(bench.count_descriptors(50, &[[TENANT], [PROJECT], [STAFF]]).await, 50);
    assert_eq!(bench.count_descriptors(50, &[[ADDRESS], [TENANT], [PROJECT], [STAFF]]).await, 10);
}

#[tokio::test]
async fn quotas_that_the_store_fails_to_decide_are_an_error() {
    let (bench, store) = (bench(), Failing::default());
    let limiter = Arc::new(Limiter::with_clock(store.clone(), ManualClock::default()));
    store.fail(true);
    for descriptors in [&[[TENANT]][..], &[[TENANT], [PROJECT]], &[[ADDRESS], [TENANT], [PROJECT]]] {
        let admitted = bench.domain().match_descriptors(descriptors).admit(&limiter).await;
        assert_eq!(admitted.map(|_| ()).expect_err("no decision").kind(), ErrorKind::Unavailable);
    }
    let shadowed = bench.domain().match_descriptors(&[[BETA]]).admit(&limiter).await;
    assert!(shadowed.expect("shadow mode never denies").is_allowed());
    store.fail(false);
    let admitted = bench.domain().match_descriptors(&[[TENANT], [PROJECT]]).admit(&limiter).await;
    assert!(admitted.expect("decided").is_allowed());
}

#[tokio::test]
async fn a_quota_that_is_decided_and_not_exhausted_is_enough() {
    let (bench, store) = (bench(), Failing::default());
    let limiter = Arc::new(Limiter::with_clock(store.clone(), ManualClock::default()));
    let matched = bench.domain().match_descriptors(&[[ADDRESS], [TENANT], [PROJECT]]);
    let address = matched.charges()[0].with_cost(0);
    let remaining = |store: &MemoryStore| store.charge_now(&address, limiter.clock()).remaining();
    store.fail_on("tenant");
    for _ in 0..5 {
        assert!(matched.admit(&limiter).await.expect("the other quota").is_allowed());
    }
    assert_eq!(remaining(store.memory()), 5);
    let unknown = matched.admit(&limiter).await.map(|_| ());
    assert_eq!(unknown.expect_err("one is exhausted, one unknown").kind(), ErrorKind::Unavailable);
    assert_eq!(remaining(store.memory()), 5, "refunded");
    let counted = matched.charges().iter().any(|charge| {
        let decision: Decision = store.memory().charge_now(&charge.with_cost(0), limiter.clock());
        decision.remaining() == 3
    });
    assert!(counted, "the quota that failed was not charged");
}
