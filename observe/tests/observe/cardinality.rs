//! Names of limits, however many there are, are few labels.

use std::collections::BTreeSet;

use tollgate_core::{Event, FallbackReason, Observer, Source};
use tollgate_observe::{MOST_LIMITS, Metrics, OTHER};

use crate::passing;
use crate::recorded::{Recorded, recorded};

/// What ten thousand limits leave behind: each has one decision and one fallback.
fn ten_thousand_limits(make: impl FnOnce() -> Metrics) -> Recorded {
    let decision = passing(Source::Fallback);
    recorded(|| {
        let metrics = make();
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

fn labels(told: &Recorded) -> BTreeSet<&str> {
    told.series().iter().filter_map(|series| series.split('"').nth(1)).collect()
}

fn decisions_of(told: &Recorded, limit: &str) -> u64 {
    told.counter(&format!(
        "tollgate_decisions_total{{limit=\"{limit}\",outcome=\"allowed\",source=\"fallback\"}}"
    ))
}

#[test]
fn only_the_first_thousand_have_a_label_of_their_own() {
    let told = ten_thousand_limits(Metrics::new);
    let labels = labels(&told);
    assert_eq!(labels.len(), MOST_LIMITS + 1);
    assert!(labels.contains("limit 999") && labels.contains(OTHER) && !labels.contains("limit 1000"));
    assert_eq!((decisions_of(&told, "limit 999"), decisions_of(&told, OTHER)), (1, 9_000));
    assert_eq!(told.counter("tollgate_folded_total"), 18_000);
}

#[test]
fn how_many_is_a_setting() {
    let told = ten_thousand_limits(|| Metrics::new().most_limits(3));
    assert_eq!(labels(&told), BTreeSet::from(["limit 0", "limit 1", "limit 2", OTHER]));
    assert_eq!(decisions_of(&told, OTHER), 9_997);
    let none = ten_thousand_limits(|| Metrics::new().most_limits(0));
    assert_eq!((labels(&none), decisions_of(&none, OTHER)), (BTreeSet::from([OTHER]), 10_000));
}

#[test]
fn a_limit_that_is_called_like_the_rest_is_not_mistaken_for_it() {
    let decision = passing(Source::Fallback);
    let told = recorded(|| Metrics::new().observe(Event::Decided { limit: OTHER, decision: &decision }));
    assert_eq!((decisions_of(&told, OTHER), told.series().len()), (1, 1), "{:?}", told.series());
}
