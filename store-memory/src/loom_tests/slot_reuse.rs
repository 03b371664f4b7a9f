//! A slot is taken over while other threads update it.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, Limit, Request, Time};

use super::{NOW, explore, explore_up_to, passes, quick, slow, tiny_store};
use crate::config::Config;
use crate::store::MemoryStore;

/// Fills the line: the key of `old` expires a few nanoseconds later, the other slots stay in use.
fn fill(store: &MemoryStore, old: &Limit) {
    assert!(passes(store, old, "old", NOW));
    for key in ["a", "b", "c"] {
        assert!(passes(store, &slow(1), key, NOW), "the other slots are in use");
    }
}

/// The next owner's TAT has room for the old key's charge, so only the tag prevents it.
#[test]
fn the_old_key_does_not_charge_the_next_owner_of_its_slot() {
    for action in [Action::Take { max_wait: None }, Action::Debit { at: None }] {
        explore(move || {
            let store = tiny_store();
            let later = NOW + Duration::from_nanos(5);
            fill(&store, &quick(1_000));
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                let old = quick(1_000);
                assert!(other.charge_now(&old.charge("old").with_action(action), &NOW).is_allowed());
            });
            assert!(passes(&store, &quick(1), "new", later), "takes over the slot of the old key");
            thread.join().expect("no panic");
            let next = later + Duration::from_nanos(1);
            assert!(
                passes(&store, &quick(1), "new", next),
                "its token is refilled, whatever the old key did"
            );
        });
    }
}

/// A refund by a clock that was set back would write exactly the word that the old key has read.
fn a_refund_never_restores_the_old_word(takeover: u64, several: bool) {
    explore_up_to(2, move || {
        let store = tiny_store();
        fill(&store, &quick(1_000));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let old = quick(1_000);
            assert!(other.charge_now(&old.charge("old").with_cost(500), &NOW).is_allowed());
        });
        let old_word = NOW + Duration::from_nanos(1);
        let later = NOW + Duration::from_nanos(takeover);
        let limit = slow(1);
        assert!(passes(&store, &limit, "new", later));
        let refund = |key| limit.charge(key).with_cost(2).with_action(Action::Refund { at: None });
        if several {
            let charges = [refund("new"), refund("a")];
            assert!(store.decide_now(Request::new(&charges), old_word).expect("supported").is_allowed());
        } else {
            assert!(store.charge_now(&refund("new"), &old_word).is_allowed());
        }
        thread.join().expect("no panic");
        assert!(passes(&store, &limit, "new", later), "the refund is there");
        assert!(!passes(&store, &limit, "new", later), "once");
    });
}

#[test]
fn a_refund_does_not_move_behind_the_horizon() {
    a_refund_never_restores_the_old_word(2, false);
}

#[test]
fn a_refund_among_several_charges_does_not_move_behind_the_horizon() {
    a_refund_never_restores_the_old_word(2, true);
}

/// Otherwise the horizon would equal the old TAT.
#[test]
fn a_slot_is_not_taken_over_at_its_own_tat() {
    a_refund_never_restores_the_old_word(1, false);
}

/// Keys of different shards hold different locks, so only the lock bit prevents both from taking over one slot.
#[test]
fn two_shards_do_not_take_over_the_same_slot() {
    explore_up_to(2, || {
        let store = Arc::new(MemoryStore::from_config(&Config { keys: 2, shards: 2 }));
        let later = NOW + Duration::from_nanos(5);
        fill(&store, &quick(1_000));
        let [first, second] = [0, 1].map(|shard| store.key_in_shard(&slow(1), shard, "new"));
        let (other, key) = (Arc::clone(&store), first.clone());
        let thread = thread::spawn(move || assert!(passes(&other, &slow(1), &key, later)));
        assert!(passes(&store, &slow(1), &second, later));
        thread.join().expect("no panic");
        assert!(!passes(&store, &slow(1), &first, later), "still recorded");
        assert!(!passes(&store, &slow(1), &second, later), "still recorded");
    });
}

/// A request locks a slot while a key of another shard takes it over.
fn a_request_races_a_takeover(when: Time) {
    explore_up_to(2, move || {
        let store = Arc::new(MemoryStore::from_config(&Config { keys: 2, shards: 2 }));
        let later = NOW + Duration::from_nanos(5);
        let old = store.key_in_shard(&quick(1_000), 0, "old");
        assert!(passes(&store, &quick(1_000), &old, NOW));
        for key in ["a", "b", "c"] {
            assert!(passes(&store, &slow(1), key, NOW));
        }
        let new = store.key_in_shard(&slow(1), 1, "new");
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let limit = quick(1_000);
            let charges = [limit.charge(&old), limit.charge(&old)];
            assert!(other.decide_now(Request::new(&charges), when).expect("supported").is_allowed());
        });
        assert!(passes(&store, &slow(1), &new, later));
        thread.join().expect("no panic");
        assert!(!passes(&store, &slow(1), &new, later), "still recorded");
    });
}

#[test]
fn a_request_does_not_lock_a_slot_during_a_takeover() {
    a_request_races_a_takeover(NOW + Duration::from_nanos(5));
}

/// The state that the request writes has expired for the other thread, which may take over the slot right away.
#[test]
fn a_request_does_not_touch_a_slot_after_unlocking_it() {
    a_request_races_a_takeover(NOW);
}
