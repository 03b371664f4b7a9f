//! What a decision on a long log or on many leases allocates does not grow with it: no state is copied as a whole.

use std::time::Duration;

use tollgate_core::{Action, Charge, LeaseId, Limit, Limiter, ManualClock, Time};
use tollgate_store_memory::MemoryStore;

const NOW: Time = Time::from_secs(1_790_000_000);
const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_micros(1);
const ENTRIES: u32 = 30_000;
/// Far less than a copy: an entry is 16 bytes or more.
const MAX_BYTES: u64 = 48 * 1_024;

type MemoryLimiter = Limiter<MemoryStore, ManualClock>;

fn assert_no_copy(what: &str, limiter: &MemoryLimiter, charges: &[Charge<'_>], is_allowed: bool) {
    let mut answer = None;
    let measured = allocation_counter::measure(|| answer = limiter.check_all_now(charges).ok());
    assert_eq!(answer.map(|verdict| verdict.is_allowed()), Some(is_allowed), "{what}");
    assert!(measured.bytes_total <= MAX_BYTES, "{what} allocates {} bytes", measured.bytes_total);
}

#[test]
fn a_long_log_is_not_copied() {
    let clock = ManualClock::at(NOW);
    let limiter = Limiter::with_clock(MemoryStore::config().max_keys(1_000).build(), clock.clone());
    let log = |name| Limit::per(ENTRIES, HOUR).sliding_log().build(name).expect("valid");
    let (full, free) = (log("full"), log("free"));
    let blocking = Limit::per(ENTRIES, HOUR).sliding_log().block_for(HOUR).build("blocking").expect("valid");
    for number in 0..ENTRIES {
        clock.advance(STEP);
        assert!(limiter.check_now(&full, "key").is_allowed());
        assert!(limiter.check_now(&blocking, "key").is_allowed());
        if number < ENTRIES - 100 {
            assert!(limiter.check_now(&free, "key").is_allowed());
        }
    }
    assert!(limiter.check_now(&blocking, "key").is_denied());
    let [full, free, blocking] = [&full, &free, &blocking].map(|limit| limit.charge("key"));
    let refund = free.with_action(Action::Refund { at: Some(NOW + STEP * (ENTRIES / 2)) });
    for (what, charges, is_allowed) in [
        ("a peek", &[free.with_cost(0)][..], true),
        ("a check", &[free], true),
        ("a denied check", &[full], false),
        ("a blocked check", &[blocking], false),
        ("a refund", &[refund], true),
        ("a request", &[free, refund], true),
        ("a denied request", &[free, full], false),
        ("a denied request on one key", &[free.with_cost(90), free.with_cost(90)], false),
    ] {
        assert_no_copy(what, &limiter, charges, is_allowed);
    }
}

#[test]
fn many_leases_are_not_copied() {
    let clock = ManualClock::at(NOW);
    let limiter = Limiter::with_clock(MemoryStore::config().max_keys(1_000).build(), clock.clone());
    let limit = Limit::concurrent(ENTRIES).lease(HOUR).build("leases").expect("valid");
    let act = |action, id: u32| limit.charge("key").with_action(action).with_lease(LeaseId::new(id.into()));
    let acquire = |id| act(Action::Take { max_wait: None }, id);
    for id in 1..=ENTRIES {
        clock.advance(STEP);
        assert!(limiter.charge_now(acquire(id)).expect("supported").is_allowed());
    }
    let (held, new) = (ENTRIES / 2, ENTRIES + 1);
    for (what, charges, is_allowed) in [
        ("a peek", &[acquire(new).with_cost(0)][..], false),
        ("a denied acquisition", &[acquire(new)], false),
        ("a renewal", &[act(Action::Renew, held)], true),
        ("a request", &[act(Action::Renew, held), act(Action::Renew, held + 1)], true),
        ("a denied request", &[act(Action::Renew, held), acquire(new)], false),
        ("a release", &[act(Action::Release, held)], true),
    ] {
        assert_no_copy(what, &limiter, charges, is_allowed);
    }
}
