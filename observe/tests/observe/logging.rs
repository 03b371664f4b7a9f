//! Which lines are written, at which level, and how often.

use std::time::Duration;

use tollgate_core::{
    BreakerState, Clock, ErrorKind, Event, FallbackReason, ManualClock, Observer, Source, StoreError,
};
use tollgate_observe::{Log, MOST_LIMITS, OTHER};
use tracing::Level;

use crate::lines::{Line, lines};
use crate::{passing, refusing};

const EVERY: Duration = Duration::from_secs(10);

fn log(clock: &ManualClock) -> Log<ManualClock> {
    Log::with_clock(clock.clone()).every(EVERY)
}

/// The one line about an event.
#[track_caller]
fn line(event: Event<'_>) -> Line {
    let lines = lines(|| log(&ManualClock::default()).observe(event));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].target, "tollgate");
    lines[0].clone()
}

#[track_caller]
fn assert_line(event: Event<'_>, level: Level, says: &[&str]) {
    let line = line(event);
    assert_eq!(line.level, level, "{line:?}");
    for part in says {
        assert!(line.text.contains(part), "{part:?} is not in: {line:?}");
    }
}

#[test]
fn what_somebody_should_look_at_is_a_warning() {
    let error = StoreError::new(ErrorKind::Timeout, "it did not answer in time");
    let took = Duration::from_millis(20);
    let called = Event::StoreCalled { took, error: Some(&error) };
    assert_line(
        called,
        Level::WARN,
        &["kind=\"timeout\"", "it did not answer in time", "took=20ms", "count=1"],
    );
    let guess = passing(Source::Fallback);
    let fallback = Event::FellBack { limit: "api", reason: FallbackReason::CircuitOpen, decision: &guess };
    let says = ["limit=\"api\"", "reason=\"not-asked\"", "source=\"fallback\"", "count=1"];
    assert_line(fallback, Level::WARN, &says);
    assert_line(Event::BreakerChanged { state: BreakerState::Open }, Level::WARN, &["state=\"open\""]);
    assert_line(Event::Reconciled { keys: 4, lost: 2 }, Level::WARN, &["keys=4", "lost=2"]);
}

#[test]
fn what_gets_better_is_information() {
    assert_line(Event::BreakerChanged { state: BreakerState::HalfOpen }, Level::INFO, &["half-open"]);
    assert_line(Event::BreakerChanged { state: BreakerState::Closed }, Level::INFO, &["state=\"closed\""]);
    assert_line(Event::Reconciled { keys: 4, lost: 0 }, Level::INFO, &["keys=4"]);
}

#[test]
fn a_centre_that_does_not_answer_is_a_store_that_failed() {
    let (took, error) = (Duration::from_millis(3), StoreError::new(ErrorKind::Timeout, "too late"));
    let exchanged = Event::Synchronized { keys: 0, took, debt: 0, stale_for: took, error: Some(&error) };
    assert_line(exchanged, Level::WARN, &["kind=\"timeout\"", "too late"]);
}

#[test]
fn what_happens_all_the_time_is_for_debugging() {
    let no = refusing(Source::Store);
    let says = ["limit=\"api\"", "outcome=\"denied\"", "source=\"store\"", "1s"];
    assert_line(Event::Decided { limit: "api", decision: &no }, Level::DEBUG, &says);
    let yes = passing(Source::Store);
    assert_line(Event::Decided { limit: "api", decision: &yes }, Level::TRACE, &["limit=\"api\"", "allowed"]);
    let took = Duration::from_millis(3);
    assert_line(Event::StoreCalled { took, error: None }, Level::TRACE, &["took=3ms"]);
    let exchanged = Event::Synchronized { keys: 9, took, debt: 4, stale_for: Duration::ZERO, error: None };
    assert_line(exchanged, Level::TRACE, &["keys=9", "took=3ms", "debt=4"]);
}

/// The numbers that the lines give, in order.
fn counts(lines: &[Line]) -> Vec<u64> {
    let count = |line: &Line| line.text.split_once("count=")?.1.split_once(' ')?.0.parse().ok();
    lines.iter().filter_map(count).collect()
}

#[test]
fn fallbacks_are_told_when_they_begin_and_then_once_in_a_while() {
    let (clock, guess) = (ManualClock::default(), passing(Source::Fallback));
    let start = clock.now();
    let log = log(&clock);
    let lines = lines(|| {
        // A hundred a second, for half a minute.
        for number in 0..3_000 {
            clock.set(start + Duration::from_millis(10 * number));
            log.observe(Event::FellBack {
                limit: "api",
                reason: FallbackReason::CircuitOpen,
                decision: &guess,
            });
        }
    });
    assert_eq!(counts(&lines), [1, 1_000, 1_000], "{lines:?}");
}

#[test]
fn limits_and_reasons_have_lines_of_their_own() {
    let (clock, guess) = (ManualClock::default(), passing(Source::Fallback));
    let log = log(&clock);
    let late = FallbackReason::Failed(ErrorKind::Timeout);
    let lines = lines(|| {
        for _ in 0..5 {
            for (limit, reason) in [("a", FallbackReason::CircuitOpen), ("a", late), ("b", late)] {
                log.observe(Event::FellBack { limit, reason, decision: &guess });
            }
        }
    });
    assert_eq!(counts(&lines), [1, 1, 1], "{lines:?}");
}

#[test]
fn calls_that_fail_are_told_once_in_a_while_by_kind() {
    let clock = ManualClock::default();
    let log = log(&clock);
    let (late, full) =
        (StoreError::new(ErrorKind::Timeout, "late"), StoreError::new(ErrorKind::Full, "full"));
    let took = Duration::ZERO;
    let lines = lines(|| {
        for error in [&late, &late, &full, &late] {
            log.observe(Event::StoreCalled { took, error: Some(error) });
        }
        clock.advance(EVERY);
        log.observe(Event::StoreCalled { took, error: Some(&late) });
    });
    assert_eq!(counts(&lines), [1, 1, 3], "{lines:?}");
}

#[test]
fn limits_without_number_have_few_lines() {
    let (clock, guess) = (ManualClock::default(), passing(Source::Fallback));
    let log = log(&clock);
    let lines = lines(|| {
        for number in 0..10_000 {
            let limit = &format!("limit {number}");
            log.observe(Event::FellBack { limit, reason: FallbackReason::CircuitOpen, decision: &guess });
        }
    });
    assert_eq!(lines.len(), MOST_LIMITS + 1);
    assert!(lines[MOST_LIMITS].text.contains(OTHER), "{:?}", lines[MOST_LIMITS]);
}
