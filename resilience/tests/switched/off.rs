//! Limits that are off.

use std::time::Duration;

use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{
    Action, ErrorKind, IdempotencyKey, LeaseId, Limiter, ManualClock, Request, Source, Time,
};
use tollgate_resilience::{Switched, Switches};

use crate::recording::{Call, NOW, RecordingStore, ready, requested, unavailable};
use crate::{DECIDE, DECIDE_ONE, limit, switched};

const KEY: IdempotencyKey = IdempotencyKey::new(42);

#[test]
fn a_limit_that_is_off_allows_everything_without_calling_the_store() {
    for decide in DECIDE_ONE {
        let (store, api, other) = (switched(), limit("api", 1), limit("other", 1));
        store.switches().off("api");
        for _ in 0..3 {
            let decision = decide(&store, &api.charge("a"));
            assert_eq!(
                (decision.is_allowed(), decision.granted(), decision.source()),
                (true, 1, Source::Switch)
            );
        }
        assert_eq!(store.store().calls(), vec![]);
        assert_eq!(decide(&store, &other.charge("a")).source(), Source::Store);
        store.switches().on("api");
        assert!(decide(&store, &api.charge("a")).is_allowed());
        assert!(decide(&store, &api.charge("a")).is_denied());
    }
}

#[test]
fn the_kill_switch_makes_no_call_whatever_the_action() {
    let (store, api) = (switched(), limit("api", 10));
    store.store().fail("api", unavailable());
    store.switches().all_off();
    let charge = api.charge("a").with_lease(LeaseId::new(7));
    for action in [
        Action::Take { max_wait: None },
        Action::Take { max_wait: Some(Duration::from_secs(1)) },
        Action::TakeUpTo,
        Action::Debit { at: None },
        Action::Refund { at: None },
        Action::Reset,
        Action::Renew,
        Action::Release,
    ] {
        for decide in DECIDE_ONE {
            let decision = decide(&store, &charge.with_action(action));
            assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Switch), "{action:?}");
        }
    }
    store.decide_detached(Request::new(&[charge]), NOW);
    assert_eq!(store.store().calls(), vec![]);
    store.switches().all_on();
    let error = ready(store.decide_one(&charge, &NOW)).expect_err("the store fails");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn the_kill_switch_keeps_the_switches_of_limits() {
    let (store, api, other) = (switched(), limit("api", 1), limit("other", 1));
    store.switches().off("api");
    store.switches().all_off();
    store.switches().all_on();
    assert_eq!(DECIDE_ONE[0](&store, &api.charge("a")).source(), Source::Switch);
    assert_eq!(DECIDE_ONE[0](&store, &other.charge("a")).source(), Source::Store);
}

#[test]
fn the_rest_of_a_request_keeps_its_order_and_its_idempotency_key() {
    let (store, api, daily, login) = (switched(), limit("api", 10), limit("daily", 5), limit("login", 3));
    store.switches().off("daily");
    let charges = [api.charge("a").with_cost(4), daily.charge("a").with_cost(2), login.charge("a")];
    for _ in 0..2 {
        let request = Request::new(&charges).with_idempotency_key(KEY);
        let verdict = ready(store.decide(request, NOW)).expect("a decision");
        let decisions: Vec<_> = verdict
            .decisions()
            .iter()
            .map(|decision| (decision.granted(), decision.limit(), decision.source()))
            .collect();
        assert_eq!(decisions, [(4, 10, Source::Store), (2, 5, Source::Switch), (1, 3, Source::Store)]);
        let smaller = Call::Request(requested(["api", "login"]).with_key(KEY));
        assert_eq!(store.store().calls(), [smaller]);
        assert_eq!(store.store().remaining(&api, "a"), 6, "a repeated key is not executed again");
    }
}

#[test]
fn a_denial_of_the_rest_grants_nothing() {
    for decide in DECIDE {
        let (store, api, daily) = (switched(), limit("api", 1), limit("daily", 5));
        store.switches().off("daily");
        let verdict = decide(&store, &[daily.charge("a"), api.charge("a").with_cost(2)]);
        assert!(verdict.is_denied());
        let decision = verdict.decisions()[0];
        assert_eq!((decision.is_allowed(), decision.granted(), decision.source()), (true, 0, Source::Switch));
    }
}

#[test]
fn the_decision_time_is_the_stores_or_the_callers() {
    let ahead = Duration::from_secs(7);
    let (store, api, daily, new) = (
        Switched::new(RecordingStore::ahead_by(ahead)),
        limit("api", 10),
        limit("daily", 5),
        limit("new", 5),
    );
    store.switches().off("daily");
    store.switches().shadow("new");
    for decide in DECIDE {
        let [off, rest, shadowed] = [daily.charge("a"), api.charge("a"), new.charge("a")];
        assert_eq!(decide(&store, &[off, rest]).decided_at(), NOW + ahead);
        assert_eq!(decide(&store, &[off, shadowed]).decided_at(), NOW + ahead);
        assert_eq!(decide(&store, &[off, off]).decided_at(), NOW);
    }
}

#[test]
fn unsupported_actions_are_errors_only_while_the_limit_is_on() {
    let (store, api, other) = (switched(), limit("api", 10), limit("other", 10));
    let renew = api.charge("a").with_action(Action::Renew);
    store.switches().off("other");
    for charges in [&[renew][..], &[renew, other.charge("a")]] {
        let error = ready(store.decide(Request::new(charges), NOW)).expect_err("unsupported");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = store.decide_now(Request::new(charges), NOW).expect_err("unsupported");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    store.switches().off("api");
    assert!(DECIDE[0](&store, &[renew, other.charge("a")]).is_allowed());
}

#[test]
fn detached_requests_omit_limits_that_are_off() {
    let (store, api, daily) = (switched(), limit("api", 10), limit("daily", 5));
    store.switches().off("daily");
    let charges = [api.charge("a"), daily.charge("a")];
    store.decide_detached(Request::new(&charges).with_idempotency_key(KEY), NOW);
    assert_eq!(store.store().calls(), [Call::Detached(requested(["api"]).with_key(KEY))]);
    assert_eq!(store.store().remaining(&api, "a"), 9);
}

#[test]
fn several_stores_share_switches() {
    let (switches, api) = (Switches::new(), limit("api", 1));
    let stores = [(); 2].map(|()| Switched::with_switches(RecordingStore::new(), switches.clone()));
    switches.off("api");
    for store in &stores {
        assert_eq!(DECIDE_ONE[0](store, &api.charge("a")).source(), Source::Switch);
    }
    stores[0].switches().on("api");
    for store in &stores {
        assert_eq!(DECIDE_ONE[0](store, &api.charge("a")).source(), Source::Store);
    }
}

#[test]
fn calls_without_switches_are_forwarded() {
    let (store, api) = (switched(), limit("api", 10));
    assert_eq!(store.capability(), store.store().capability());
    assert_eq!(store.route(&api.charge("a").with_cost(3)), 3);
    assert!(DECIDE_ONE[0](&store, &api.charge("a")).is_allowed());
    assert!(ready(store.export(&api, "a".into(), NOW)).expect("a decision").state.is_some(), "in use");
    let debit = [api.charge("b").with_action(Action::Debit { at: None })];
    ready(store.apply_deltas(Request::new(&debit), NOW)).expect("a decision");
    assert_eq!(store.store().remaining(&api, "b"), 9);
}

#[test]
fn waiting_and_leases_work_while_everything_is_off() {
    let store = switched();
    let switches = store.switches().clone();
    let limiter = Limiter::with_clock(store, ManualClock::at(Time::from_secs(1_790_000_000)));
    let (api, flight) =
        (limit("api", 1), tollgate_core::Limit::concurrent(1).build("flight").expect("valid"));
    switches.all_off();
    for _ in 0..3 {
        let decision = ready(limiter.until_ready(&api, "a", Duration::from_secs(1))).expect("a decision");
        assert!(decision.is_allowed());
        let lease = ready(limiter.acquire_lease(&flight, "a")).expect("a decision");
        assert!(lease.is_held() && ready(limiter.renew(&lease)).expect("a decision").is_allowed());
        ready(limiter.release(lease)).expect("a decision");
    }
    assert_eq!(limiter.store().store().calls(), vec![]);
}
