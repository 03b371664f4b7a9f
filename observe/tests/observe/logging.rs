//! Which log lines are written, at which level, and how often.

use std::time::Duration;

use tollgate_core::{
    BreakerState, Clock, ErrorKind, Event, FallbackReason, ManualClock, Observer, Source, StoreError,
};
use tollgate_observe::{Log, MAX_LIMITS, OTHER};
use tracing::Level;

use crate::lines::{Line, lines};
use crate::{allowed, denied};

const INTERVAL: Duration = Duration::from_secs(10);

fn log(clock: &ManualClock) -> Log<ManualClock> {
    Log::with_clock(clock.clone()).interval(INTERVAL)
}

/// Returns the one line that an event writes.
#[track_caller]
fn line(event: Event<'_>) -> Line {
    let lines = lines(|| log(&ManualClock::default()).observe(event));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].target, "tollgate");
    lines[0].clone()
}

#[track_caller]
fn assert_line(event: Event<'_>, level: Level, parts: &[&str]) {
    let line = line(event);
    assert_eq!(line.level, level, "{line:?}");
    for part in parts {
        assert!(line.text.contains(part), "{part:?} is not in: {line:?}");
    }
}

#[test]
fn failures_are_warnings() {
    let error = StoreError::new(ErrorKind::Timeout, "no answer in time");
    let took = Duration::from_millis(20);
    let called = Event::StoreCalled { store: "redis", took, error: Some(&error) };
    assert_line(called, Level::WARN, &["kind=\"timeout\"", "no answer in time", "took=20ms", "count=1"]);
    let failed = Event::Failed { limit: "api", error: &error };
    assert_line(failed, Level::WARN, &["limit=\"api\"", "kind=\"timeout\"", "no answer in time", "count=1"]);
    let fallback = allowed(Source::Fallback);
    let fell_back =
        Event::FellBack { limit: "api", reason: FallbackReason::CircuitOpen, decision: &fallback };
    let parts = ["limit=\"api\"", "reason=\"circuit-open\"", "source=\"fallback\"", "count=1"];
    assert_line(fell_back, Level::WARN, &parts);
    let opened = Event::BreakerChanged { store: "redis", state: BreakerState::Open };
    assert_line(opened, Level::WARN, &["store=\"redis\"", "state=\"open\""]);
    assert_line(Event::Reconciled { store: "redis", keys: 4, lost: 2 }, Level::WARN, &["keys=4", "lost=2"]);
    let problem = "redis at host:1 may evict keys";
    assert_line(Event::ServerMisconfigured { problem }, Level::WARN, &[problem]);
}

#[test]
fn recovery_is_information() {
    let changed = |state| Event::BreakerChanged { store: "redis", state };
    assert_line(changed(BreakerState::HalfOpen), Level::INFO, &["half-open"]);
    assert_line(changed(BreakerState::Closed), Level::INFO, &["store=\"redis\"", "state=\"closed\""]);
    assert_line(Event::Reconciled { store: "redis", keys: 4, lost: 0 }, Level::INFO, &["keys=4"]);
}

#[test]
fn a_central_store_that_does_not_answer_is_a_failed_store() {
    let (took, error) = (Duration::from_millis(3), StoreError::new(ErrorKind::Timeout, "too late"));
    let synchronized = Event::Synchronized { keys: 0, took, debt: 0, stale_for: took, error: Some(&error) };
    assert_line(synchronized, Level::WARN, &["kind=\"timeout\"", "too late"]);
}

#[test]
fn routine_events_are_for_debugging() {
    let no = denied(Source::Store);
    let parts = ["limit=\"api\"", "outcome=\"denied\"", "source=\"store\"", "1s"];
    assert_line(Event::Decided { limit: "api", decision: &no }, Level::DEBUG, &parts);
    let yes = allowed(Source::Store);
    assert_line(Event::Decided { limit: "api", decision: &yes }, Level::TRACE, &["limit=\"api\"", "allowed"]);
    let took = Duration::from_millis(3);
    assert_line(Event::StoreCalled { store: "redis", took, error: None }, Level::TRACE, &["took=3ms"]);
    let synchronized = Event::Synchronized { keys: 9, took, debt: 4, stale_for: Duration::ZERO, error: None };
    assert_line(synchronized, Level::TRACE, &["keys=9", "took=3ms", "debt=4"]);
}

#[test]
fn rules_that_cannot_be_used_or_read_are_warnings() {
    let loaded = Event::RulesLoaded { source: "rules/", digest: 0xab, documents: 2 };
    let parts = ["source=\"rules/\"", "digest=00000000000000ab", "documents=2"];
    assert_line(loaded, Level::INFO, &parts);
    let problem = "shop.yaml: unknown field `limti`; did you mean `limit`?";
    assert_line(Event::RulesRejected { source: "rules/", problem }, Level::WARN, &[problem]);
    let (down, never) = (StoreError::new(ErrorKind::Unavailable, "no route"), Duration::ZERO);
    let polled = |stale_for, error| Event::RulesPolled { source: "rules/", stale_for, error };
    let parts = ["kind=\"unavailable\"", "stale_for=3s", "no route", "count=1"];
    assert_line(polled(Duration::from_secs(3), Some(&down)), Level::WARN, &parts);
    assert_line(polled(never, None), Level::TRACE, &["source=\"rules/\""]);
    let parts = ["kind=\"unavailable\"", "no route"];
    assert_line(Event::PlanUnavailable { error: &down }, Level::WARN, &parts);
}

#[test]
fn polls_and_look_ups_that_fail_are_logged_once_per_interval() {
    let clock = ManualClock::default();
    let log = log(&clock);
    let down = StoreError::new(ErrorKind::Unavailable, "no route");
    let lines = lines(|| {
        for second in 0..12 {
            let stale_for = Duration::from_secs(second);
            log.observe(Event::RulesPolled { source: "rules/", stale_for, error: Some(&down) });
            log.observe(Event::PlanUnavailable { error: &down });
            clock.advance(Duration::from_secs(1));
        }
    });
    assert_eq!(counts(&lines), [1, 1, 10, 10], "{lines:?}");
}

/// Returns the `count` fields of the lines, in order.
fn counts(lines: &[Line]) -> Vec<u64> {
    let count = |line: &Line| line.text.split_once("count=")?.1.split_once(' ')?.0.parse().ok();
    lines.iter().filter_map(count).collect()
}

#[test]
fn fallbacks_are_logged_when_they_begin_and_then_once_per_interval() {
    let (clock, fallback) = (ManualClock::default(), allowed(Source::Fallback));
    let start = clock.now();
    let log = log(&clock);
    let lines = lines(|| {
        // A hundred a second, for half a minute.
        for number in 0..3_000 {
            clock.set(start + Duration::from_millis(10 * number));
            log.observe(Event::FellBack {
                limit: "api",
                reason: FallbackReason::CircuitOpen,
                decision: &fallback,
            });
        }
    });
    assert_eq!(counts(&lines), [1, 1_000, 1_000], "{lines:?}");
}

#[test]
fn each_limit_and_reason_has_its_own_lines() {
    let (clock, fallback) = (ManualClock::default(), allowed(Source::Fallback));
    let log = log(&clock);
    let late = FallbackReason::Failed(ErrorKind::Timeout);
    let lines = lines(|| {
        for _ in 0..5 {
            for (limit, reason) in [("a", FallbackReason::CircuitOpen), ("a", late), ("b", late)] {
                log.observe(Event::FellBack { limit, reason, decision: &fallback });
            }
        }
    });
    assert_eq!(counts(&lines), [1, 1, 1], "{lines:?}");
}

#[test]
fn failed_calls_are_logged_once_per_interval_and_kind() {
    let clock = ManualClock::default();
    let log = log(&clock);
    let (late, full) =
        (StoreError::new(ErrorKind::Timeout, "late"), StoreError::new(ErrorKind::Full, "full"));
    let took = Duration::ZERO;
    let lines = lines(|| {
        for error in [&late, &late, &full, &late] {
            log.observe(Event::StoreCalled { store: "redis", took, error: Some(error) });
        }
        clock.advance(INTERVAL);
        log.observe(Event::StoreCalled { store: "redis", took, error: Some(&late) });
    });
    assert_eq!(counts(&lines), [1, 1, 3], "{lines:?}");
}

#[test]
fn any_number_of_limits_writes_a_bounded_number_of_lines() {
    let (clock, fallback) = (ManualClock::default(), allowed(Source::Fallback));
    let log = log(&clock);
    let lines = lines(|| {
        for number in 0..10_000 {
            let limit = &format!("limit {number}");
            log.observe(Event::FellBack { limit, reason: FallbackReason::CircuitOpen, decision: &fallback });
        }
    });
    assert_eq!(lines.len(), MAX_LIMITS + 1);
    assert!(lines[MAX_LIMITS].text.contains(OTHER), "{:?}", lines[MAX_LIMITS]);
}
