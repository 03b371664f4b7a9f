//! Real threads under real contention. Loom explores small cases exhaustively; these tests cover large ones.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Clock, Limit, Request, SystemClock, Time};
use tollgate_store_memory::{DirectLimiter, MemoryStore};

const THREADS: usize = 4;
const NOW: Time = Time::from_secs(1_790_000_000);

/// Runs `work` on all threads at the same time.
fn in_parallel(work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn a_hot_key_admits_exactly_its_burst() {
    for limit in [Limit::per_hour(100_000), Limit::per_hour(100_000).fixed_window()] {
        let (limit, store, passed) =
            (limit.build("hot").expect("valid"), MemoryStore::new(), AtomicU64::new(0));
        in_parallel(|_| {
            for _ in 0..50_000 {
                let allowed = store.charge_now(&limit.charge("hot"), &NOW).is_allowed();
                passed.fetch_add(u64::from(allowed), Ordering::Relaxed);
            }
        });
        assert_eq!(passed.into_inner(), 100_000);
    }
}

#[test]
fn a_direct_limiter_admits_exactly_its_burst() {
    for limit in [Limit::per_day(100_000), Limit::per_day(100_000).sliding_window()] {
        let clock = tollgate_core::ManualClock::at(NOW);
        let limiter = DirectLimiter::with_clock(limit.build("direct").expect("valid"), clock);
        let passed = AtomicU64::new(0);
        in_parallel(|_| {
            for _ in 0..50_000 {
                passed.fetch_add(u64::from(limiter.check().is_allowed()), Ordering::Relaxed);
            }
        });
        assert_eq!(passed.into_inner(), 100_000);
    }
}

/// Keys that expire within microseconds, in a table far too small for them, so that slots are taken over all the
/// time. No key gets more than its burst and its refill.
#[test]
fn slot_takeovers_never_over_admit() {
    const KEYS: usize = 64;
    let store = MemoryStore::config().max_keys(8).build();
    let limit = Limit::per(1, Duration::from_micros(50)).build("quick").expect("valid");
    let clock = SystemClock::new();
    let start = clock.now();
    let passed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    in_parallel(|thread| {
        for round in 0..60_000 {
            let key = (round * 7 + thread * 13) % KEYS;
            let name = [u8::try_from(key).expect("small")];
            let allowed = store.charge_now(&limit.charge(&name), &clock).is_allowed();
            passed[key].fetch_add(u64::from(allowed), Ordering::Relaxed);
        }
    });
    let elapsed = clock.now().since(start);
    let most = 1 + u64::try_from(elapsed.as_micros() / 50 + 1).expect("small");
    assert_eq!(store.stats(clock.now()).evicted, 0, "all keys in use fit, in slots or in shards");
    for (key, passed) in passed.iter().enumerate() {
        let passed = passed.load(Ordering::Relaxed);
        assert!(passed <= most, "key {key}: {passed} of {most} in {elapsed:?}");
    }
}

/// Requests over two keys, single charges and refunds add up.
#[test]
fn requests_charges_and_refunds_add_up() {
    let (store, limit) = (MemoryStore::config().max_keys(64).build(), Limit::per_day(1_000_000));
    let limit = limit.build("balance").expect("valid");
    let (pairs, singles) = (AtomicU64::new(0), AtomicU64::new(0));
    in_parallel(|thread| {
        for round in 0..20_000_usize {
            let (first, second) = if (round + thread) % 2 == 0 { ("a", "b") } else { ("b", "a") };
            match round % 3 {
                0 => {
                    let charges = [limit.charge(first), limit.charge(second).with_cost(2)];
                    let verdict = store.decide_now(Request::new(&charges), NOW).expect("supported");
                    pairs.fetch_add(3 * u64::from(verdict.is_allowed()), Ordering::Relaxed);
                }
                1 => {
                    let granted = store.charge_now(&limit.charge(first).with_cost(3), &NOW).granted();
                    singles.fetch_add(granted.into(), Ordering::Relaxed);
                }
                _ => {
                    let refund = tollgate_core::Action::Refund { at: None };
                    let refunded =
                        store.charge_now(&limit.charge(second).with_action(refund), &NOW).granted();
                    singles.fetch_sub(refunded.into(), Ordering::Relaxed);
                }
            }
        }
    });
    let left = |key| u64::from(store.charge_now(&limit.charge(key).with_cost(0), &NOW).remaining());
    let used = 2_000_000 - left("a") - left("b");
    assert_eq!(
        used,
        pairs.into_inner().wrapping_add(singles.into_inner()),
        "no update is lost or applied twice"
    );
}
