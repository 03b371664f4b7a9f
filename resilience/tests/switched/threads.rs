//! Switches that change while other threads check: a change applies to every call that starts after it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate_core::Source;
use tollgate_core::store::ImmediateStore;
use tollgate_resilience::Switches;

use crate::recording::NOW;
use crate::{limit, switched};

const THREADS: usize = 3;
const CALLS: usize = 500;

/// Makes a change while threads check. Returns how many checks after it were decided by a switch, and how many
/// reached the store.
fn after(change: impl FnOnce(&Switches)) -> (usize, usize) {
    let (store, api) = (switched(), limit("api", 1_000_000));
    let (changed, started, counting) =
        (AtomicBool::new(false), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let by_switch = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                started.wait();
                while !changed.load(Ordering::Acquire) {
                    assert!(store.charge_now(&api.charge("a"), &NOW).is_allowed());
                }
                // No call is in flight any more.
                counting.wait();
                counting.wait();
                for _ in 0..CALLS {
                    let decision = store.charge_now(&api.charge("a"), &NOW);
                    by_switch.fetch_add(usize::from(decision.source() == Source::Switch), Ordering::Relaxed);
                }
            });
        }
        started.wait();
        change(store.switches());
        changed.store(true, Ordering::Release);
        counting.wait();
        let _ = store.store().calls();
        counting.wait();
    });
    (by_switch.into_inner(), store.store().calls().len())
}

#[test]
fn after_the_change_no_call_reaches_the_store() {
    assert_eq!(after(Switches::all_off), (THREADS * CALLS, 0));
    assert_eq!(after(|switches| switches.off("api")), (THREADS * CALLS, 0));
    assert_eq!(after(|switches| switches.allow("a")), (THREADS * CALLS, 0));
}

#[test]
fn after_it_is_undone_every_call_reaches_the_store() {
    let off_and_on = |switches: &Switches| {
        switches.all_off();
        switches.all_on();
    };
    assert_eq!(after(off_and_on), (0, THREADS * CALLS));
}

#[test]
fn concurrent_changes_are_all_applied() {
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
    assert_eq!((switches.state().off.len(), switches.state().deny_listed), (200, 200));
}
