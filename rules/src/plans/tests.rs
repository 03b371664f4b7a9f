//! Registering, looking up and changing plans, with a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use tollgate_core::{Clock, Event, ManualClock, Time};

use super::*;
use crate::unreliable::Unreliable;

const CACHE_FOR: Duration = Duration::from_secs(5);
const KEEP_FOR: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The shortest time.
const INSTANT: Duration = Duration::from_nanos(1);

struct Bench {
    store: Unreliable,
    clock: ManualClock,
    failures: Arc<AtomicUsize>,
    plans: Plans<ManualClock>,
}

fn builder(store: &Unreliable, clock: &ManualClock) -> PlansBuilder<ManualClock> {
    Plans::builder(store.shared())
        .plans(["free", "standard", "pro"])
        .cache_for(CACHE_FOR)
        .keep_for(KEEP_FOR)
        .retry_after(RETRY_AFTER)
        .clock(clock.clone())
}

fn bench(configure: impl FnOnce(PlansBuilder<ManualClock>) -> PlansBuilder<ManualClock>) -> Bench {
    let (store, clock) = (Unreliable::new(), ManualClock::default());
    let failures = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&failures);
    let observer = move |event: Event<'_>| {
        assert!(matches!(event, Event::PlanUnavailable { .. }), "{event:?}");
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let builder = configure(builder(&store, &clock).observer(Arc::new(observer)));
    let plans = builder.build().expect("valid");
    Bench { store, clock, failures, plans }
}

fn with_default() -> Bench {
    bench(|builder| builder.default_plan("free"))
}

impl Bench {
    async fn plan(&self, user: &str) -> (String, PlanSource) {
        let plan = self.plans.plan_of(user).await.expect("a plan");
        (plan.name().to_owned(), plan.source())
    }

    fn failures(&self) -> usize {
        self.failures.load(Ordering::SeqCst)
    }
}

fn on(plan: &str, version: u64) -> (String, PlanSource) {
    (plan.to_owned(), PlanSource::Assignment { version })
}

fn message<T: fmt::Debug>(result: Result<T, PlanError>) -> String {
    result.expect_err("an error").to_string()
}

#[tokio::test]
async fn users_are_registered_changed_and_removed() {
    let bench = bench(|builder| builder);
    let plans = &bench.plans;
    let registered = plans.register("alice", "free").await.expect("new");
    assert_eq!((registered.version, &*registered.author), (1, "tollgate"));
    assert_eq!(registered.time, Clock::now(&bench.clock));
    assert_eq!(bench.plan("alice").await, on("free", 1));
    plans.change("alice", "pro").await.expect("registered");
    assert_eq!(bench.plan("alice").await, on("pro", 2), "at once");
    assert_eq!(plans.assignment("alice").await.expect("up").expect("registered").plan, "pro");
    plans.remove("alice").await.expect("registered");
    assert!(matches!(plans.plan_of("alice").await, Err(PlanError::UnknownUser)), "at once");
    plans.register("alice", "standard").await.expect("new again");
    assert_eq!(bench.plan("alice").await, on("standard", 4));
}

#[tokio::test]
async fn errors_name_their_cause() {
    let bench = bench(|builder| builder);
    let plans = &bench.plans;
    let unknown = "this user has no plan; use `register`, or set a default plan";
    assert_eq!(message(plans.plan_of("bob").await), unknown);
    assert_eq!(message(plans.change("bob", "pro").await), unknown);
    assert_eq!(message(plans.remove("bob").await), unknown);
    plans.register("bob", "free").await.expect("new");
    let again = "this user already has a plan; use `change` to assign another one";
    assert_eq!(message(plans.register("bob", "pro").await), again);
    let gold = "unknown plan `gold`; known plans: free, standard, pro";
    assert_eq!(message(plans.register("carol", "gold").await), gold);
    assert_eq!(message(plans.change("bob", "gold").await), gold);
    assert_eq!(bench.plan("bob").await, on("free", 1), "unchanged by what failed");
    bench.store.fail();
    assert_eq!(message(plans.register("dan", "pro").await), "the store of plans does not answer: no route");
    assert_eq!(bench.failures(), 0, "only look-ups fall back");
}

#[tokio::test]
async fn a_stored_plan_that_does_not_exist_is_an_error() {
    let bench = with_default();
    bench.store.write("plans/alice", "gold\n").await;
    let gold = "unknown plan `gold`; known plans: free, standard, pro";
    assert_eq!(message(bench.plans.plan_of("alice").await), gold);
    bench.store.write("plans/bob", &"x".repeat(1_000_000)).await;
    assert!(message(bench.plans.plan_of("bob").await).len() < 200);
    bench.store.write("plans/carol", " pro\n").await;
    assert_eq!(bench.plan("carol").await, on("pro", 1));
}

#[tokio::test]
async fn changes_of_others_are_seen_within_the_stated_time() {
    let bench = with_default();
    let other = builder(&bench.store, &bench.clock).build().expect("valid");
    assert_eq!(bench.plan("alice").await, ("free".to_owned(), PlanSource::Default));
    other.register("alice", "pro").await.expect("new");
    bench.clock.advance(CACHE_FOR.saturating_sub(INSTANT));
    assert_eq!(bench.plan("alice").await.1, PlanSource::Default, "not registered is kept in memory, too");
    assert_eq!(bench.store.reads(), 1);
    bench.clock.advance(INSTANT);
    assert_eq!(bench.plan("alice").await, on("pro", 1));
    assert_eq!(bench.plan("alice").await, on("pro", 1));
    assert_eq!(bench.store.reads(), 2);
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_keep_answers() {
    let bench = with_default();
    assert_eq!(bench.plan("alice").await.1, PlanSource::Default);
    bench.store.write("plans/alice", "pro").await;
    bench.clock.set(Time::from_secs(1_700_000_000));
    assert_eq!(bench.plan("alice").await, on("pro", 1));
}

#[tokio::test]
async fn callers_at_once_make_one_call_per_user() {
    let bench = with_default();
    bench.store.write("plans/alice", "pro").await;
    let callers = (0..100).map(|_| bench.plan("alice"));
    let found = futures_util::future::join_all(callers).await;
    assert!(found.iter().all(|plan| *plan == on("pro", 1)), "{found:?}");
    assert_eq!(bench.store.reads(), 1);
    bench.clock.advance(CACHE_FOR);
    bench.store.fail();
    let callers = (0..100).map(|_| bench.plan("alice"));
    futures_util::future::join_all(callers).await;
    assert_eq!((bench.store.reads(), bench.failures()), (2, 1), "also if it fails");
}

#[tokio::test]
async fn while_the_store_is_down_the_last_known_plan_is_used_and_then_the_default() {
    let bench = with_default();
    bench.plans.register("alice", "pro").await.expect("new");
    bench.store.fail();
    assert_eq!(bench.plan("alice").await, on("pro", 1), "recent enough");
    bench.clock.advance(CACHE_FOR);
    let last_known = |age| ("pro".to_owned(), PlanSource::LastKnown { age });
    assert_eq!(bench.plan("alice").await, last_known(CACHE_FOR));
    assert_eq!((bench.store.reads(), bench.failures()), (1, 1));
    bench.clock.advance(RETRY_AFTER.saturating_sub(INSTANT));
    let age = CACHE_FOR + RETRY_AFTER.saturating_sub(INSTANT);
    assert_eq!(bench.plan("alice").await, last_known(age));
    assert_eq!(bench.store.reads(), 1, "not asked again yet");
    bench.clock.advance(INSTANT);
    bench.plan("alice").await;
    assert_eq!((bench.store.reads(), bench.failures()), (2, 2));
    bench.clock.advance(KEEP_FOR.saturating_sub(CACHE_FOR + RETRY_AFTER));
    assert_eq!(bench.plan("alice").await, ("free".to_owned(), PlanSource::DefaultUnavailable));
    bench.store.recover();
    bench.clock.advance(RETRY_AFTER);
    assert_eq!(bench.plan("alice").await, on("pro", 1));
}

#[tokio::test]
async fn an_unknown_user_of_a_store_that_is_down_gets_the_default_or_an_error() {
    let (with_default, without) = (with_default(), bench(|builder| builder));
    with_default.store.fail();
    without.store.fail();
    let plan = with_default.plan("alice").await;
    assert_eq!(plan, ("free".to_owned(), PlanSource::DefaultUnavailable));
    let down = "the store of plans does not answer: no route";
    assert_eq!(message(without.plans.plan_of("alice").await), down);
}

#[tokio::test]
async fn a_store_that_hangs_is_waited_for_until_the_deadline() {
    let bench = with_default();
    bench.store.hang();
    let callers = futures_util::future::join_all((0..10).map(|_| bench.plan("alice")));
    let advance = async {
        while bench.clock.sleepers() < 10 {
            tokio::task::yield_now().await;
        }
        bench.clock.advance(Duration::from_millis(100));
    };
    let (found, ()) = futures_util::future::join(callers, advance).await;
    assert!(found.iter().all(|(_, source)| *source == PlanSource::DefaultUnavailable), "{found:?}");
    assert_eq!((bench.store.reads(), bench.failures()), (1, 1));
}

#[tokio::test]
async fn of_two_editors_one_learns_which_version_was_missed() {
    let bench = with_default();
    let other = builder(&bench.store, &bench.clock).author("bob").build().expect("valid");
    bench.plans.register("alice", "free").await.expect("new");
    let seen = other.assignment("alice").await.expect("up").expect("registered");
    assert_eq!(other.plan_of("alice").await.expect("a plan").name(), "free");
    bench.plans.change("alice", "pro").await.expect("nobody else");
    let missed = other.change_version("alice", "standard", seen.version).await.expect_err("a conflict");
    assert!(matches!(missed, PlanError::Conflict { expected: Some(1), current: Some(2) }), "{missed:?}");
    assert_eq!(
        missed.to_string(),
        "the change expects version 1 of this user's plan, but somebody else has made it version 2; look at it, and \
         repeat the change if it is still right"
    );
    assert!(matches!(other.remove_version("alice", 1).await, Err(PlanError::Conflict { .. })));
    assert_eq!(
        other.plan_of("alice").await.expect("a plan").name(),
        "pro",
        "the loser sees the other change"
    );
    other.change_version("alice", "standard", 2).await.expect("the version that was missed");
    let history = bench.store.documents.history("plans/alice").await.expect("in memory");
    let authors: Vec<_> = history.iter().map(|revision| &*revision.author).collect();
    assert_eq!(authors, ["bob", "tollgate", "tollgate"]);
}

#[tokio::test]
async fn a_change_that_may_have_been_made_is_looked_up() {
    let bench = with_default();
    bench.plans.register("alice", "free").await.expect("new");
    assert_eq!(bench.plan("alice").await, on("free", 1));
    bench.store.fail_with(StoreError::new(ErrorKind::Timeout, "late").with_unknown_effect());
    assert!(bench.plans.change_version("alice", "pro", 1).await.is_err());
    bench.store.recover();
    assert_eq!(bench.plan("alice").await, on("pro", 2));
}

#[tokio::test]
async fn a_change_that_is_cancelled_is_looked_up() {
    let bench = with_default();
    bench.plans.register("alice", "free").await.expect("new");
    for removed in [false, true] {
        bench.plan("alice").await;
        bench.store.hang();
        let change = async {
            if removed {
                bench.plans.remove_version("alice", 2).await.map(drop)
            } else {
                bench.plans.change_version("alice", "pro", 1).await.map(drop)
            }
        };
        let is_cancelled = change.now_or_never().is_none();
        bench.store.recover();
        // The store made the change, although nobody waits for the answer.
        let text = if removed { "standard" } else { "pro" };
        bench.store.write("plans/alice", text).await;
        assert!(is_cancelled);
        assert_eq!(bench.plan("alice").await, on(text, if removed { 3 } else { 2 }));
    }
}

#[tokio::test]
async fn the_number_of_users_in_memory_is_bounded() {
    let bench = bench(|builder| builder.default_plan("free").max_users(50));
    for number in 0..2_000 {
        bench.plan(&format!("user {number}")).await;
    }
    assert!(bench.plans.cached_users() <= 50, "{}", bench.plans.cached_users());
    // Names that cannot be registered are neither kept nor asked about.
    let reads = bench.store.reads();
    for user in ["", &"x".repeat(10_000)] {
        assert_eq!(bench.plan(user).await.1, PlanSource::Default);
        assert!(matches!(bench.plans.register(user, "pro").await, Err(PlanError::InvalidUser(_))));
    }
    assert_eq!(bench.store.reads(), reads);
}

#[tokio::test]
async fn the_plan_is_an_attribute_that_the_request_cannot_choose() {
    let bench = with_default();
    bench.plans.register("alice", "pro").await.expect("new");
    let request = [("path", "/api"), ("plan", "unlimited")];
    let attributes = bench.plans.attributes("alice", request).await.expect("a plan");
    let get = |name| attributes.get(name).map(std::borrow::Cow::into_owned);
    assert_eq!((get("plan"), get("path")), (Some("pro".to_owned()), Some("/api".to_owned())));
    assert_eq!((get("host"), attributes.plan().source()), (None, PlanSource::Assignment { version: 1 }));
}

#[test]
fn invalid_settings_are_rejected() {
    let (store, clock) = (Unreliable::new(), ManualClock::default());
    let error = |builder: PlansBuilder<ManualClock>| message(builder.build());
    let none = Plans::builder(store.shared()).clock(clock.clone());
    assert_eq!(error(none), "`Plans`: `plans` has no names; add one or several");
    let valid = || builder(&store, &clock);
    let twice = valid().plans(["pro"]);
    assert_eq!(error(twice), "`Plans`: `plans` has two plans named `pro`; rename one of them");
    assert!(error(valid().plans([" x"])).contains("has the name \" x\""));
    let gold = valid().default_plan("gold");
    assert_eq!(error(gold), "unknown plan `gold`; known plans: free, standard, pro");
    assert!(error(valid().directory("plans/")).contains("no slash at the end"));
    assert!(error(valid().deadline(Duration::ZERO)).contains("use more than zero"));
    assert!(error(valid().max_users(0)).contains("use at least 1"));
}

proptest! {
    /// A user of one directory is never one of another: `plans/a` and `b/c`, `plans/a/b` and `c`.
    #[test]
    fn no_two_users_share_a_document(users in proptest::collection::btree_set("[ab/%2F\n]{1,4}", 12)) {
        let mut documents = std::collections::BTreeSet::new();
        let mut expected = std::collections::BTreeSet::new();
        for directory in ["plans", "plans/a", "plans/a/b"] {
            for user in &users {
                let document = document_of(directory, user).expect("valid");
                check_document(&document, "").expect("valid");
                documents.insert(document);
                expected.insert((directory, user));
            }
        }
        prop_assert_eq!(documents.len(), expected.len());
    }
}
