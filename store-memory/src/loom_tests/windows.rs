//! Windows: slots whose cold word changes while other threads update them.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, Charge, Limit, LimitBuilder, Request, Time};

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

/// A window of 100 ms; `NOW` is the start of one. Shorter ones do not fit a slot.
fn quick(form: fn(LimitBuilder) -> LimitBuilder, count: u32) -> Limit {
    window(form, count, Duration::from_millis(100))
}

/// A store of one line of three slots. With more lines, random seeds would decide which of them a key is in.
fn tiny_store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::from_config(&Config { keys: 1, shards: 1 }))
}

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
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
                other.charge_now(&limit.charge("key").with_cost(2), &after(90)).is_allowed()
            });
            // Nothing of the first window counts 200 ms later.
            assert!(take(1, after(200)));
            let late = thread.join().expect("no panic");
            let peek = store.charge_now(&limit.charge("key").with_cost(0), &after(200));
            assert!(late, "there was room in both windows");
            assert!([1, 3].contains(&peek.remaining()), "{} are left", peek.remaining());
        });
    }
}

/// A reader never sees the count of the current window beside a previous count of another time: what is left depends on
/// both, and a reset changes both. The reader is the second thread: loom switches threads where one reads what another
/// has written before, and not where a thread reads what another will write.
#[test]
fn no_read_is_torn() {
    explore(|| {
        let form = LimitBuilder::sliding_window;
        let (store, limit) = (tiny_store(), quick(form, 10));
        let take = |cost, now| store.charge_now(&limit.charge("key").with_cost(cost), &now).is_allowed();
        assert!(take(10, NOW) && take(3, after(150)));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let limit = quick(form, 10);
            other.charge_now(&limit.charge("key").with_cost(0), &after(150)).remaining()
        });
        let reset = limit.charge("key").with_action(Action::Reset);
        assert!(store.charge_now(&reset, &after(150)).is_allowed());
        let peeked = thread.join().expect("no panic");
        assert!([2, 10].contains(&peeked), "{peeked}: half of ten and three count, or nothing");
    });
}

/// The old key takes from its slot while others need one `later`: `before_new` uses the store first. Whatever the old
/// key does, the new one has both of its units.
fn the_old_key_does_not_charge_the_next_owner(
    old: fn() -> Limit,
    new: fn() -> Limit,
    later: Time,
    before_new: fn(&MemoryStore),
) {
    let take = Action::Take { max_wait: None };
    for (action, at) in [(take, after(90)), (take, later), (Action::Debit { at: None }, after(90))] {
        explore_up_to(2, move || {
            let store = tiny_store();
            assert!(passes(&store, &old(), "old", NOW));
            for key in ["a", "b"] {
                let other = hourly(LimitBuilder::fixed_window, 1);
                assert!(passes(&store, &other, key, NOW), "the other slots are in use");
            }
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                let old = old();
                assert!(other.charge_now(&old.charge("old").with_action(action), &at).is_allowed());
            });
            before_new(&store);
            assert!(passes(&store, &new(), "new", later));
            thread.join().expect("no panic");
            assert!(passes(&store, &new(), "new", later), "its second unit, whatever the old key did");
            assert!(!passes(&store, &new(), "new", later));
        });
    }
}

/// The next owner's window has room for the old key's charge. If the old key has read the slot before, both words count
/// one, and only the start prevents it; if it reads the slot after, by the same time, only its tag does.
#[test]
fn the_old_key_does_not_charge_the_next_owner_of_its_window() {
    let limit = || quick(LimitBuilder::fixed_window, 2);
    the_old_key_does_not_charge_the_next_owner(limit, limit, after(150), |_| {});
}

/// The new key's window is under way for the old key, too, if it looks at nothing but the word.
#[test]
fn the_old_key_does_not_charge_a_window_that_is_under_way() {
    let old = || quick(|limit| limit.fixed_window().anchored(), 2);
    // At 150 ms, this one has started at 40 ms.
    let new = || window(LimitBuilder::fixed_window, 2, Duration::from_millis(120));
    the_old_key_does_not_charge_the_next_owner(old, new, after(150), |_| {});
}

/// The window of the new key starts when that of the old one did, so that the words would be the same.
#[test]
fn a_key_whose_window_started_at_the_same_time_takes_another_slot() {
    let old = || quick(LimitBuilder::fixed_window, 2);
    let new = || window(LimitBuilder::fixed_window, 2, Duration::from_secs(1_000));
    the_old_key_does_not_charge_the_next_owner(old, new, after(150), |_| {});
}

/// All of the window is refunded, but a thread may still be about to take from it. A key with another window that comes
/// and goes would make room for one with the same.
#[test]
fn an_unused_window_is_not_taken_over_before_it_ends() {
    let limit = || quick(LimitBuilder::sliding_window, 2);
    the_old_key_does_not_charge_the_next_owner(limit, limit, after(50), |store| {
        let (old, other) = (
            quick(LimitBuilder::sliding_window, 2),
            window(LimitBuilder::fixed_window, 2, Duration::from_millis(70)),
        );
        let refund = |charge: Charge<'_>| {
            assert!(
                store.charge_now(&charge.with_action(Action::Refund { at: None }), &after(50)).is_allowed()
            );
        };
        refund(old.charge("old"));
        assert!(passes(store, &other, "other", after(50)));
        refund(other.charge("other"));
    });
}

/// Both change the previous count, which is not in the word: the word is the same before and after.
#[test]
fn late_debits_are_both_counted() {
    explore(|| {
        let (store, limit) = (tiny_store(), quick(LimitBuilder::sliding_window, 100));
        assert!(passes(&store, &limit, "key", after(100)));
        let debit = |store: &MemoryStore, cost| {
            let limit = quick(LimitBuilder::sliding_window, 100);
            let late = limit.charge("key").with_cost(cost).with_action(Action::Debit { at: Some(NOW) });
            assert!(store.charge_now(&late, &after(150)).is_allowed());
        };
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || debit(&other, 20));
        debit(&store, 40);
        thread.join().expect("no panic");
        let peek = store.charge_now(&limit.charge("key").with_cost(0), &after(150));
        assert_eq!(peek.remaining(), 100 - 1 - 30, "half of both");
    });
}

/// Two windows later nothing of the previous count is left, also if it changed in between: the previous count before
/// and after is zero, and only the start is not.
#[test]
fn a_late_debit_does_not_count_in_a_later_window() {
    explore(|| {
        let (store, limit) = (tiny_store(), quick(LimitBuilder::sliding_window, 100));
        assert!(passes(&store, &limit, "key", after(100)));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let limit = quick(LimitBuilder::sliding_window, 100);
            let late = limit.charge("key").with_cost(20).with_action(Action::Debit { at: Some(NOW) });
            assert!(other.charge_now(&late, &after(150)).is_allowed());
        });
        assert!(passes(&store, &limit, "key", after(350)));
        thread.join().expect("no panic");
        let peek = store.charge_now(&limit.charge("key").with_cost(0), &after(350));
        assert_eq!(peek.remaining(), 99);
    });
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
