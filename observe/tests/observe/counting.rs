//! Every event is counted as the crate's table says.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{
    BreakerState, Decision, ErrorKind, Event, FallbackReason, Limit, Limiter, Observer, Outcome, Source,
    StoreError,
};
use tollgate_observe::Metrics;
use tollgate_store_memory::MemoryStore;

use crate::recorded::{Recorded, record};
use crate::{allowed, denied};

fn after(events: &[Event<'_>]) -> Recorded {
    let recorded = record(|| {
        let metrics = Metrics::new();
        for event in events {
            metrics.observe(*event);
        }
    });
    assert_eq!(recorded.undescribed, [""; 0], "metrics without a description");
    recorded
}

#[test]
fn decisions_are_counted_by_limit_outcome_and_source() {
    let (yes, no, fallback) = (allowed(Source::Store), denied(Source::Store), denied(Source::Fallback));
    let recorded = after(&[
        Event::Decided { limit: "a", decision: &yes },
        Event::Decided { limit: "a", decision: &no },
        Event::Decided { limit: "b", decision: &yes },
        Event::Decided { limit: "a", decision: &yes },
        Event::Decided { limit: "a", decision: &fallback },
    ]);
    let a = |outcome, source| {
        recorded.counter(&format!(
            "tollgate_decisions_total{{limit=\"a\",outcome=\"{outcome}\",source=\"{source}\"}}"
        ))
    };
    assert_eq!((a("allowed", "store"), a("denied", "store"), a("denied", "fallback")), (2, 1, 1));
    assert_eq!(
        recorded.counter("tollgate_decisions_total{limit=\"b\",outcome=\"allowed\",source=\"store\"}"),
        1
    );
    assert_eq!(recorded.series().len(), 4, "{:?}", recorded.series());
}

#[test]
fn every_outcome_and_source_has_its_own_series() {
    use {Outcome as O, Source as S};
    let recorded = record(|| {
        let metrics = Metrics::new();
        for outcome in [O::Allowed, O::Denied, O::NeverFits, O::LeaseLost, O::DenyListed] {
            for source in [S::Store, S::Fallback, S::Policy, S::Switch, S::Shadow] {
                let decision =
                    Decision::from(RawDecision { outcome, source, ..allowed(Source::Store).raw() });
                metrics.observe(Event::Decided { limit: "a", decision: &decision });
            }
        }
    });
    assert_eq!(recorded.series().len(), 25, "{:?}", recorded.series());
    assert!(recorded.series().iter().all(|series| recorded.counter(series) == 1), "{recorded:?}");
}

#[test]
fn fallbacks_are_counted_by_limit_reason_and_source() {
    let (fallback, policy) = (allowed(Source::Fallback), allowed(Source::Policy));
    let timeout = FallbackReason::Failed(ErrorKind::Timeout);
    let recorded = after(&[
        Event::FellBack { limit: "a", reason: timeout, decision: &fallback },
        Event::FellBack { limit: "a", reason: FallbackReason::CircuitOpen, decision: &fallback },
        Event::FellBack { limit: "a", reason: FallbackReason::CircuitOpen, decision: &fallback },
        Event::FellBack { limit: "a", reason: FallbackReason::Panicked, decision: &policy },
    ]);
    let a = |reason, source| {
        recorded.counter(&format!(
            "tollgate_fallbacks_total{{limit=\"a\",reason=\"{reason}\",source=\"{source}\"}}"
        ))
    };
    assert_eq!((a("timeout", "fallback"), a("circuit-open", "fallback"), a("panicked", "policy")), (1, 2, 1));
    // The limiter reports the decision itself: it is not counted twice.
    assert_eq!(recorded.series().len(), 3, "{:?}", recorded.series());
}

#[test]
fn the_breaker_is_in_one_state_and_its_changes_are_counted() {
    use BreakerState::{Closed, HalfOpen, Open};
    let changes = [Open, HalfOpen, Open, HalfOpen, Closed, Open];
    let mut events = changes.map(|state| Event::BreakerChanged { store: "redis", state }).to_vec();
    events.push(Event::BreakerChanged { store: "cassandra", state: HalfOpen });
    let recorded = after(&events);
    let state =
        |state| recorded.gauge(&format!("tollgate_breaker_state{{store=\"redis\",state=\"{state}\"}}"));
    let close = |value: f64, expected: f64| (value - expected).abs() < f64::EPSILON;
    assert!(close(state("open"), 1.0) && close(state("closed"), 0.0) && close(state("half-open"), 0.0));
    let changes = |state| {
        recorded.counter(&format!("tollgate_breaker_changes_total{{store=\"redis\",state=\"{state}\"}}"))
    };
    assert_eq!((changes("open"), changes("half-open"), changes("closed")), (3, 2, 1));
    let other = "tollgate_breaker_state{store=\"cassandra\",state=\"half-open\"}";
    assert!(close(recorded.gauge(other), 1.0), "each store has its own state");
}

#[test]
fn reconciliations_add_up() {
    let reconciled = |keys, lost| Event::Reconciled { store: "redis", keys, lost };
    let recorded = after(&[reconciled(7, 0), reconciled(5, 30)]);
    assert_eq!(recorded.counter("tollgate_reconciliations_total{store=\"redis\"}"), 2);
    assert_eq!(recorded.counter("tollgate_reconciled_keys_total{store=\"redis\"}"), 12);
    assert_eq!(recorded.counter("tollgate_reconciliation_lost_tokens_total{store=\"redis\"}"), 30);
}

#[test]
fn sync_rounds_are_timed_in_seconds() {
    let took = Duration::from_millis(250);
    let late = StoreError::new(ErrorKind::Timeout, "too late");
    let recorded = after(&[
        Event::Synchronized { keys: 3, took, debt: 9, stale_for: Duration::ZERO, error: None },
        Event::Synchronized { keys: 4, took, debt: 2, stale_for: took, error: Some(&late) },
    ]);
    assert_eq!(recorded.histogram("tollgate_sync_round_seconds"), [0.25, 0.25]);
    assert_eq!(recorded.counter("tollgate_synced_keys_total"), 7);
    assert_eq!(recorded.counter("tollgate_sync_errors_total{kind=\"timeout\"}"), 1);
    assert_eq!(recorded.gauge("tollgate_sync_debt_tokens").to_string(), "2");
    assert_eq!(recorded.gauge("tollgate_sync_stale_seconds").to_string(), "0.25");
}

#[test]
fn store_calls_are_timed_in_seconds_and_their_errors_counted_by_kind() {
    let full = StoreError::new(ErrorKind::Full, "no room");
    let late = StoreError::new(ErrorKind::Timeout, "too late");
    let called = |millis, error| {
        let took = Duration::from_millis(millis);
        Event::StoreCalled { store: "redis", took, error }
    };
    let recorded = after(&[
        called(500, None),
        called(1_500, Some(&late)),
        called(125, Some(&full)),
        called(2_000, Some(&late)),
    ]);
    assert_eq!(recorded.histogram("tollgate_store_call_seconds{store=\"redis\"}"), [0.5, 1.5, 0.125, 2.0]);
    assert_eq!(recorded.counter("tollgate_store_errors_total{store=\"redis\",kind=\"timeout\"}"), 2);
    assert_eq!(recorded.counter("tollgate_store_errors_total{store=\"redis\",kind=\"full\"}"), 1);
    assert_eq!(recorded.series().len(), 3, "{:?}", recorded.series());
}

/// Without a guarded store, nothing else counts a failed check.
#[test]
fn charges_that_are_not_decided_are_counted_by_limit_and_kind() {
    let recorded = record(|| {
        let limiter = Limiter::new(MemoryStore::new()).with_observer(Arc::new(Metrics::new()));
        let (api, jobs) = (Limit::per_second(1).build("api"), Limit::concurrent(1).build("jobs"));
        let (api, jobs) = (api.expect("valid"), jobs.expect("valid"));
        assert!(limiter.charge_now(jobs.charge("a")).is_err());
        assert!(limiter.check_all_now([api.charge("a"), jobs.charge("a")]).is_err());
        assert!(limiter.refund_now(&jobs, "a", 1).is_err());
    });
    let errors =
        |limit| recorded.counter(&format!("tollgate_errors_total{{limit=\"{limit}\",kind=\"unsupported\"}}"));
    assert_eq!((errors("api"), errors("jobs")), (1, 3));
    assert_eq!(recorded.series().len(), 2, "{:?}", recorded.series());
}

#[test]
fn servers_with_an_unsafe_configuration_are_counted() {
    let recorded = after(&[Event::ServerMisconfigured { problem: "redis at host:1 may evict keys" }; 2]);
    assert_eq!(recorded.counter("tollgate_misconfigured_servers_total"), 2);
    assert_eq!(recorded.series().len(), 1, "an address is no label: {:?}", recorded.series());
}

#[test]
fn rules_are_counted_by_source() {
    let down = StoreError::new(ErrorKind::Unavailable, "no route");
    let polled = |source, stale_for, error| Event::RulesPolled { source, stale_for, error };
    let (two, never) = (Duration::from_secs(2), Duration::ZERO);
    let mut events = vec![
        Event::RulesLoaded { source: "rules/", digest: 7, documents: 3 },
        Event::RulesRejected { source: "rules/", problem: "shop: unknown field" },
        polled("rules/", never, None),
        polled("files", two, Some(&down)),
    ];
    let recorded = after(&events);
    assert_eq!(recorded.counter("tollgate_rules_loads_total{source=\"rules/\"}"), 1);
    assert_eq!(recorded.counter("tollgate_rules_rejections_total{source=\"rules/\"}"), 1);
    let gauge = |recorded: &Recorded, name: &str, source: &str| {
        recorded.gauge(&format!("tollgate_rules_{name}{{source=\"{source}\"}}")).to_string()
    };
    assert_eq!(gauge(&recorded, "documents", "rules/"), "3");
    assert_eq!(gauge(&recorded, "rejected", "rules/"), "1");
    assert_eq!(gauge(&recorded, "stale_seconds", "rules/"), "0");
    assert_eq!(gauge(&recorded, "stale_seconds", "files"), "2");
    let errors = "tollgate_rules_poll_errors_total{source=\"files\",kind=\"unavailable\"}";
    assert_eq!(recorded.counter(errors), 1);
    assert_eq!(recorded.series().len(), 7, "{:?}", recorded.series());
    events.push(Event::RulesLoaded { source: "rules/", digest: 8, documents: 4 });
    events.push(polled("files", never, None));
    let recorded = after(&events);
    assert_eq!(gauge(&recorded, "rejected", "rules/"), "0", "repaired");
    assert_eq!(gauge(&recorded, "stale_seconds", "files"), "0", "answers again");
}

#[test]
fn look_ups_of_plans_that_fail_are_counted_by_kind() {
    let late = StoreError::new(ErrorKind::Timeout, "too late");
    let recorded = after(&[Event::PlanUnavailable { error: &late }; 2]);
    assert_eq!(recorded.counter("tollgate_plan_errors_total{kind=\"timeout\"}"), 2);
}
