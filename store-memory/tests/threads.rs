//! Real threads under real contention. Loom explores small cases exhaustively; these tests cover large ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Clock, Limit, LimitBuilder, Request, SystemClock, Time};
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
    let hourly = || Limit::per_hour(100_000);
    for limit in
        [hourly(), hourly().fixed_window(), hourly().fixed_window().anchored(), hourly().sliding_window()]
    {
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
    let quick = || Limit::per(1, Duration::from_micros(50));
    for limit in
        [quick(), quick().fixed_window(), quick().fixed_window().anchored(), quick().sliding_window()]
    {
        take_over_slots(&limit.build("quick").expect("valid"));
    }
}

fn take_over_slots(limit: &Limit) {
    const KEYS: usize = 64;
    let store = MemoryStore::config().max_keys(8).build();
    let clock = SystemClock::new();
    let start = clock.now();
    let passed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    in_parallel(|thread| {
        for round in 0..30_000 {
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
    let daily = || Limit::per_day(1_000_000);
    for limit in [daily(), daily().fixed_window(), daily().sliding_window()] {
        add_up(&limit.build("balance").expect("valid"));
    }
}

fn add_up(limit: &Limit) {
    let store = MemoryStore::config().max_keys(64).build();
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

/// Threads read the clock before they take a lock, so a thread with an earlier time may find that another one has
/// swept its key's state. No two units pass within a period all the same.
#[test]
fn sweeps_never_over_admit() {
    const KEYS: usize = 256;
    let period = Duration::from_micros(300);
    for limit in [
        Limit::per(1, period),
        Limit::per(1, period).sliding_log(),
        Limit::per(1, period).fixed_window().anchored(),
        Limit::per(1, period).refill_by_interval(),
        Limit::concurrent(1).lease(period),
        Limit::per(1, period).block_for(Duration::from_nanos(1)),
    ] {
        let limit = limit.build("quick").expect("valid");
        let (store, clock) = (MemoryStore::config().max_keys(8).build(), SystemClock::new());
        // The times before and after each pass of a key. It was decided in between.
        let passes: Vec<_> = (0..KEYS).map(|_| Mutex::new(Vec::new())).collect();
        in_parallel(|thread| {
            for round in 0..60_000 {
                let key = (round * 7 + thread * 13) % KEYS;
                let name = [u8::try_from(key).expect("small")];
                let before = clock.now();
                if store.charge_now(&limit.charge(&name), &clock).is_allowed() {
                    passes[key].lock().expect("no panic").push((before, clock.now()));
                }
            }
        });
        let early = passes.into_iter().map(|passes| {
            let mut passes = passes.into_inner().expect("no panic");
            passes.sort_unstable();
            let within_a_period = |pair: &&[(Time, Time)]| pair[0].1.max(pair[1].1).since(pair[0].0) < period;
            passes.windows(2).filter(within_a_period).count()
        });
        assert_eq!(early.sum::<usize>(), 0, "{:?}: passes within a period", limit.kind());
    }
}

/// All algorithms, by a clock that threads read before they take a lock. Nothing is denied while there is room.
fn nothing_is_denied_while_there_is_room(limit: LimitBuilder, each: u32) {
    let limit = limit.build("wide").expect("valid");
    let (store, clock) = (MemoryStore::config().max_keys(8).build(), SystemClock::new());
    let denied = AtomicU64::new(0);
    // A limiter that warms up and a queue let callers wait; only a denial counts.
    let charge = if limit.kind().reserves() {
        limit.charge("hot").with_max_wait(Duration::from_secs(3_600))
    } else {
        limit.charge("hot")
    };
    in_parallel(|_| {
        for _ in 0..each {
            let is_denied = store.charge_now(&charge, &clock).is_denied();
            denied.fetch_add(u64::from(is_denied), Ordering::Relaxed);
        }
    });
    let left = store.charge_now(&limit.charge("hot").with_cost(0), &clock).remaining();
    assert_eq!(denied.into_inner(), 0, "{:?}: denied with {left} left", limit.kind());
}

#[test]
fn nothing_is_denied_while_there_is_room_under_any_algorithm() {
    let day = || Limit::per_day(100_000);
    for limit in [
        day(),
        day().refill_by_interval(),
        day().leaky_bucket(),
        Limit::per_second(100_000).queue(99_999),
        day().gcra(),
        Limit::per_second(100_000).smooth(),
        Limit::per_second(100_000).warm_up(Duration::from_secs(1)),
        day().fixed_window(),
        day().fixed_window().anchored(),
        day().sliding_window(),
        day().sliding_counter(24),
        Limit::concurrent(100_000).lease(Duration::from_secs(3_600)),
        day().block_for(Duration::from_secs(1)),
    ] {
        nothing_is_denied_while_there_is_room(limit, 2_500);
    }
}

#[test]
fn nothing_is_denied_while_there_is_room_in_a_sliding_log() {
    for limit in [Limit::per_day(100_000).sliding_log(), Limit::per_day(100_000).sliding_log().count_denied()]
    {
        nothing_is_denied_while_there_is_room(limit, 10_000);
    }
}
