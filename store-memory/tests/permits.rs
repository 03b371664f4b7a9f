//! A dropped permit releases its slot at once: `decide_detached` executes before it returns, without a runtime.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, IdempotencyKey, LeaseId, Limit, Limiter, ManualClock, Request, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);

fn limiter() -> Arc<Limiter<MemoryStore, ManualClock>> {
    Arc::new(Limiter::with_clock(MemoryStore::config().max_keys(1_000).build(), ManualClock::at(NOW)))
}

fn concurrent(slots: u32) -> Limit {
    Limit::concurrent(slots).lease(Duration::from_secs(60)).build("exports").expect("valid")
}

#[test]
fn a_dropped_permit_releases_its_slot_at_once() {
    let (limiter, exports) = (limiter(), concurrent(2));
    for round in 0..3 {
        let first = limiter.acquire_now(&exports, "user:42").expect("a limit with leases");
        let second = limiter.acquire_now(&exports, "user:42").expect("a limit with leases");
        assert!(first.is_held() && second.is_held(), "round {round}");
        assert!(!limiter.acquire_now(&exports, "user:42").expect("a limit with leases").is_held());
        assert_eq!(limiter.peek_now(&exports, "user:42").remaining(), 0, "a denied permit releases nothing");
        drop(first);
        assert_eq!(limiter.peek_now(&exports, "user:42").remaining(), 1);
        drop(second);
        assert_eq!(limiter.peek_now(&exports, "user:42").remaining(), 2);
    }
}

#[test]
fn a_detached_request_is_executed_before_the_call_returns() {
    let (limiter, exports, lease) = (limiter(), concurrent(1), LeaseId::new(7));
    let charge = exports.charge("user:42").with_lease(lease);
    let store = limiter.store();
    store.decide_detached(Request::new(&[charge]), NOW);
    assert_eq!(limiter.peek_now(&exports, "user:42").remaining(), 0);
    let release = [charge.with_action(Action::Release)];
    let request = Request::new(&release).with_idempotency_key(IdempotencyKey::new(1));
    store.decide_detached(request, NOW);
    assert_eq!(limiter.peek_now(&exports, "user:42").remaining(), 1);
}
