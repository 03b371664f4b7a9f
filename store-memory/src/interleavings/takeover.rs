//! A slot changes hands while others hold on to it.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, Limit, Request, Time};

use super::{NOW, crowded, explore, explore_up_to, passes, quick, slow};
use crate::config::Config;
use crate::store::MemoryStore;

/// Fills the line: `old` is past a few nanoseconds later, the rest is in use.
fn fill(store: &MemoryStore, old: &Limit) {
    assert!(passes(store, old, "old", NOW));
    for key in ["a", "b", "c"] {
        assert!(passes(store, &slow(1), key, NOW), "the rest of the line is in use");
    }
}

/// The next owner's word leaves room for what the old key asks, so only the tag says that it is another's.
#[test]
fn the_old_key_does_not_charge_the_slots_next_owner() {
    for action in [Action::Take { max_wait: None }, Action::Debit { at: None }] {
        explore(move || {
            let store = crowded();
            let later = NOW + Duration::from_nanos(5);
            fill(&store, &quick(1_000));
            let other = Arc::clone(&store);
            let thread = thread::spawn(move || {
                let old = quick(1_000);
                assert!(other.charge_now(&old.charge("old").with_action(action), &NOW).is_allowed());
            });
            assert!(passes(&store, &quick(1), "new", later), "takes the old key's slot over");
            thread.join().expect("no panic");
            let next = later + Duration::from_nanos(1);
            assert!(passes(&store, &quick(1), "new", next), "its token is back, whatever the old key did");
        });
    }
}

/// What a clock that was set back gives back would be the very word that the old key has read.
fn what_is_given_back_is_never_the_old_word(takeover: u64, several: bool) {
    explore_up_to(2, move || {
        let store = crowded();
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
        let back = |key| limit.charge(key).with_cost(2).with_action(Action::Refund { at: None });
        if several {
            let charges = [back("new"), back("a")];
            assert!(store.decide_now(Request::new(&charges), old_word).expect("supported").is_allowed());
        } else {
            assert!(store.charge_now(&back("new"), &old_word).is_allowed());
        }
        thread.join().expect("no panic");
        assert!(passes(&store, &limit, "new", later), "what was given back is there");
        assert!(!passes(&store, &limit, "new", later), "once");
    });
}

#[test]
fn a_refund_stays_ahead_of_the_horizon() {
    what_is_given_back_is_never_the_old_word(2, false);
}

#[test]
fn a_refund_among_several_charges_stays_ahead_of_the_horizon() {
    what_is_given_back_is_never_the_old_word(2, true);
}

/// The horizon would be the old word's own instant.
#[test]
fn a_slot_is_not_taken_over_at_its_own_instant() {
    what_is_given_back_is_never_the_old_word(1, false);
}

/// Keys of different shards hold different locks, so only the mark keeps them from taking one slot over together.
#[test]
fn two_shards_do_not_take_over_one_slot_together() {
    explore_up_to(2, || {
        let store = Arc::new(MemoryStore::with(&Config { keys: 2, shards: 2 }));
        let later = NOW + Duration::from_nanos(5);
        fill(&store, &quick(1_000));
        let [first, second] = [0, 1].map(|shard| store.key_in_shard(&slow(1), shard, "new"));
        let (other, key) = (Arc::clone(&store), first.clone());
        let thread = thread::spawn(move || assert!(passes(&other, &slow(1), &key, later)));
        assert!(passes(&store, &slow(1), &second, later));
        thread.join().expect("no panic");
        assert!(!passes(&store, &slow(1), &first, later), "remembered");
        assert!(!passes(&store, &slow(1), &second, later), "remembered");
    });
}

/// A request locks a slot that a key of another shard is about to take over.
fn a_request_and_a_takeover(when: Time) {
    explore_up_to(2, move || {
        let store = Arc::new(MemoryStore::with(&Config { keys: 2, shards: 2 }));
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
        assert!(!passes(&store, &slow(1), &new, later), "remembered");
    });
}

#[test]
fn a_request_does_not_lock_what_is_being_taken_over() {
    a_request_and_a_takeover(NOW + Duration::from_nanos(5));
}

/// What it leaves is past for the other, who may be there before the lock is quite gone.
#[test]
fn a_request_is_done_with_a_slot_before_it_unlocks_it() {
    a_request_and_a_takeover(NOW);
}
