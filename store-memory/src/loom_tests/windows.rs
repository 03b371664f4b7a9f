//! Windows: slots whose cold words change while other threads update them.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, Limit, LimitBuilder, Request, Time};

use super::{NOW, explore, explore_up_to, passes};
use crate::config::Config;
use crate::store::MemoryStore;

const FORMS: [fn(LimitBuilder) -> LimitBuilder; 3] =
    [LimitBuilder::fixed_window, |limit| limit.fixed_window().anchored(), LimitBuilder::sliding_window];

fn window(form: fn(LimitBuilder) -> LimitBuilder, count: u32, period: Duration) -> Limit {
    form(Limit::per(count, period)).build("window").expect("valid")
}

fn hourly(form: fn(LimitBuilder) -> LimitBuilder, count: u32) -> Limit {
    window(form, count, Duration::from_secs(3_600))
}

/// A window of 10 ns; `NOW` is the start of one.
fn quick(form: fn(LimitBuilder) -> LimitBuilder, count: u32) -> Limit {
    window(form, count, Duration::from_nanos(10))
}

/// A store of one line of two slots. With more lines, random seeds would decide which of them a key is in.
fn tiny_store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::from_config(&Config { keys: 1, shards: 1 }))
}

fn after(nanos: u64) -> Time {
    NOW + Duration::from_nanos(nanos)
}

#[test]
fn a_window_is_not_inserted_twice() {
    explore(|| {
        let store = tiny_store();
        let other = Arc::clone(&store);
        let limit = || hourly(LimitBuilder::sliding_window, 1);
        let thread = thread::spawn(move || u32::from(passes(&other, &limit(), "key", NOW)));
        let mine = u32::from(passes(&store, &limit(), "key", NOW));
        assert_eq!(mine + thread.join().expect("no panic"), 1, "one unit, and two threads that find no slot");
    });
}

#[test]
fn no_update_of_a_window_is_lost() {
    for form in FORMS {
        explore(move || {
            let (store, limit) = (tiny_store(), hourly(form, 3));
            assert!(passes(&store, &limit, "key", NOW));
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || u32::from(passes(&other, &hourly(form, 3), "key", NOW)));
            let mine = u32::from(passes(&store, &limit, "key", NOW));
            assert_eq!(mine + thread.join().expect("no panic"), 2);
            assert!(!passes(&store, &limit, "key", NOW), "three units, all taken");
        });
    }
}

/// One thread starts the next window while another one, whose clock is behind, takes from the window before it. Either
/// order is possible: then the late take counts in its own window, or in the next one.
#[test]
fn a_window_starts_while_it_is_updated() {
    for form in FORMS {
        explore(move || {
            let (store, limit) = (tiny_store(), quick(form, 4));
            let take = |cost, now| store.charge_now(&limit.charge("key").with_cost(cost), &now).is_allowed();
            assert!(take(2, NOW));
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                let limit = quick(form, 4);
                other.charge_now(&limit.charge("key").with_cost(2), &after(9)).is_allowed()
            });
            // Nothing of the first window counts 20 ns later.
            assert!(take(1, after(20)));
            let late = thread.join().expect("no panic");
            let peek = store.charge_now(&limit.charge("key").with_cost(0), &after(20));
            assert!(late, "there was room in both windows");
            assert!([1, 3].contains(&peek.remaining()), "{} are left", peek.remaining());
        });
    }
}

/// A reader never sees the count of one window beside the start of another one: the previous window is full, so what
/// is left depends on both. The reader is the second thread: loom switches threads where one reads what another has
/// written before, and not where a thread reads what another will write.
#[test]
fn no_read_is_torn() {
    explore(|| {
        let form = LimitBuilder::sliding_window;
        let (store, limit) = (tiny_store(), quick(form, 10));
        let take = |cost, now| store.charge_now(&limit.charge("key").with_cost(cost), &now).is_allowed();
        assert!(take(10, NOW));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let limit = quick(form, 10);
            other.charge_now(&limit.charge("key").with_cost(0), &after(15)).remaining()
        });
        assert!(take(3, after(15)));
        let peeked = thread.join().expect("no panic");
        assert!([5, 2].contains(&peeked), "{peeked}: half of ten count, without or with three");
    });
}

/// The next owner's window has room for the old key's charge. If the old key has read the slot before, both words count
/// one, and only the version prevents it; if it reads the slot after, by the same time, only its tag does.
#[test]
fn the_old_key_does_not_charge_the_next_owner_of_its_window() {
    let take = Action::Take { max_wait: None };
    for (action, at) in [(take, NOW), (take, after(15)), (Action::Debit { at: None }, NOW)] {
        explore_up_to(2, move || {
            let form = LimitBuilder::fixed_window;
            let store = tiny_store();
            assert!(passes(&store, &quick(form, 2), "old", NOW));
            assert!(passes(&store, &hourly(form, 1), "a", NOW), "the other slot is in use");
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                let old = quick(form, 2);
                let charge = old.charge("old").with_action(action);
                assert!(other.charge_now(&charge, &at).is_allowed());
            });
            assert!(passes(&store, &quick(form, 2), "new", after(15)), "takes over the slot of the old key");
            thread.join().expect("no panic");
            assert!(
                passes(&store, &quick(form, 2), "new", after(15)),
                "its second unit, whatever the old key did"
            );
            assert!(!passes(&store, &quick(form, 2), "new", after(15)));
        });
    }
}

/// A debit that does not fit moves the state to the shard, while another thread updates the slot.
#[test]
fn a_window_that_moves_to_its_shard_loses_no_update() {
    explore_up_to(2, || {
        let limit = || hourly(LimitBuilder::fixed_window, 1_000_000_000);
        let debit = move |store: &MemoryStore, cost| {
            let limit = limit();
            let charge = limit.charge("key").with_cost(cost).with_action(Action::Debit { at: None });
            store.charge_now(&charge, &NOW).debt()
        };
        let store = tiny_store();
        assert_eq!(debit(&store, 1_000_000_000), 0);
        assert_eq!(debit(&store, 1_000_000_000), 1_000_000_000);
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || debit(&other, 1_000_000_000));
        debit(&store, 7);
        thread.join().expect("no panic");
        assert_eq!(debit(&store, 0), 2_000_000_007);
        assert_eq!(store.shard_entries(), 1);
    });
}

/// Both keys have slots, so requests and single charges contend for the lock bits.
#[test]
fn several_charges_on_windows_are_atomic() {
    explore_up_to(2, || {
        let form = LimitBuilder::sliding_window;
        let pair = move |store: &MemoryStore| {
            let limit = hourly(form, 3);
            let charges = [limit.charge("a"), limit.charge("b")];
            u32::from(store.decide_now(Request::new(&charges), NOW).expect("supported").is_allowed())
        };
        let (store, limit) = (tiny_store(), hourly(form, 3));
        assert_eq!(pair(&store), 1, "both have slots now, and two units each");
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || pair(&other));
        let single = u32::from(passes(&store, &limit, "b", NOW));
        assert_eq!((thread.join().expect("no panic"), single), (1, 1), "there are units for both");
        assert!(passes(&store, &limit, "a", NOW) && !passes(&store, &limit, "a", NOW), "one of a was left");
        assert!(!passes(&store, &limit, "b", NOW), "none of b");
    });
}
