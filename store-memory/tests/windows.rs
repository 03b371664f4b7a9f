//! Windows in the lock-free table: whatever happens to a state, decisions are those of the pure function.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::store::{ImmediateStore, State, settle, state_indexes};
use tollgate_core::{Action, Charge, Limit, LimitBuilder, Request, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);
const KEY: &str = "key";
const BILLION: u32 = 1_000_000_000;

/// A store beside the pure function.
struct Compared {
    store: MemoryStore,
    pure: HashMap<u64, State>,
    latest: Time,
}

impl Compared {
    fn new() -> Self {
        let store = MemoryStore::config().max_keys(10).build();
        Self { store, pure: HashMap::new(), latest: Time::EPOCH }
    }

    /// Decides a request on both, and compares all decisions.
    fn decide(&mut self, charges: &[Charge<'_>], now: Time, context: &str) {
        self.latest = self.latest.max(now);
        let state = |charge: &Charge<'_>| self.pure.get(&charge.limit().id()).cloned().unwrap_or_default();
        // A store may have dropped a state that was fresh at a later time already, and decides at that time then.
        if now < self.latest && charges.iter().any(|charge| state(charge).fresh_at() <= self.latest) {
            return;
        }
        let (indexes, count) = state_indexes(charges);
        let first = |index| charges[indexes.iter().position(|other| *other == index).expect("used")];
        let mut states: Vec<State> = (0..count).map(|index| state(&first(index))).collect();
        let expected = settle(charges, &indexes, &mut states, now);
        for (index, state) in states.into_iter().enumerate() {
            self.pure.insert(first(index).limit().id(), state);
        }
        if let [charge] = charges {
            assert_eq!(self.store.charge_now(charge, &now), expected.decisions()[0], "{context}");
        } else {
            let verdict = self.store.decide_now(Request::new(charges), now).expect("supported");
            assert_eq!(verdict.decisions(), expected.decisions(), "{context}");
        }
    }
}

/// A small generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.below(items.len() as u64)).expect("small")]
    }
}

/// Limits of both algorithms under one name each, with periods that fit a slot and one that does not if windows slide.
fn limits() -> Vec<Limit> {
    let periods = [1_000_000_000, 60_000_000_000, 333_333_333, 1_000_000_007, 7].map(Duration::from_nanos);
    let forms: [fn(LimitBuilder) -> LimitBuilder; 3] =
        [LimitBuilder::fixed_window, |limit| limit.fixed_window().anchored(), LimitBuilder::sliding_window];
    let counts = [5, 40, BILLION];
    let all = periods.iter().flat_map(|period| counts.iter().map(move |count| (*count, *period)));
    all.flat_map(|(count, period)| {
        forms.map(|form| form(Limit::per(count, period)).build("window").expect("valid"))
    })
    .collect()
}

/// Limits of both algorithms on one key, whose parameters change all the time: states move from the table to the shard
/// and back.
#[test]
fn decisions_are_those_of_the_pure_function_wherever_the_state_is() {
    let limits = limits();
    let (mut in_shard, mut in_table) = (0, 0);
    for seed in 0..20 {
        let (mut compared, mut random, mut now) = (Compared::new(), Random(seed), NOW);
        let mut current = [random.pick(&limits), random.pick(&limits)];
        for step in 0..1_500 {
            if random.below(6) == 0 {
                current = [random.pick(&limits), random.pick(&limits)];
            }
            now = match random.below(12) {
                0 => now + Duration::from_secs(random.below(90)),
                1 => now - Duration::from_nanos(random.below(2_000_000)),
                2 | 3 => now + Duration::from_nanos(random.below(20)),
                _ => now + Duration::from_nanos(random.below(400_000_000)),
            };
            let count = if random.below(3) == 0 { 2 } else { 1 };
            let charges: Vec<Charge<'_>> =
                (0..count).map(|index| randomize(current[index], now, &mut random)).collect();
            compared.decide(&charges, now, &format!("step {step} of seed {seed}: {charges:?} at {now}"));
            let entries = compared.store.shard_entries();
            in_shard += entries;
            in_table += compared.store.stats(now).live_keys.saturating_sub(entries);
        }
    }
    assert!(in_shard > 1_000 && in_table > 1_000, "{in_shard} states in the shard, {in_table} in the table");
}

fn randomize<'a>(limit: &'a Limit, now: Time, random: &mut Random) -> Charge<'a> {
    let span = Duration::from_nanos(random.below(3_000_000_000));
    let at = *random.pick(&[None, Some(now - span), Some(now + span)]);
    let action = match random.below(12) {
        0 => Action::TakeUpTo,
        1 | 2 => Action::Debit { at },
        3 => Action::Refund { at },
        4 if random.below(4) == 0 => Action::Reset,
        _ => Action::Take { max_wait: None },
    };
    let cost = match random.below(12) {
        0 => 0,
        1 => BILLION,
        2 => limit.capacity(),
        _ => 1 + u32::try_from(random.below(4)).expect("small"),
    };
    limit.charge(KEY).with_action(action).with_cost(cost)
}

fn remaining(store: &MemoryStore, charge: Charge<'_>, now: Time) -> u32 {
    store.charge_now(&charge, &now).remaining()
}

/// A sliding window of a millisecond does not fit a slot. A change to it moves the state to the shard, with its count.
#[test]
fn a_state_moves_to_the_shard_and_back_with_its_parameters() {
    let limit = |millis| Limit::per(10, Duration::from_millis(millis)).sliding_window();
    let [long, short] = [1_000, 1].map(|millis| limit(millis).build("api").expect("valid"));
    let store = MemoryStore::config().max_keys(10).build();
    assert_eq!((remaining(&store, long.charge(KEY), NOW), store.shard_entries()), (9, 0));
    assert_eq!((remaining(&store, short.charge(KEY), NOW), store.shard_entries()), (8, 1));
    assert_eq!(
        (remaining(&store, long.charge(KEY), NOW), store.stats(NOW).live_keys),
        (7, 1),
        "one state, in one place"
    );
    let next = NOW + Duration::from_secs(2);
    assert_eq!(
        (remaining(&store, long.charge(KEY), next), store.shard_entries()),
        (9, 0),
        "back in the table"
    );
    assert_eq!(store.stats(next).live_keys, 1);
}

/// Limits with more periods than the table numbers are decided all the same, in shards.
#[test]
fn any_number_of_periods_is_exact() {
    let store = MemoryStore::config().max_keys(4_000).build();
    let limits: Vec<Limit> = (0..4_000)
        .map(|number| {
            let period = Duration::from_nanos(60_000_000_000 + number);
            Limit::per(2, period).fixed_window().anchored().build("api").expect("valid")
        })
        .collect();
    for _ in 0..2 {
        for (number, limit) in limits.iter().enumerate() {
            assert!(store.charge_now(&limit.charge(&format!("key {number}")), &NOW).is_allowed());
        }
    }
    for (number, limit) in limits.iter().enumerate() {
        assert!(!store.charge_now(&limit.charge(&format!("key {number}")), &NOW).is_allowed());
    }
    assert_eq!(store.stats(NOW).live_keys, 4_000);
    assert!((2_500..3_500).contains(&store.shard_entries()), "{} are in shards", store.shard_entries());
}

/// A debt of more than a billion does not fit a slot. What remains of it in the next window does.
#[test]
fn a_state_moves_to_the_shard_and_back_with_its_debt() {
    let count = BILLION / 5;
    let limit = Limit::per_second(count).sliding_window().build("api").expect("valid");
    let store = MemoryStore::config().max_keys(10).build();
    let debit = limit.charge(KEY).with_cost(3 * count).with_action(Action::Debit { at: None });
    for (entries, debt) in [(0, 2 * count), (1, 5 * count)] {
        assert_eq!(
            (store.charge_now(&debit, &NOW).debt(), store.shard_entries()),
            (u64::from(debt), entries)
        );
    }
    let next = NOW + Duration::from_millis(1_500);
    assert_eq!((remaining(&store, limit.charge(KEY), next), store.shard_entries()), (count / 2 - 1, 0));
    assert_eq!((remaining(&store, limit.charge(KEY), next), store.stats(next).live_keys), (count / 2 - 2, 1));
}
