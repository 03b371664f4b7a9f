//! Decisions on long logs and many leases cost little more than on short ones. What they cost is counted, in entries.

use alloc::vec::Vec;
use core::time::Duration;

use crate::algorithm::visits;
use crate::charge::{Action, Charge, LeaseId};
use crate::limit::{Limit, LimitBuilder};
use crate::settle::{settle, state_indexes};
use crate::state::{Snapshot, State};
use crate::time::Time;

const START: Time = Time::from_secs(1_790_000_000);
const DAY: Duration = Duration::from_secs(86_400);
const PEEK: u32 = 0;

/// Returns when an entry was added, counted from 1: one is a microsecond after the other.
fn entry_at(number: u32) -> Time {
    START + Duration::from_micros(1) * number
}

/// What some decisions visit, by their names.
type Visits = Vec<(&'static str, usize)>;

/// Asserts that decisions visit little more on states of a hundred times as many entries: up to two levels of a tree
/// more, in each of the trials that a decision makes.
fn assert_logarithmic(visits: impl Fn(u32) -> Visits) {
    for ((what, few), (_, many)) in visits(1_000).into_iter().zip(visits(100_000)) {
        assert!(many <= 3 * few + 100, "{what}: {few} of 1,000 entries are visited, and {many} of 100,000");
    }
}

/// Returns how many entries a request visits, on copies of the states.
fn decide(charges: &[Charge<'_>], states: &[&State], now: Time, is_allowed: bool) -> usize {
    let (indexes, count) = state_indexes(charges);
    assert_eq!(count, states.len(), "one state for each limit and key");
    let mut copies: Vec<State> = states.iter().copied().cloned().collect();
    let mut verdict = None;
    let visited = visits::during(|| verdict = Some(settle(charges, &indexes, &mut copies, now)));
    assert_eq!(verdict.map(|verdict| verdict.is_allowed()), Some(is_allowed));
    visited
}

fn state(limit: &Limit, words: impl Iterator<Item = u64>, blocked_until: Time) -> State {
    let words: Vec<_> = words.chain([blocked_until.nanos()]).collect();
    let snapshot = Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words);
    State::from_snapshot(limit, &snapshot).expect("a valid snapshot")
}

fn log(count: u32, change: impl FnOnce(LimitBuilder) -> LimitBuilder) -> Limit {
    change(Limit::per(count, DAY).sliding_log()).build("log").expect("valid")
}

fn log_state(limit: &Limit, entries: u32, blocked_until: Time) -> State {
    state(limit, (1..=entries).flat_map(|number| [entry_at(number).nanos(), 1]), blocked_until)
}

fn full(limit: &Limit) -> State {
    log_state(limit, limit.count(), Time::EPOCH)
}

#[test]
fn a_decision_on_a_long_log_is_logarithmic() {
    assert_logarithmic(|entries| {
        let limit = log(entries, |limit| limit);
        let (state, now) = (full(&limit), entry_at(entries));
        let half_expired = entry_at(entries / 2) + DAY;
        let at = Some(entry_at(entries / 2));
        let take = limit.charge("key");
        let act = |cost, action| take.with_cost(cost).with_action(action);
        let decisions = [
            ("a peek", take.with_cost(PEEK), now, false),
            ("a peek after half of the log has expired", take.with_cost(PEEK), half_expired, true),
            ("a denied check", take, now, false),
            ("a denied check of half of the count", take.with_cost(entries / 2), now, false),
            ("a check after half of the log has expired", take, half_expired, true),
            ("a take up to the count", act(entries, Action::TakeUpTo), half_expired, true),
            ("a debit", act(1, Action::Debit { at: None }), now, true),
            ("a debit of nothing", act(0, Action::Debit { at: None }), now, true),
            ("a debit in the middle", act(1, Action::Debit { at }), now, true),
            ("a refund", act(1, Action::Refund { at: None }), now, true),
            ("a refund in the middle", act(1, Action::Refund { at }), now, true),
            ("a refund of many", act(entries / 3, Action::Refund { at }), now, true),
            ("a refund of all", act(entries, Action::Refund { at: None }), now, true),
            ("a reset", act(0, Action::Reset), now, true),
        ];
        let visits = |(what, charge, now, is_allowed)| (what, decide(&[charge], &[&state], now, is_allowed));
        decisions.map(visits).into()
    });
}

#[test]
fn the_options_of_a_long_log_are_logarithmic() {
    assert_logarithmic(|entries| {
        let now = entry_at(entries);
        let counting = log(entries, LimitBuilder::count_denied);
        let apart = log(entries, |limit| limit.min_gap(Duration::from_secs(1)));
        let blocking = log(entries, |limit| limit.block_for(DAY));
        let blocked = log_state(&blocking, entries, now + DAY);
        let decisions = [
            ("a counted denial", counting.charge("key"), full(&counting)),
            ("a counted denial of many", counting.charge("key").with_cost(entries / 3), full(&counting)),
            ("a check within the gap", apart.charge("key"), full(&apart)),
            ("a blocked check", blocking.charge("key"), blocked.clone()),
            ("a blocked check of many", blocking.charge("key").with_cost(entries / 2), blocked.clone()),
            ("a blocked peek", blocking.charge("key").with_cost(PEEK), blocked),
        ];
        decisions.map(|(what, charge, state)| (what, decide(&[charge], &[&state], now, false))).into()
    });
}

/// A log in debt has up to 64 entries more than its count.
#[test]
fn a_debit_of_a_long_log_in_debt_is_logarithmic() {
    assert_logarithmic(|entries| {
        let limit = log(entries, |limit| limit);
        let in_debt = log_state(&limit, entries + 64, Time::EPOCH);
        let debit = limit.charge("key").with_action(Action::Debit { at: None });
        let later = entry_at(entries) + Duration::from_secs(1);
        Vec::from([("a debit in debt", decide(&[debit], &[&in_debt], later, true))])
    });
}

#[test]
fn a_request_on_long_logs_is_logarithmic() {
    assert_logarithmic(|entries| {
        let limit = log(entries, |limit| limit);
        let (state, fresh) = (full(&limit), State::default());
        let (now, later) = (entry_at(entries), entry_at(entries / 2) + DAY);
        let (take, other) = (limit.charge("key"), limit.charge("other"));
        let (one, two, with_fresh) = (&[&state][..], &[&state, &state][..], &[&state, &fresh][..]);
        // Each trial refunds or resets many entries of its own copy.
        let refund = Action::Refund { at: Some(entry_at(entries / 4 * 3)) };
        let refund = take.with_cost(entries / 4).with_action(refund);
        let reset = take.with_action(Action::Reset);
        let requests = [
            ("an allowed request", [take, other.with_cost(9)], two, later, true),
            ("a denied request", [take, other], with_fresh, now, false),
            ("a request that the second limit denies", [take, other.with_cost(entries)], two, later, false),
            ("two takes from one key", [take, take.with_cost(entries / 2)], one, now, false),
            ("a refund and a denied take", [refund, take.with_cost(entries)], one, later, false),
            ("a reset and a denied take", [reset, other.with_cost(9)], two, now, false),
        ];
        let visits = |(what, charges, states, now, is_allowed): (_, [Charge<'_>; 2], &[&State], _, _)| {
            (what, decide(&charges, states, now, is_allowed))
        };
        requests.map(visits).into()
    });
}

#[test]
fn a_decision_on_many_leases_is_logarithmic() {
    assert_logarithmic(|entries| {
        let limit = Limit::concurrent(entries).lease(DAY).build("leases").expect("valid");
        let words = (1..=entries).flat_map(|id| [(entry_at(id) + DAY).nanos(), 0, u64::from(id), 1]);
        let state = state(&limit, words, Time::EPOCH);
        let (now, half_expired) = (entry_at(entries), entry_at(entries / 2) + DAY);
        let act =
            |action, id: u32| limit.charge("key").with_action(action).with_lease(LeaseId::new(id.into()));
        let acquire = |id| act(Action::Take { max_wait: None }, id);
        let (held, new) = (entries / 3 * 2, entries + 1);
        let decisions = [
            ("a peek", &[acquire(new).with_cost(PEEK)][..], now, false),
            ("a peek after half have expired", &[acquire(new).with_cost(PEEK)], half_expired, true),
            ("a denied acquisition", &[acquire(new)], now, false),
            ("a denied acquisition of many slots", &[acquire(new).with_cost(entries / 2)], now, false),
            ("an acquisition after half have expired", &[acquire(new)], half_expired, true),
            ("an anonymous acquisition", &[acquire(0)], half_expired, true),
            ("an acquisition of a held lease", &[acquire(held)], now, true),
            ("a held lease that grows", &[acquire(held).with_cost(9)], now, false),
            ("a take up to", &[act(Action::TakeUpTo, held).with_cost(entries)], half_expired, true),
            ("a renewal", &[act(Action::Renew, held)], now, true),
            ("a renewal after half have expired", &[act(Action::Renew, held)], half_expired, true),
            ("a renewal of an expired lease", &[act(Action::Renew, 1)], half_expired, false),
            ("a release", &[act(Action::Release, held)], now, true),
            ("a reset", &[act(Action::Reset, held)], now, true),
            ("two slots", &[acquire(new), acquire(new + 1)], now, false),
            ("a renewal and a release", &[act(Action::Renew, held), act(Action::Release, 5)], now, true),
            ("a denied request", &[act(Action::Release, held), acquire(new).with_cost(2)], now, false),
        ];
        let visits = |(what, charges, now, is_allowed): (_, &[Charge<'_>], _, _)| {
            (what, decide(charges, &[&state], now, is_allowed))
        };
        decisions.map(visits).into()
    });
}
