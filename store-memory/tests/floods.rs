//! A flood of keys is no way to get a quota back: the least used states are evicted, the exhausted ones are kept.

use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Charge, LeaseId, Limit, LimitBuilder, Request, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);
const MAX_KEYS: usize = 500;
/// More keys than fit, in slots and in shards.
const FLOOD: usize = 12_000;
const DRAINED: usize = 50;

fn store() -> MemoryStore {
    MemoryStore::config().max_keys(MAX_KEYS).build()
}

/// Five units an hour, under every algorithm whose states are in shards, and one whose states are in the table.
fn limits() -> Vec<Limit> {
    let five = || Limit::per_hour(5);
    let limits: [(&str, LimitBuilder); 9] = [
        ("token bucket", five()),
        ("interval bucket", five().refill_by_interval()),
        ("fixed window", five().fixed_window()),
        ("anchored window", five().fixed_window().anchored()),
        ("sliding window", five().sliding_window()),
        ("sliding counter", five().sliding_counter(6)),
        ("sliding log", five().sliding_log()),
        ("sliding log that counts denials", five().sliding_log().count_denied()),
        ("blocking bucket", five().block_for(Duration::from_secs(3_600))),
    ];
    limits.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}

fn passes(store: &MemoryStore, limit: &Limit, key: &str, now: Time) -> bool {
    store.charge_now(&limit.charge(key), &now).is_allowed()
}

fn exhaust(store: &MemoryStore, limit: &Limit, key: &str) {
    while passes(store, limit, key, NOW) {}
}

/// The time of a step of the flood. It passes, so that the drained keys are the oldest ones.
fn at(flood: usize) -> Time {
    NOW + Duration::from_millis(flood as u64)
}

fn drained(index: usize) -> String {
    format!("drained {index}")
}

#[test]
fn exhausted_keys_stay_exhausted_during_a_flood() {
    for limit in limits() {
        let store = store();
        (0..DRAINED).for_each(|index| exhaust(&store, &limit, &drained(index)));
        for flood in 0..FLOOD {
            assert!(passes(&store, &limit, &format!("flood {flood}"), at(flood)), "a new key is allowed");
        }
        let end = at(FLOOD);
        let reset = (0..DRAINED).filter(|index| passes(&store, &limit, &drained(*index), end)).count();
        assert_eq!(reset, 0, "{}: keys that got their quota back, of {DRAINED}", limit.name());
        let stats = store.stats(end);
        assert!(stats.evicted > 0, "{}: the flood does not fit: {stats:?}", limit.name());
        assert_eq!(stats.evicted_exhausted, 0, "{}", limit.name());
    }
}

/// The states of a request with several charges are protected as well, and a denial counts as exhaustion.
#[test]
fn keys_that_a_request_exhausted_stay_exhausted() {
    let (store, log) = (store(), Limit::per_hour(5).sliding_log().build("log").expect("valid"));
    let other = Limit::per_hour(1_000_000).fixed_window().build("other").expect("valid");
    let request = |key: &str, cost, now| {
        let charges = [log.charge(key).with_cost(cost), other.charge("everyone")];
        store.decide_now(Request::new(&charges), now).expect("supported").is_allowed()
    };
    assert!((0..DRAINED).all(|index| request(&drained(index), 5, NOW)));
    assert!((0..FLOOD).all(|flood| request(&format!("flood {flood}"), 1, at(flood))));
    assert!(store.stats(NOW).evicted > 0);
    assert!((0..DRAINED).all(|index| !request(&drained(index), 1, at(FLOOD))), "still exhausted");
}

/// Buckets that found no slot are in shards: the flood must not evict the exhausted ones there either.
#[test]
fn exhausted_buckets_without_a_slot_stay_exhausted() {
    let (store, bucket) = (store(), Limit::per_hour(5).build("bucket").expect("valid"));
    let slow = Limit::per_day(5).build("slow").expect("valid");
    for index in 0..2 * MAX_KEYS {
        assert!(passes(&store, &bucket, &format!("first {index}"), NOW));
    }
    assert!(store.stats(NOW).spilled > 0, "the table is full");
    (0..DRAINED).for_each(|index| exhaust(&store, &bucket, &drained(index)));
    for flood in 0..FLOOD {
        // Its state lasts longer than that of a drained key, and less of it is used.
        assert!(passes(&store, &slow, &format!("flood {flood}"), at(flood)));
    }
    assert!(store.stats(NOW).evicted > 0);
    assert!(
        (0..DRAINED).all(|index| !passes(&store, &bucket, &drained(index), at(FLOOD))),
        "still exhausted"
    );
}

/// More than half of all states are exhausted, so some samples contain nothing else.
#[test]
fn exhausted_keys_are_kept_even_if_most_keys_are_exhausted() {
    let (store, log) = (store(), Limit::per_hour(5).sliding_log().build("log").expect("valid"));
    (0..3_000).for_each(|index| exhaust(&store, &log, &drained(index)));
    assert!((0..4 * FLOOD).all(|flood| passes(&store, &log, &format!("flood {flood}"), NOW)));
    let stats = store.stats(NOW);
    assert!(stats.evicted > 0 && stats.evicted_exhausted == 0, "{stats:?}");
}

/// What remains: if a flood exhausts every key, something exhausted has to go. It is counted, and neither the oldest
/// state goes first nor the newest.
#[test]
fn a_store_full_of_exhausted_keys_evicts_any_of_them_and_counts_them() {
    let (store, log) = (store(), Limit::per_hour(1).sliding_log().build("log").expect("valid"));
    (0..DRAINED).for_each(|index| exhaust(&store, &log, &drained(index)));
    // Fills the shards, and evicts about a fifth of what fits.
    for flood in 0..6_500 {
        exhaust(&store, &log, &format!("flood {flood}"));
    }
    let stats = store.stats(NOW);
    assert!(stats.evicted_exhausted > 0 && stats.evicted_exhausted == stats.evicted, "{stats:?}");
    let left = |key: &str| store.charge_now(&log.charge(key).with_cost(0), &NOW).remaining();
    let kept = (0..DRAINED).filter(|index| left(&drained(*index)) == 0).count();
    assert!(kept > DRAINED / 2, "{kept} of {DRAINED} kept: the oldest are not the first to go");
    let kept = (6_300..6_500).filter(|flood| left(&format!("flood {flood}")) == 0).count();
    assert!(kept > 150, "{kept} of 200 kept: neither are the newest");
}

fn lease<'a>(limit: &'a Limit, key: &'a str, id: u128) -> Charge<'a> {
    limit.charge(key).with_lease(LeaseId::new(id))
}

/// One slot of ten is held. Compared with an exhausted log that is little, and it is kept all the same.
#[test]
fn held_leases_are_not_evicted_by_other_states() {
    let (store, flight) = (store(), Limit::concurrent(10).lease(Duration::from_secs(3_600)));
    let (flight, log) = (flight.build("flight").expect("valid"), Limit::per_hour(1).sliding_log());
    let log = log.build("log").expect("valid");
    for index in 0..DRAINED {
        assert!(store.charge_now(&lease(&flight, &drained(index), 7), &NOW).is_allowed());
    }
    for flood in 0..FLOOD {
        assert!(passes(&store, &log, &format!("flood {flood}"), at(flood)));
    }
    let stats = store.stats(NOW);
    assert_eq!((stats.evicted > 0, stats.evicted_leases), (true, 0), "{stats:?}");
    for index in 0..DRAINED {
        let left = store.charge_now(&flight.charge(&drained(index)).with_cost(0), &at(FLOOD)).remaining();
        assert_eq!(left, 9, "the slot is still held");
    }
}

/// The other way round: a flood of leases evicts leases only, those of full limits last.
#[test]
fn a_flood_of_leases_evicts_no_other_state() {
    let (store, flight) = (store(), Limit::concurrent(2).lease(Duration::from_secs(3_600)));
    let (flight, log) = (flight.build("flight").expect("valid"), Limit::per_hour(5).sliding_log());
    let log = log.build("log").expect("valid");
    assert!(passes(&store, &log, "used once", NOW));
    for index in 0..DRAINED {
        for id in [1, 2] {
            assert!(store.charge_now(&lease(&flight, &drained(index), id), &NOW).is_allowed());
        }
    }
    for flood in 0..FLOOD {
        assert!(store.charge_now(&lease(&flight, &format!("flood {flood}"), 1), &NOW).is_allowed());
    }
    let stats = store.stats(NOW);
    assert!(stats.evicted > 0 && stats.evicted == stats.evicted_leases, "{stats:?}");
    let left = store.charge_now(&log.charge("used once").with_cost(0), &NOW).remaining();
    assert_eq!(left, 4, "the log is untouched");
    for index in 0..DRAINED {
        assert!(
            store.charge_now(&lease(&flight, &drained(index), 3), &NOW).is_denied(),
            "both slots are held"
        );
    }
}
