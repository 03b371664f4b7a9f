//! The hot path does not allocate, neither directly nor through the `Store` trait.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{Charge, Limit, Limiter, ManualClock, Request, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);

fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

/// Polls once: the store never waits.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

fn limits() -> [Limit; 4] {
    let second = Limit::per_second(100);
    [
        second.clone().build("bucket").expect("valid"),
        second.clone().queue(50).build("queue").expect("valid"),
        second.clone().fixed_window().build("fixed").expect("valid"),
        second.sliding_window().build("sliding").expect("valid"),
    ]
}

#[test]
fn the_counter_sees_an_allocation() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1);
}

#[test]
fn up_to_four_charges_do_not_allocate() {
    let (store, limits) = (MemoryStore::config().max_keys(1_000).build(), limits());
    let charges: Vec<Charge<'_>> = limits.iter().map(|limit| limit.charge("user:42")).collect();
    // The first use of a key allocates its entry.
    assert!(store.decide_now(Request::new(&charges), NOW).expect("supported").is_allowed());
    for count in 1..=4 {
        let request = Request::new(&charges[..count]);
        for _ in 0..200 {
            // Allowed at first, denied later: neither allocates.
            let counted = allocations(|| {
                let verdict = ready(store.decide(request, NOW)).expect("supported");
                assert_eq!(verdict.decisions().len(), count);
            });
            assert_eq!(counted, 0, "{count} charges");
        }
    }
}

#[test]
fn a_check_of_the_limiter_does_not_allocate() {
    let limiter = Limiter::with_clock(MemoryStore::config().max_keys(1_000).build(), ManualClock::at(NOW));
    for limit in limits() {
        let _ = limiter.check_now(&limit, "user:42");
        for _ in 0..200 {
            let counted = allocations(|| {
                let _ = limiter.check_now(&limit, "user:42");
            });
            assert_eq!(counted, 0, "{}", limit.name());
            let counted = allocations(|| {
                let _ = ready(limiter.check(&limit, "user:42")).expect("supported");
            });
            assert_eq!(counted, 0, "{}", limit.name());
        }
    }
}
