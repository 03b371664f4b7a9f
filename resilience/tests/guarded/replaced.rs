//! Failure policies that are replaced at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, Decision, ErrorKind, Limit, Request, Source};
use tollgate_resilience::{FallbackStore, OnFailure, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Fault, Fixture};

const NONE: [(&str, OnFailure); 0] = [];

fn limit(name: &str) -> Limit {
    Limit::per_second(10).build(name).expect("valid")
}

/// A fixture whose store fails. The limit `closed` is denied, by the builder.
async fn failing() -> Fixture {
    let closed = limit("closed");
    let fixture = Fixture::new(|builder| builder.on_failure_of(&closed, OnFailure::Deny));
    fixture.open_breaker(&closed).await;
    fixture
}

#[tokio::test]
async fn the_next_call_is_decided_by_the_new_policies() {
    let fixture = failing().await;
    let policies = fixture.guarded.failure_policies().clone();
    let allowed = async |name: &str| fixture.check(&limit(name), "a").await.is_allowed();
    assert!(allowed("api").await && !allowed("closed").await);

    policies.replace([("api", OnFailure::Deny), ("login", OnFailure::Deny)]).expect("valid");
    assert!(!allowed("api").await && !allowed("login").await);
    assert!(allowed("other").await, "the default of the builder");
    assert!(!allowed("closed").await, "the policy of the builder");
    assert!(matches!(policies.of("api"), OnFailure::Deny));
    assert!(matches!(fixture.guarded.failure_policies().of("other"), OnFailure::Allow));
    assert!(format!("{policies:?}").contains("login"));

    policies.replace([("closed".to_owned(), OnFailure::Allow)]).expect("valid");
    assert!(allowed("api").await && allowed("login").await, "not among the new policies");
    assert!(allowed("closed").await, "replaced");

    policies.replace(NONE).expect("valid");
    assert!(!allowed("closed").await, "the policy of the builder again");
}

#[tokio::test]
async fn a_new_share_applies_at_once_and_the_fallback_store_keeps_its_counts() {
    let (fixture, api, store) = (failing().await, limit("api"), Arc::new(MemoryStore::new()));
    let policies = fixture.guarded.failure_policies();
    let share = |count| FallbackStore::new(Arc::clone(&store), Share::one_of(count));
    policies.replace([("api", share(2).into())]).expect("valid");
    let decision = fixture.charge(api.charge("a").with_cost(5)).await.expect("a decision");
    assert_eq!((decision.is_allowed(), decision.limit(), decision.source()), (true, 5, Source::Fallback));
    policies.replace([("api", share(5).into())]).expect("valid");
    let decision = fixture.check(&api, "b").await;
    assert_eq!((decision.is_allowed(), decision.limit()), (true, 2));
    policies.replace([("api", share(2).into())]).expect("valid");
    assert!(fixture.check(&api, "a").await.is_denied(), "the share is used up");
}

#[tokio::test]
async fn invalid_policies_are_refused_and_change_nothing() {
    let fixture = failing().await;
    let policies = fixture.guarded.failure_policies();
    policies.replace([("api", OnFailure::Deny)]).expect("valid");
    let nobody = FallbackStore::new(MemoryStore::new(), Share::one_of(0));
    for (refused, message) in [
        (
            policies.replace([("login", OnFailure::Deny), ("api", nobody.into())]),
            "`FailurePolicies`: `replace` has a share of one of 0 processes, for the limit `api`; use `Share::one_of` \
             with the number of processes, at least 1",
        ),
        (
            policies.replace([("api", OnFailure::AllowFor(Duration::ZERO))]),
            "`FailurePolicies`: `replace` allows for 0 s, which is to deny, for the limit `api`; use \
             `OnFailure::Deny`, or a time such as 30 s",
        ),
        (
            policies.replace([("api", OnFailure::Allow), ("api", OnFailure::Allow)]),
            "`FailurePolicies`: `replace` has two policies of the limit `api`; use one policy for all limits of a name",
        ),
    ] {
        assert_eq!(refused.expect_err("invalid").to_string(), message);
        assert!(fixture.check(&limit("api"), "a").await.is_denied());
        assert!(fixture.check(&limit("login"), "a").await.is_allowed());
    }
}

/// Both limits always have the same policy, so no request may see two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_sees_the_policies_of_one_instant() {
    let fixture = failing().await;
    let policies = fixture.guarded.failure_policies().clone();
    let stop = Arc::new(AtomicBool::new(false));
    let replacing = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            for policy in [OnFailure::Deny, OnFailure::Allow].into_iter().cycle() {
                policies.replace([("one", policy.clone()), ("other", policy)]).expect("valid");
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
    let (one, other) = (limit("one"), limit("other"));
    let charges = [one.charge("a"), other.charge("a")];
    let (mut rounds, mut seen) = (0, [false; 2]);
    while rounds < 3_000 || seen != [true; 2] {
        rounds += 1;
        assert!(rounds < 10_000_000, "the policies are never replaced");
        let verdict = fixture.decide(&charges).await.expect("a decision");
        let outcomes: Vec<bool> = verdict.decisions().iter().map(Decision::is_allowed).collect();
        assert_eq!(outcomes[0], outcomes[1]);
        seen[usize::from(outcomes[0])] = true;
        let run = [Run::new(Request::new(&charges[..1]), 2)];
        let results = fixture.guarded.decide_batch(&run, fixture.clock.now()).await;
        let passed = results[0].as_ref().expect("a decision").passed();
        assert!(passed == 0 || passed == 2, "{passed} of a run of 2");
    }
    stop.store(true, Ordering::Relaxed);
    replacing.join().expect("no panic");
}

#[tokio::test]
async fn calls_that_the_store_answers_are_not_affected() {
    let fixture = Fixture::new(|builder| builder);
    let api = limit("api");
    fixture.guarded.failure_policies().replace([("api", OnFailure::Deny)]).expect("valid");
    assert_eq!(fixture.check(&api, "a").await.source(), Source::Store);
    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    assert!(fixture.check(&api, "a").await.is_denied());
}
