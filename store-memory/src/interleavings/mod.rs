//! Every interleaving of a few threads on a table of one cache line, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p tollgate-store-memory --lib`

mod takeover;

use loom::sync::Arc;
use loom::thread;
use tollgate_core::store::ImmediateStore;
use tollgate_core::{Limit, Request, Time};

use crate::config::Config;
use crate::store::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);

/// One line of four slots, one lock: everything meets.
fn crowded() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::with(&Config { keys: 2, shards: 1 }))
}

/// A bucket of `burst` that fills again in `burst` nanoseconds.
fn quick(burst: u32) -> Limit {
    Limit::per_second(1_000_000_000).burst(burst).build("quick").expect("valid")
}

fn slow(burst: u32) -> Limit {
    Limit::per_hour(1).burst(burst).build("slow").expect("valid")
}

fn passes(store: &MemoryStore, limit: &Limit, key: &str, now: Time) -> bool {
    store.charge_now(&limit.charge(key), &now).is_allowed()
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    // As many switches as any of the hand-overs under trial needs.
    explore_up_to(3, body);
}

fn explore_up_to(switches: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(body);
}

#[test]
fn one_key_is_not_inserted_twice() {
    explore(|| {
        let store = crowded();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || u32::from(passes(&store, &slow(1), "key", NOW)))
            })
            .collect();
        let passed: u32 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!(passed, 1, "one token, two who find no slot");
    });
}

#[test]
fn no_update_is_lost() {
    explore(|| {
        let store = crowded();
        assert!(passes(&store, &slow(3), "key", NOW));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || u32::from(passes(&other, &slow(3), "key", NOW)));
        let mine = u32::from(passes(&store, &slow(3), "key", NOW));
        assert_eq!(mine + thread.join().expect("no panic"), 2);
        assert!(!passes(&store, &slow(3), "key", NOW), "three tokens, three taken");
    });
}

fn pair(store: &MemoryStore, limit: &Limit, first: &str, second: &str) -> u32 {
    let charges = [limit.charge(first), limit.charge(second)];
    u32::from(store.decide_now(Request::new(&charges), NOW).expect("supported").is_allowed())
}

#[test]
fn several_charges_on_new_keys_are_one_step() {
    explore(|| {
        let store = crowded();
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || pair(&other, &slow(1), "a", "b"));
        let mine = pair(&store, &slow(1), "b", "a");
        assert_eq!(mine + thread.join().expect("no panic"), 1, "one of both, and nobody waits for ever");
    });
}

/// Both keys have slots, so the requests meet at the marks in their words, and single charges beside them.
#[test]
fn several_charges_on_slots_are_one_step() {
    // A longer story: with three switches it takes minutes.
    explore_up_to(2, || {
        let (store, limit) = (crowded(), slow(3));
        assert_eq!(pair(&store, &limit, "a", "b"), 1, "both have slots now, and two tokens left");
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || pair(&other, &slow(3), "a", "b"));
        let single = u32::from(passes(&store, &limit, "b", NOW));
        let pairs = thread.join().expect("no panic");
        assert_eq!((pairs, single), (1, 1), "there was room for both");
        assert!(passes(&store, &limit, "a", NOW) && !passes(&store, &limit, "a", NOW), "one of a was left");
        assert!(!passes(&store, &limit, "b", NOW), "none of b");
    });
}

/// A request that is denied by its second charge must not keep a single charge from the first.
#[test]
fn a_denied_request_is_never_seen() {
    explore(|| {
        let store = crowded();
        let limit = slow(2);
        assert!(passes(&store, &limit, "wide", NOW));
        assert!(passes(&store, &slow(1), "narrow", NOW));
        let other = Arc::clone(&store);
        let thread = thread::spawn(move || {
            let (wide, narrow) = (slow(2), slow(1));
            let charges = [wide.charge("wide"), narrow.charge("narrow")];
            other.decide_now(Request::new(&charges), NOW).expect("supported").is_denied()
        });
        assert!(passes(&store, &limit, "wide", NOW), "there was a token all the time");
        assert!(thread.join().expect("no panic"));
        assert!(!passes(&store, &limit, "wide", NOW));
    });
}
