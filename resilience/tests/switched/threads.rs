//! Switches that are flipped while others check: what is switched counts for every call that begins later.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_core::Source;
use tollgate_core::store::ImmediateStore;
use tollgate_resilience::Switches;

use crate::recorded::NOW;
use crate::{limit, switched};

const THREADS: usize = 3;
const CALLS: usize = 500;

/// Threads check all the time while `flip` is made; every check that begins after it is counted by its source.
fn after(flip: impl FnOnce(&Switches)) -> (usize, usize) {
    let (store, api) = (switched(), limit("api", 1_000_000));
    let (flipped, began, counted) =
        (AtomicBool::new(false), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let switched_off = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                began.wait();
                while !flipped.load(Ordering::Acquire) {
                    assert!(store.charge_now(&api.charge("a"), &NOW).is_allowed());
                }
                // Nobody is inside the store any more.
                counted.wait();
                counted.wait();
                for _ in 0..CALLS {
                    let told = store.charge_now(&api.charge("a"), &NOW);
                    switched_off.fetch_add(usize::from(told.source() == Source::Switch), Ordering::Relaxed);
                }
            });
        }
        began.wait();
        flip(store.switches());
        flipped.store(true, Ordering::Release);
        counted.wait();
        let _ = store.store().calls();
        counted.wait();
    });
    (switched_off.into_inner(), store.store().calls().len())
}

#[test]
fn after_the_flip_nothing_is_asked_of_the_store() {
    assert_eq!(after(Switches::all_off), (THREADS * CALLS, 0));
    assert_eq!(after(|switches| switches.off("api")), (THREADS * CALLS, 0));
    assert_eq!(after(|switches| switches.allow("a")), (THREADS * CALLS, 0));
}

#[test]
fn after_it_is_taken_back_everything_is_asked_again() {
    let there_and_back = |switches: &Switches| {
        switches.all_off();
        switches.all_on();
    };
    assert_eq!(after(there_and_back), (0, THREADS * CALLS));
}

#[test]
fn changes_from_many_threads_are_all_made() {
    let switches = Switches::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let switches = &switches;
            scope.spawn(move || {
                for number in 0..50 {
                    switches.off(&format!("{thread} {number}"));
                    switches.deny(&format!("{thread} {number}"));
                }
            });
        }
    });
    assert_eq!((switches.state().off.len(), switches.state().denied), (200, 200));
}
