//! Limits that are only watched.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{
    Action, Decision, ErrorKind, Event, IdempotencyKey, LeaseId, Limit, Limiter, ManualClock, Observer,
    Request, Source,
};
use tollgate_resilience::{ShadowReport, Switched};

use crate::recorded::{Call, NOW, Recorded, asked, ready, unavailable};
use crate::{BOTH, EVERY_WAY, limit, switched};

const ID: IdempotencyKey = IdempotencyKey::new(42);
/// Where the ids of watched charges begin.
const WATCHED: u32 = 1 << 31;

/// Evaluated, would deny, would curb, failed.
fn counted(store: &Switched<Recorded>, limit: &str) -> [u64; 4] {
    let ShadowReport { evaluated, would_deny, would_curb, failed, .. } =
        store.switches().shadow_report(limit).expect("watched");
    [evaluated, would_deny, would_curb, failed]
}

#[test]
fn a_watched_limit_counts_and_denies_nothing() {
    for ask in EVERY_WAY {
        let (store, api) = (switched(), limit("api", 2));
        store.switches().shadow("api");
        let sources = [(); 5].map(|()| {
            let told = ask(&store, &api.charge("a"));
            assert_eq!((told.is_allowed(), told.granted(), told.retry_after()), (true, 1, None));
            told.source()
        });
        assert_eq!(sources[..2], [Source::Store; 2], "what the limit lets pass is not marked");
        assert_eq!(sources[2..], [Source::Shadow; 3]);
        assert_eq!((counted(&store, "api"), store.store().left(&api, "a")), ([5, 3, 0, 0], 0));
        assert_eq!(store.store().calls().len(), 5, "one call each");
        store.switches().on("api");
        assert!(ask(&store, &api.charge("a")).is_denied(), "as if it had been enforced all the time");
    }
}

#[test]
fn a_watched_charge_is_neither_delayed_nor_cut() {
    for ask in EVERY_WAY {
        let (store, queue, api) =
            (switched(), Limit::per_second(1).queue(5).build("queue").expect("valid"), limit("api", 2));
        store.switches().shadow("queue");
        store.switches().shadow("api");
        let waits = [(); 3].map(|()| ask(&store, &queue.charge("a")).start_after());
        assert_eq!((waits, counted(&store, "queue")), ([Duration::ZERO; 3], [3, 0, 2, 0]));
        let patient = api.charge("a").with_cost(2).with_max_wait(Duration::from_secs(24 * 60 * 60));
        assert_eq!(ask(&store, &patient).source(), Source::Store);
        assert_eq!(ask(&store, &patient).start_after(), Duration::ZERO);
        let part = ask(&store, &api.charge("b").with_cost(5).with_action(Action::TakeUpTo));
        assert_eq!((part.granted(), part.is_shadowed()), (5, true));
        assert_eq!(counted(&store, "api"), [3, 0, 2, 0]);
    }
}

#[test]
fn looks_are_answered_and_not_counted() {
    let (store, api) = (switched(), limit("api", 1));
    store.switches().shadow("api");
    let _ = EVERY_WAY[0](&store, &api.charge("a"));
    let look = EVERY_WAY[0](&store, &api.charge("a").with_cost(0));
    assert_eq!((look.is_allowed(), look.granted(), look.is_shadowed()), (true, 0, true));
    assert_eq!(counted(&store, "api"), [1, 0, 0, 0]);
}

#[test]
fn counting_begins_when_it_is_switched_to_shadow() {
    let (store, api) = (switched(), limit("api", 1));
    store.switches().shadow("api");
    let _ = EVERY_WAY[0](&store, &api.charge("a"));
    store.switches().shadow("api");
    assert_eq!(counted(&store, "api"), [1, 0, 0, 0], "watched already");
    store.switches().on("api");
    store.switches().shadow("api");
    assert_eq!(counted(&store, "api"), [0; 4]);
}

#[test]
fn watched_charges_travel_with_the_rest_in_one_call() {
    let (store, api, new, daily) = (switched(), limit("api", 10), limit("new", 1), limit("daily", 10));
    store.switches().shadow("new");
    let charges = [new.charge("a"), api.charge("a"), new.charge("a"), daily.charge("a")];
    for _ in 0..2 {
        let verdict =
            ready(store.decide(Request::new(&charges).with_idempotency_key(ID), NOW)).expect("answered");
        let sources: Vec<_> = verdict.decisions().iter().map(Decision::source).collect();
        assert_eq!(sources, [Source::Store, Source::Store, Source::Shadow, Source::Store]);
        assert!(verdict.is_allowed());
        let runs = vec![
            (asked(["api", "daily"]).named(ID), 1),
            (asked(["new"]).named(ID.part(WATCHED)), 1),
            (asked(["new"]).named(ID.part(WATCHED + 2)), 1),
        ];
        assert_eq!(store.store().calls(), [Call::Batch(runs)]);
        assert_eq!(store.store().left(&api, "a"), 9, "a repetition is not executed again");
    }
    assert_eq!(counted(&store, "new"), [4, 2, 0, 0]);
}

#[test]
fn a_watched_charge_that_is_the_whole_request_keeps_its_id() {
    let (store, api) = (switched(), limit("api", 10));
    store.switches().shadow("api");
    let _ = ready(store.decide(Request::new(&[api.charge("a")]).with_idempotency_key(ID), NOW))
        .expect("answered");
    assert_eq!(store.store().calls(), [Call::Request(asked(["api"]).named(ID))]);
}

#[test]
fn a_request_that_is_denied_takes_nothing_from_watched_limits() {
    for ask in BOTH {
        let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
        store.switches().shadow("new");
        let verdict = ask(&store, &[new.charge("a").with_cost(3), api.charge("a").with_cost(2)]);
        assert!(verdict.is_denied() && verdict.decisions()[0].is_allowed());
        assert_eq!(verdict.decisions()[0].granted(), 0);
        assert_eq!(store.store().left(&new, "a"), 10);
        assert_eq!(store.store().calls().last(), Some(&Call::Detached(asked(["new"]))));
        assert!(ask(&store, &[new.charge("a").with_cost(3), api.charge("a")]).is_allowed());
        assert_eq!(store.store().left(&new, "a"), 7);
    }
}

#[test]
fn a_repeated_denial_gives_back_once() {
    let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
    store.switches().shadow("new");
    let _ = EVERY_WAY[0](&store, &new.charge("a").with_cost(5));
    let charges = [new.charge("a").with_cost(3), api.charge("a").with_cost(2)];
    for _ in 0..2 {
        let verdict =
            ready(store.decide(Request::new(&charges).with_idempotency_key(ID), NOW)).expect("answered");
        assert_eq!((verdict.is_denied(), store.store().left(&new, "a")), (true, 5));
    }
}

#[test]
fn a_request_that_fails_takes_nothing_from_watched_limits_unless_it_may_have_taken_effect() {
    for (error, left) in [(unavailable(), 10), (unavailable().with_unknown_effect(), 7)] {
        let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
        store.switches().shadow("new");
        store.store().fail("api", error);
        let charges = [new.charge("a").with_cost(3), api.charge("a")];
        let failed = ready(store.decide(Request::new(&charges), NOW)).expect_err("the store fails");
        assert_eq!((failed.kind(), store.store().left(&new, "a")), (ErrorKind::Unavailable, left));
        let _ = store.decide_now(Request::new(&charges), NOW).expect_err("the store fails");
    }
}

#[test]
fn a_failure_on_a_watched_limit_fails_nothing() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 10));
    store.switches().shadow("new");
    store.store().fail("new", unavailable());
    for (round, ask) in (1..).zip(BOTH) {
        let verdict = ask(&store, &[new.charge("a").with_cost(3), api.charge("a")]);
        let told = verdict.decisions()[0];
        assert_eq!((told.is_allowed(), told.granted(), told.source()), (true, 3, Source::Switch));
        assert_eq!(verdict.decisions()[1].source(), Source::Store);
        assert_eq!(store.store().left(&api, "a"), 10 - round);
    }
    assert_eq!(EVERY_WAY[0](&store, &new.charge("a")).source(), Source::Switch);
    assert_eq!(counted(&store, "new"), [0, 0, 0, 3]);
}

#[test]
fn what_cannot_be_denied_goes_with_the_rest() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 10));
    store.switches().shadow("new");
    let charges = [new.charge("a").with_cost(4).with_action(Action::Debit { at: None }), api.charge("a")];
    let verdict = BOTH[0](&store, &charges);
    assert_eq!((verdict.is_allowed(), store.store().left(&new, "a")), (true, 6));
    assert_eq!(store.store().calls(), [Call::Request(asked(["new", "api"]))]);
    store.store().fail("new", unavailable());
    assert!(ready(store.decide(Request::new(&charges), NOW)).is_err(), "a debit that fails is told");
    assert_eq!(counted(&store, "new"), [0; 4]);
}

#[test]
fn a_lease_is_not_lost_on_a_watched_limit() {
    let (store, flight, api) =
        (switched(), Limit::concurrent(1).build("flight").expect("valid"), limit("api", 10));
    store.switches().shadow("flight");
    let place = |id| flight.charge("a").with_lease(LeaseId::new(id));
    assert!(EVERY_WAY[0](&store, &place(1)).is_allowed());
    assert!(EVERY_WAY[0](&store, &place(2)).is_shadowed(), "it holds no place");
    for ask in EVERY_WAY {
        assert_eq!(ask(&store, &place(1).with_action(Action::Renew)).source(), Source::Store);
        let told = ask(&store, &place(2).with_action(Action::Renew));
        assert!(told.is_allowed() && told.is_shadowed());
    }
    for (round, ask) in (1..).zip(BOTH) {
        let verdict = ask(&store, &[place(2).with_action(Action::Renew), api.charge("a")]);
        assert_eq!((verdict.is_allowed(), store.store().left(&api, "a")), (true, 10 - round));
    }
}

#[test]
fn detached_calls_ask_about_each_watched_charge_alone() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 1));
    store.switches().shadow("new");
    let charges = [new.charge("a").with_cost(2), api.charge("a")];
    store.decide_detached(Request::new(&charges).with_idempotency_key(ID), NOW);
    let (rest, watched) = (asked(["api"]).named(ID), asked(["new"]).named(ID.part(WATCHED)));
    assert_eq!(store.store().calls(), [Call::Detached(rest), Call::Detached(watched)]);
    assert_eq!(store.store().left(&api, "a"), 9);
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, bool, Source)>>);

impl Observer for Seen {
    fn observe(&self, event: Event<'_>) {
        if let Event::Decided { limit, decision } = event {
            let seen = (limit.to_owned(), decision.is_allowed(), decision.source());
            self.0.lock().expect("not poisoned").push(seen);
        }
    }
}

#[test]
fn an_observer_sees_what_would_have_been_denied() {
    let (store, api, seen) = (switched(), limit("api", 1), Arc::new(Seen::default()));
    store.switches().shadow("api");
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).with_observer(Arc::clone(&seen) as _);
    let _ = limiter.check_now(&api, "a");
    let _ = ready(limiter.check(&api, "a")).expect("answered");
    let _ = ready(limiter.check_all([api.charge("a"), api.charge("b")])).expect("answered");
    let shown = |allowed, source| ("api".to_owned(), allowed, source);
    let right =
        [Source::Store, Source::Shadow, Source::Shadow, Source::Store].map(|source| shown(true, source));
    assert_eq!(*seen.0.lock().expect("not poisoned"), right);
}
