//! The number of labels is bounded, whatever the number of limits.

use std::collections::BTreeSet;

use tollgate_core::{Event, FallbackReason, Observer, Source};
use tollgate_observe::{MAX_LIMITS, Metrics, OTHER};

use crate::allowed;
use crate::recorded::{Recorded, record};

/// Records one decision and one fallback for each of ten thousand limits.
fn ten_thousand_limits(create: impl FnOnce() -> Metrics) -> Recorded {
    let decision = allowed(Source::Fallback);
    record(|| {
        let metrics = create();
        for number in 0..10_000 {
            let limit = &format!("limit {number}");
            metrics.observe(Event::Decided { limit, decision: &decision });
            metrics.observe(Event::FellBack {
                limit,
                reason: FallbackReason::CircuitOpen,
                decision: &decision,
            });
        }
    })
}

fn labels(recorded: &Recorded) -> BTreeSet<&str> {
    recorded.series().iter().filter_map(|series| series.split('"').nth(1)).collect()
}

fn decisions_of(recorded: &Recorded, limit: &str) -> u64 {
    recorded.counter(&format!(
        "tollgate_decisions_total{{limit=\"{limit}\",outcome=\"allowed\",source=\"fallback\"}}"
    ))
}

#[test]
fn only_the_first_thousand_limits_have_their_own_label() {
    let recorded = ten_thousand_limits(Metrics::new);
    let labels = labels(&recorded);
    assert_eq!(labels.len(), MAX_LIMITS + 1);
    assert!(labels.contains("limit 999") && labels.contains(OTHER) && !labels.contains("limit 1000"));
    assert_eq!((decisions_of(&recorded, "limit 999"), decisions_of(&recorded, OTHER)), (1, 9_000));
    assert_eq!(recorded.counter("tollgate_limit_label_overflow_total"), 18_000);
}

#[test]
fn the_number_of_labels_is_configurable() {
    let recorded = ten_thousand_limits(|| Metrics::new().max_limits(3));
    assert_eq!(labels(&recorded), BTreeSet::from(["limit 0", "limit 1", "limit 2", OTHER]));
    assert_eq!(decisions_of(&recorded, OTHER), 9_997);
    let none = ten_thousand_limits(|| Metrics::new().max_limits(0));
    assert_eq!((labels(&none), decisions_of(&none, OTHER)), (BTreeSet::from([OTHER]), 10_000));
}

#[test]
fn a_limit_named_like_the_shared_label_is_counted_as_itself() {
    let decision = allowed(Source::Fallback);
    let recorded = record(|| Metrics::new().observe(Event::Decided { limit: OTHER, decision: &decision }));
    assert_eq!((decisions_of(&recorded, OTHER), recorded.series().len()), (1, 1), "{:?}", recorded.series());
}
