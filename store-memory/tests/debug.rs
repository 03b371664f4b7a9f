//! Debug output is short, and contains neither keys nor the secrets that hash them.

use tollgate_core::{Limit, Limiter, ManualClock, Time};
use tollgate_store_memory::{DirectLimiter, MemoryStore};

const NOW: Time = Time::from_secs(1_790_000_000);

fn assert_short(shown: &str) {
    assert!(shown.len() < 600, "{} bytes: {shown}", shown.len());
    for secret in ["seed", "position", "lines", "entries", "alice"] {
        assert!(!shown.to_lowercase().contains(secret), "shows {secret}: {shown}");
    }
}

#[test]
fn a_store_shows_neither_seeds_nor_slots() {
    let store = MemoryStore::config().max_keys(1_000).build();
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW));
    let log = Limit::per_hour(5).sliding_log().build("log").expect("valid");
    for key in 0..2_000 {
        let _ = limiter.check_now(&log, &format!("alice {key}"));
    }
    assert_short(&format!("{:?}", limiter.store()));
    assert_short(&format!("{limiter:?}"));
    assert_short(&format!("{limiter:#?}"));
    assert!(format!("{:?}", limiter.store()).contains("MemoryStore"));
}

#[test]
fn a_direct_limiter_does_not_show_its_log() {
    let log = Limit::per_hour(100_000).sliding_log().build("log").expect("valid");
    let clock = ManualClock::at(NOW);
    let limiter = DirectLimiter::with_clock(log, clock.clone());
    for _ in 0..1_000 {
        clock.advance(std::time::Duration::from_nanos(1));
        assert!(limiter.check().is_allowed());
    }
    let shown = format!("{limiter:?}");
    assert!(shown.len() < 1_500 && shown.contains("log"), "{} bytes: {shown}", shown.len());
}
