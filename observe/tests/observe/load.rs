//! Many threads at once, and what a decision costs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::DebuggingRecorder;
use tollgate_core::{Event, FallbackReason, Observer, Source};
use tollgate_observe::Metrics;

use crate::recorded::Recorded;
use crate::{passing, refusing};

#[test]
fn many_threads_lose_nothing() {
    const THREADS: usize = 8;
    const ROUNDS: u64 = 2_000;
    let recorder = DebuggingRecorder::new();
    let metrics = metrics::with_local_recorder(&recorder, || Metrics::new().most_limits(40));
    let (yes, no) = (passing(Source::Fallback), refusing(Source::Fallback));
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                metrics::with_local_recorder(&recorder, || {
                    start.wait();
                    for round in 0..ROUNDS {
                        // All meet every limit and every word for the first time together.
                        let limit = &format!("limit {}", round % 50);
                        let decision = if round % 3 == 0 { &yes } else { &no };
                        metrics.observe(Event::Decided { limit, decision });
                        metrics.observe(Event::FellBack {
                            limit,
                            reason: FallbackReason::CircuitOpen,
                            decision,
                        });
                    }
                });
            });
        }
    });
    let told = Recorded::by(&recorder);
    let sum = |start: &str| {
        let series = told.series().into_iter().filter(|series| series.starts_with(start));
        series.map(|series| told.counter(series)).sum::<u64>()
    };
    let all = THREADS as u64 * ROUNDS;
    assert_eq!((sum("tollgate_decisions_total"), sum("tollgate_fallbacks_total")), (all, all));
    assert_eq!(told.counter("tollgate_folded_total"), 2 * all / 5);
    let other = "tollgate_fallbacks_total{limit=\"(other)\",reason=\"not-asked\",source=\"fallback\"}";
    assert_eq!(told.counter(other), all / 5);
}

/// Gives out counters and nothing else.
struct Plain;

impl Recorder for Plain {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn limits_that_are_known_cost_no_allocation() {
    let told = AtomicU64::new(0);
    let (yes, no) = (passing(Source::Store), refusing(Source::Store));
    metrics::with_local_recorder(&Plain, || {
        let metrics = Metrics::new().most_limits(2);
        let work = || {
            for limit in ["a", "b", "too many"] {
                for decision in [&yes, &no] {
                    metrics.observe(Event::Decided { limit, decision });
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        assert!(allocation_counter::measure(work).count_total > 0, "the first time something is made");
        assert_eq!(allocation_counter::measure(work).count_total, 0);
    });
    assert_eq!(told.load(Ordering::Relaxed), 12);
}
