//! Limits in shadow mode.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{
    Action, Decision, ErrorKind, Event, IdempotencyKey, LeaseId, Limit, Limiter, ManualClock, Observer,
    Request, Reservation, Source,
};
use tollgate_resilience::{ShadowStats, Switched};

use crate::recording::{Call, NOW, RecordingStore, ready, requested, unavailable};
use crate::{DECIDE, DECIDE_ONE, limit, switched};

const KEY: IdempotencyKey = IdempotencyKey::new(42);
/// The part of the idempotency key of the first shadowed charge.
const SHADOWED_PART: u32 = 1 << 31;

/// Evaluated, would deny, would delay or reduce, failed.
fn counted(store: &Switched<RecordingStore>, limit: &str) -> [u64; 4] {
    let ShadowStats { evaluated, would_deny, would_delay_or_reduce, failed, .. } =
        store.stats().shadow[limit];
    [evaluated, would_deny, would_delay_or_reduce, failed]
}

#[test]
fn a_limit_in_shadow_mode_counts_and_denies_nothing() {
    for decide in DECIDE_ONE {
        let (store, api) = (switched(), limit("api", 2));
        store.switches().shadow("api");
        let sources = [(); 5].map(|()| {
            let decision = decide(&store, &api.charge("a"));
            assert_eq!((decision.is_allowed(), decision.granted(), decision.retry_after()), (true, 1, None));
            decision.source()
        });
        assert_eq!(sources[..2], [Source::Store; 2], "what the limit allows is not marked");
        assert_eq!(sources[2..], [Source::Shadow; 3]);
        assert_eq!((counted(&store, "api"), store.store().remaining(&api, "a")), ([5, 3, 0, 0], 0));
        assert_eq!(store.store().calls().len(), 5, "one call each");
        store.switches().on("api");
        assert!(decide(&store, &api.charge("a")).is_denied(), "as if it had always been enforced");
    }
}

#[test]
fn a_shadowed_charge_is_neither_delayed_nor_reduced() {
    for decide in DECIDE_ONE {
        let (store, queue, api) =
            (switched(), Limit::per_second(1).queue(5).build("queue").expect("valid"), limit("api", 2));
        store.switches().shadow("queue");
        store.switches().shadow("api");
        let waits = [(); 3].map(|()| decide(&store, &queue.charge("a")).start_after());
        assert_eq!((waits, counted(&store, "queue")), ([Duration::ZERO; 3], [3, 0, 2, 0]));
        let waiting = api.charge("a").with_cost(2).with_max_wait(Duration::from_secs(24 * 60 * 60));
        assert_eq!(decide(&store, &waiting).source(), Source::Store);
        assert_eq!(decide(&store, &waiting).start_after(), Duration::ZERO);
        let part = decide(&store, &api.charge("b").with_cost(5).with_action(Action::TakeUpTo));
        assert_eq!((part.granted(), part.is_shadowed()), (5, true));
        assert_eq!(counted(&store, "api"), [3, 0, 2, 0]);
    }
}

#[test]
fn peeks_are_decided_and_not_counted() {
    let (store, api) = (switched(), limit("api", 1));
    store.switches().shadow("api");
    let _ = DECIDE_ONE[0](&store, &api.charge("a"));
    let peek = DECIDE_ONE[0](&store, &api.charge("a").with_cost(0));
    assert_eq!((peek.is_allowed(), peek.granted(), peek.is_shadowed()), (true, 0, true));
    assert_eq!(counted(&store, "api"), [1, 0, 0, 0]);
}

#[test]
fn counters_start_when_shadow_mode_starts() {
    let (store, api) = (switched(), limit("api", 1));
    store.switches().shadow("api");
    let _ = DECIDE_ONE[0](&store, &api.charge("a"));
    store.switches().shadow("api");
    assert_eq!(counted(&store, "api"), [1, 0, 0, 0], "in shadow mode already");
    store.switches().on("api");
    store.switches().shadow("api");
    assert_eq!(counted(&store, "api"), [0; 4]);
}

#[test]
fn shadowed_charges_are_sent_with_the_rest_in_one_call() {
    let (store, api, new, daily) = (switched(), limit("api", 10), limit("new", 1), limit("daily", 10));
    store.switches().shadow("new");
    let charges = [new.charge("a"), api.charge("a"), new.charge("a"), daily.charge("a")];
    for _ in 0..2 {
        let verdict =
            ready(store.decide(Request::new(&charges).with_idempotency_key(KEY), NOW)).expect("a decision");
        let sources: Vec<_> = verdict.decisions().iter().map(Decision::source).collect();
        assert_eq!(sources, [Source::Store, Source::Store, Source::Shadow, Source::Store]);
        assert!(verdict.is_allowed());
        let runs = vec![
            (requested(["api", "daily"]).with_key(KEY), 1),
            (requested(["new"]).with_key(KEY.part(SHADOWED_PART)), 1),
            (requested(["new"]).with_key(KEY.part(SHADOWED_PART + 2)), 1),
        ];
        assert_eq!(store.store().calls(), [Call::Batch(runs)]);
        assert_eq!(store.store().remaining(&api, "a"), 9, "a repeated key is not executed again");
    }
    assert_eq!(counted(&store, "new"), [4, 2, 0, 0]);
}

#[test]
fn a_shadowed_charge_that_is_the_whole_request_keeps_its_idempotency_key() {
    let (store, api) = (switched(), limit("api", 10));
    store.switches().shadow("api");
    let _ = ready(store.decide(Request::new(&[api.charge("a")]).with_idempotency_key(KEY), NOW))
        .expect("a decision");
    assert_eq!(store.store().calls(), [Call::Request(requested(["api"]).with_key(KEY))]);
}

#[test]
fn a_denied_request_debits_nothing_from_limits_in_shadow_mode() {
    for decide in DECIDE {
        let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
        store.switches().shadow("new");
        let verdict = decide(&store, &[new.charge("a").with_cost(3), api.charge("a").with_cost(2)]);
        assert!(verdict.is_denied() && verdict.decisions()[0].is_allowed());
        assert_eq!(verdict.decisions()[0].granted(), 0);
        assert_eq!(store.store().remaining(&new, "a"), 10);
        assert_eq!(store.store().calls().last(), Some(&Call::Detached(requested(["new"]))));
        assert!(decide(&store, &[new.charge("a").with_cost(3), api.charge("a")]).is_allowed());
        assert_eq!(store.store().remaining(&new, "a"), 7);
    }
}

/// A smooth limiter lets any cost pass, so more than its capacity may have to be refunded.
#[test]
fn a_denied_request_leaves_no_debt_in_a_limit_in_shadow_mode() {
    for decide in DECIDE {
        let smooth = Limit::per_second(5).smooth().build("smooth").expect("valid");
        let (store, full) = (switched(), limit("full", 1));
        store.switches().shadow("smooth");
        assert!(decide(&store, &[full.charge("a")]).is_allowed());
        assert!(decide(&store, &[smooth.charge("a").with_cost(100), full.charge("a")]).is_denied());
        assert_eq!(store.store().remaining(&smooth, "a"), 5, "all of it was refunded");
    }
}

#[test]
fn a_repeated_denial_refunds_once() {
    let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
    store.switches().shadow("new");
    let _ = DECIDE_ONE[0](&store, &new.charge("a").with_cost(5));
    let charges = [new.charge("a").with_cost(3), api.charge("a").with_cost(2)];
    for _ in 0..2 {
        let verdict =
            ready(store.decide(Request::new(&charges).with_idempotency_key(KEY), NOW)).expect("a decision");
        assert_eq!((verdict.is_denied(), store.store().remaining(&new, "a")), (true, 5));
    }
}

#[test]
fn a_failed_request_is_refunded_unless_it_may_have_taken_effect() {
    for (error, remaining) in [(unavailable(), 10), (unavailable().with_unknown_effect(), 7)] {
        let (store, api, new) = (switched(), limit("api", 1), limit("new", 10));
        store.switches().shadow("new");
        store.store().fail("api", error);
        let charges = [new.charge("a").with_cost(3), api.charge("a")];
        let failed = ready(store.decide(Request::new(&charges), NOW)).expect_err("the store fails");
        assert_eq!((failed.kind(), store.store().remaining(&new, "a")), (ErrorKind::Unavailable, remaining));
        let _ = store.decide_now(Request::new(&charges), NOW).expect_err("the store fails");
    }
}

#[test]
fn a_failure_of_a_limit_in_shadow_mode_fails_nothing() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 10));
    store.switches().shadow("new");
    store.store().fail("new", unavailable());
    for (round, decide) in (1..).zip(DECIDE) {
        let verdict = decide(&store, &[new.charge("a").with_cost(3), api.charge("a")]);
        let decision = verdict.decisions()[0];
        assert_eq!((decision.is_allowed(), decision.granted(), decision.source()), (true, 3, Source::Switch));
        assert_eq!(verdict.decisions()[1].source(), Source::Store);
        assert_eq!(store.store().remaining(&api, "a"), 10 - round);
    }
    assert_eq!(DECIDE_ONE[0](&store, &new.charge("a")).source(), Source::Switch);
    assert_eq!(counted(&store, "new"), [0, 0, 0, 3]);
}

#[test]
fn actions_that_cannot_be_denied_are_part_of_the_rest() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 10));
    store.switches().shadow("new");
    let charges = [new.charge("a").with_cost(4).with_action(Action::Debit { at: None }), api.charge("a")];
    let verdict = DECIDE[0](&store, &charges);
    assert_eq!((verdict.is_allowed(), store.store().remaining(&new, "a")), (true, 6));
    assert_eq!(store.store().calls(), [Call::Request(requested(["new", "api"]))]);
    store.store().fail("new", unavailable());
    assert!(ready(store.decide(Request::new(&charges), NOW)).is_err(), "a failed debit is an error");
    assert_eq!(counted(&store, "new"), [0; 4]);
}

#[test]
fn a_lease_is_not_lost_in_shadow_mode() {
    let (store, flight, api) =
        (switched(), Limit::concurrent(1).build("flight").expect("valid"), limit("api", 10));
    store.switches().shadow("flight");
    let slot = |id| flight.charge("a").with_lease(LeaseId::new(id));
    assert!(DECIDE_ONE[0](&store, &slot(1)).is_allowed());
    assert!(DECIDE_ONE[0](&store, &slot(2)).is_shadowed(), "it holds no slot");
    for decide in DECIDE_ONE {
        assert_eq!(decide(&store, &slot(1).with_action(Action::Renew)).source(), Source::Store);
        let decision = decide(&store, &slot(2).with_action(Action::Renew));
        assert!(decision.is_allowed() && decision.is_shadowed());
    }
    for (round, decide) in (1..).zip(DECIDE) {
        let verdict = decide(&store, &[slot(2).with_action(Action::Renew), api.charge("a")]);
        assert_eq!((verdict.is_allowed(), store.store().remaining(&api, "a")), (true, 10 - round));
    }
}

#[test]
fn detached_requests_send_each_shadowed_charge_separately() {
    let (store, api, new) = (switched(), limit("api", 10), limit("new", 1));
    store.switches().shadow("new");
    let charges = [new.charge("a").with_cost(2), api.charge("a")];
    store.decide_detached(Request::new(&charges).with_idempotency_key(KEY), NOW);
    let (rest, shadowed) =
        (requested(["api"]).with_key(KEY), requested(["new"]).with_key(KEY.part(SHADOWED_PART)));
    assert_eq!(store.store().calls(), [Call::Detached(rest), Call::Detached(shadowed)]);
    assert_eq!(store.store().remaining(&api, "a"), 9);
}

#[derive(Default)]
struct DecisionLog(Mutex<Vec<(String, bool, Source)>>);

impl Observer for DecisionLog {
    fn observe(&self, event: Event<'_>) {
        if let Event::Decided { limit, decision } = event {
            let line = (limit.to_owned(), decision.is_allowed(), decision.source());
            self.0.lock().expect("not poisoned").push(line);
        }
    }
}

#[test]
fn an_observer_sees_shadowed_decisions() {
    let (store, api, log) = (switched(), limit("api", 1), Arc::new(DecisionLog::default()));
    store.switches().shadow("api");
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).with_observer(Arc::clone(&log) as _);
    let _ = limiter.check_now(&api, "a");
    let _ = ready(limiter.check(&api, "a")).expect("a decision");
    let _ = ready(limiter.check_all([api.charge("a"), api.charge("b")])).expect("a decision");
    let line = |allowed, source| ("api".to_owned(), allowed, source);
    let expected =
        [Source::Store, Source::Shadow, Source::Shadow, Source::Store].map(|source| line(true, source));
    assert_eq!(*log.0.lock().expect("not poisoned"), expected);
}

/// In shadow mode a caller starts at once, whatever the store decided. Cancelling reverses what the store debited.
#[test]
fn cancelling_a_shadowed_reservation_undoes_what_the_store_debited() {
    let hour = Duration::from_secs(60 * 60);
    for now in [false, true] {
        let limiter = Limiter::with_clock(Switched::new(RecordingStore::new()), ManualClock::at(NOW));
        let api = limit("api", 4);
        limiter.store().switches().shadow("api");
        let reserve = |max_wait| {
            let reservation = ready(limiter.reserve(&api, "a", max_wait)).expect("buckets reserve");
            assert_eq!((reservation.is_allowed(), reservation.start_after()), (true, Duration::ZERO));
            reservation
        };
        let cancel = |reservation: &mut Reservation<'_>| {
            if now {
                limiter.cancel_now(reservation)
            } else {
                ready(limiter.cancel(reservation)).expect("a decision")
            }
        };
        limiter.debit_now(&api, "a", 6).expect("supported");
        let debt = || limiter.peek_now(&api, "a").debt();
        // The store reserved it, to start later.
        let mut delayed = reserve(hour);
        assert_eq!((delayed.decision().source(), debt()), (Source::Shadow, 3));
        assert_eq!((cancel(&mut delayed).granted(), debt()), (1, 2));
        // The store denied it.
        let mut denied = reserve(Duration::ZERO);
        assert_eq!((denied.decision().source(), debt()), (Source::Shadow, 2));
        assert_eq!((cancel(&mut denied).granted(), debt()), (0, 2));
        // The store failed.
        limiter.store().store().fail("api", unavailable());
        let mut undecided = reserve(hour);
        assert_eq!((undecided.decision().source(), debt()), (Source::Switch, 2));
        assert_eq!((cancel(&mut undecided).granted(), debt()), (0, 2));
    }
}
