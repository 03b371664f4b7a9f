//! Concurrent threads, and the cost of a decision.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::DebuggingRecorder;
use tollgate_core::{Event, FallbackReason, Observer, Source};
use tollgate_observe::Metrics;

use crate::recorded::Recorded;
use crate::{allowed, denied};

#[test]
fn concurrent_threads_lose_no_events() {
    const THREADS: usize = 8;
    const ROUNDS: u64 = 2_000;
    let recorder = DebuggingRecorder::new();
    let metrics = metrics::with_local_recorder(&recorder, || Metrics::new().max_limits(40));
    let (yes, no) = (allowed(Source::Fallback), denied(Source::Fallback));
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                metrics::with_local_recorder(&recorder, || {
                    start.wait();
                    for round in 0..ROUNDS {
                        // All threads use every limit and every label value for the first time together.
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
    let recorded = Recorded::by(&recorder);
    let sum = |start: &str| {
        let series = recorded.series().into_iter().filter(|series| series.starts_with(start));
        series.map(|series| recorded.counter(series)).sum::<u64>()
    };
    let all = THREADS as u64 * ROUNDS;
    assert_eq!((sum("tollgate_decisions_total"), sum("tollgate_fallbacks_total")), (all, all));
    assert_eq!(recorded.counter("tollgate_limit_label_overflow_total"), 2 * all / 5);
    let other = "tollgate_fallbacks_total{limit=\"(other)\",reason=\"circuit-open\",source=\"fallback\"}";
    assert_eq!(recorded.counter(other), all / 5);
}

/// A recorder with counters only.
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
fn known_limits_cost_no_allocation() {
    let observed = AtomicU64::new(0);
    let (yes, no) = (allowed(Source::Store), denied(Source::Store));
    metrics::with_local_recorder(&Plain, || {
        let metrics = Metrics::new().max_limits(2);
        let work = || {
            for limit in ["a", "b", "too many"] {
                for decision in [&yes, &no] {
                    metrics.observe(Event::Decided { limit, decision });
                    observed.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        assert!(allocation_counter::measure(work).count_total > 0, "the first use allocates");
        assert_eq!(allocation_counter::measure(work).count_total, 0);
    });
    assert_eq!(observed.load(Ordering::Relaxed), 12);
}
