//! Keys appear in no label and in no log line.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{
    ErrorKind, Event, FallbackReason, Limit, Limiter, ManualClock, Observer, Source, StoreError,
};
use tollgate_observe::{Fanout, Log, Metrics};
use tollgate_store_memory::MemoryStore;

use crate::lines::lines;
use crate::recorded::record;

const KEY: &str = "user-with-a-unique-name";

fn limits() -> [Limit; 5] {
    let two = || Limit::per_hour(2);
    [
        two().build("bucket").expect("valid"),
        two().fixed_window().build("window").expect("valid"),
        two().sliding_log().build("log").expect("valid"),
        two().queue(1).build("queue").expect("valid"),
        Limit::concurrent(2).lease(Duration::from_secs(60)).build("leases").expect("valid"),
    ]
}

/// Uses a limiter in every way: allowed, denied, never fitting and unsupported charges. The errors are reported as a
/// guard would report them: as failed store calls and as fallbacks.
fn use_everything(observer: &Arc<dyn Observer>) {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(MemoryStore::new(), clock).with_observer(Arc::clone(observer));
    let mut errors = vec![StoreError::new(ErrorKind::Timeout, "no answer in time")];
    for limit in &limits() {
        for _ in 0..4 {
            let _ = limiter.check_now(limit, KEY);
        }
        let charges =
            [limit.charge(KEY).with_cost(1_000), limit.charge(KEY).with_max_wait(Duration::from_secs(1))];
        errors.extend(charges.into_iter().filter_map(|charge| limiter.charge_now(charge).err()));
    }
    assert!(errors.len() > 1, "the store returned no error");
    for error in &errors {
        observer.observe(Event::StoreCalled { store: "redis", took: Duration::ZERO, error: Some(error) });
        let (limit, reason) = (limits()[0].clone(), FallbackReason::Failed(error.kind()));
        let decision = &RawDecision::allow(&limit.charge(KEY), Source::Fallback).into();
        observer.observe(Event::FellBack { limit: limit.name(), reason, decision });
    }
}

#[test]
fn no_label_and_no_line_contains_a_key() {
    let written = Mutex::new(Vec::new());
    let recorded = record(|| {
        *written.lock().expect("one thread") = lines(|| {
            let both = Fanout::new().and(Arc::new(Metrics::new())).and(Arc::new(Log::new()));
            let observer: Arc<dyn Observer> = Arc::new(both);
            use_everything(&observer);
        });
    });
    let written = written.into_inner().expect("one thread");
    // Both have received the events, and neither contains the key.
    assert!(recorded.series().iter().any(|series| series.contains("never-fits")), "{:?}", recorded.series());
    assert!(written.iter().any(|line| line.text.contains("never-fits")), "{written:?}");
    for series in recorded.series() {
        assert!(!series.contains(KEY), "{series}");
    }
    for line in written {
        assert!(!line.text.contains(KEY), "{line:?}");
    }
}
