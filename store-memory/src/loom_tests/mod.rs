//! Loom explores the interleavings of a few threads on a table of one cache line.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p tollgate-store-memory --lib`

mod slot_reuse;
mod windows;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Limit, Request, Time};

use crate::config::Config;
use crate::store::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);

/// A store of one line of four slots and one shard, where all keys contend.
fn tiny_store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::from_config(&Config { keys: 2, shards: 1 }))
}

/// A bucket of `burst` tokens that is full again after `burst` nanoseconds.
fn quick(burst: u32) -> Limit {
    Limit::per_second(1_000_000_000).burst(burst).build("quick").expect("valid")
}

/// A bucket of `burst` tokens that gets one token per hour.
fn slow(burst: u32) -> Limit {
    Limit::per_hour(1).burst(burst).build("slow").expect("valid")
}

fn passes(store: &MemoryStore, limit: &Limit, key: &str, now: Time) -> bool {
    store.charge_now(&limit.charge(key), &now).is_allowed()
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    // As many preemptions as any of the races below needs.
    explore_up_to(3, body);
}

fn explore_up_to(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

#[test]
fn a_key_is_not_inserted_twice() {
    explore(|| {
        let store = tiny_store();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || u32::from(passes(&store, &slow(1), "key", NOW)))
            })
            .collect();
        let passed: u32 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!(passed, 1, "one token, and two threads that find no slot");
    });
}

#[test]
fn no_update_is_lost() {
    explore(|| {
        let store = tiny_store();
        assert!(passes(&store, &slow(3), "key", NOW));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || u32::from(passes(&other, &slow(3), "key", NOW)));
        let mine = u32::from(passes(&store, &slow(3), "key", NOW));
        assert_eq!(mine + thread.join().expect("no panic"), 2);
        assert!(!passes(&store, &slow(3), "key", NOW), "three tokens, all taken");
    });
}

fn pair(store: &MemoryStore, limit: &Limit, first: &str, second: &str) -> u32 {
    let charges = [limit.charge(first), limit.charge(second)];
    u32::from(store.decide_now(Request::new(&charges), NOW).expect("supported").is_allowed())
}

#[test]
fn several_charges_on_new_keys_are_atomic() {
    explore(|| {
        let store = tiny_store();
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || pair(&other, &slow(1), "a", "b"));
        let mine = pair(&store, &slow(1), "b", "a");
        assert_eq!(
            mine + thread.join().expect("no panic"),
            1,
            "one of them passes, and there is no deadlock"
        );
    });
}

/// Both keys have slots, so requests and single charges contend for the lock bits.
#[test]
fn several_charges_on_slots_are_atomic() {
    // With three preemptions this takes minutes.
    explore_up_to(2, || {
        let (store, limit) = (tiny_store(), slow(3));
        assert_eq!(pair(&store, &limit, "a", "b"), 1, "both have slots now, and two tokens each");
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || pair(&other, &slow(3), "a", "b"));
        let single = u32::from(passes(&store, &limit, "b", NOW));
        let pairs = thread.join().expect("no panic");
        assert_eq!((pairs, single), (1, 1), "there are tokens for both");
        assert!(
            passes(&store, &limit, "a", NOW) && !passes(&store, &limit, "a", NOW),
            "one token of a was left"
        );
        assert!(!passes(&store, &limit, "b", NOW), "no token of b");
    });
}

/// A request that is denied by its second charge must not affect a concurrent charge on the key of the first.
#[test]
fn a_denied_request_has_no_visible_effect() {
    explore(|| {
        let store = tiny_store();
        let limit = slow(2);
        assert!(passes(&store, &limit, "wide", NOW));
        assert!(passes(&store, &slow(1), "narrow", NOW));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let (wide, narrow) = (slow(2), slow(1));
            let charges = [wide.charge("wide"), narrow.charge("narrow")];
            other.decide_now(Request::new(&charges), NOW).expect("supported").is_denied()
        });
        assert!(passes(&store, &limit, "wide", NOW), "a token was available all the time");
        assert!(thread.join().expect("no panic"));
        assert!(!passes(&store, &limit, "wide", NOW));
    });
}
