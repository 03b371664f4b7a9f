//! Waiting across block times, and in line.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tollgate::{Limit, LimitBuilder, Outcome};

use crate::{is_allowed, limit, limiter, poll, ready};

const SECOND: Duration = Duration::from_secs(1);

fn blocking() -> [LimitBuilder; 3] {
    let block = |limit: LimitBuilder| limit.block_for(10 * SECOND);
    [
        block(Limit::per_second(1)),
        block(Limit::per_second(1).smooth()),
        block(Limit::per_second(1).fixed_window()),
    ]
}

#[test]
fn waiting_goes_on_across_a_block_time() {
    for builder in blocking() {
        let (limiter, clock) = limiter();
        let limit = limit(builder);
        // The first denial starts the block time.
        while limiter.check_now(&limit, "key").is_allowed() {}
        let impatient = ready(limiter.until_ready(&limit, "key", 9 * SECOND)).expect("waiting is supported");
        assert_eq!(impatient.retry_after(), Some(10 * SECOND), "denied at once: the block ends later");
        let mut patient = pin!(limiter.until_ready(&limit, "key", 20 * SECOND));
        assert!(poll(patient.as_mut()).is_pending());
        clock.advance(Duration::from_nanos(9_999_999_999));
        assert!(poll(patient.as_mut()).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert!(is_allowed(&poll(patient.as_mut())), "{}", limit.kind().name());
        assert_eq!(clock.sleepers(), 0);
    }
}

#[test]
fn blocking_waits_go_on_across_a_block_time() {
    for builder in blocking() {
        let (limiter, clock) = limiter();
        let limit = limit(builder);
        // The first denial starts the block time.
        while limiter.check_now(&limit, "key").is_allowed() {}
        let start = tollgate::Clock::now(&clock);
        let impatient =
            limiter.until_ready_blocking(&limit, "key", 9 * SECOND).expect("waiting is supported");
        assert_eq!((impatient.is_denied(), tollgate::Clock::now(&clock)), (true, start));
        assert!(
            limiter
                .until_ready_blocking(&limit, "key", 20 * SECOND)
                .expect("waiting is supported")
                .is_allowed()
        );
        assert_eq!(tollgate::Clock::now(&clock).since(start), 10 * SECOND);
    }
}

#[test]
fn a_start_that_is_too_late_is_denied_at_once() {
    let (limiter, clock) = limiter();
    let limit = limit(Limit::per_second(1));
    limiter.debit_now(&limit, "key", 31).expect("supported");
    let denied = ready(limiter.until_ready(&limit, "key", 20 * SECOND)).expect("waiting is supported");
    assert_eq!((denied.outcome(), clock.sleepers()), (Outcome::Denied, 0));
}

/// Five units are free again after 60 s, and ten after 90 s.
#[test]
fn a_caller_that_times_out_in_line_is_answered_for_its_own_cost() {
    let (limiter, clock) = limiter();
    let log = limit(Limit::per_minute(10).sliding_log());
    let take = |cost| limiter.charge_now(log.charge("key").with_cost(cost)).expect("supported");
    assert!(take(5).is_allowed());
    clock.advance(30 * SECOND);
    assert!(take(5).is_allowed());
    let mut first = pin!(limiter.charge_until_ready(log.charge("key").with_cost(8), 120 * SECOND));
    assert!(poll(first.as_mut()).is_pending());
    for (cost, seconds) in [(1, 25), (5, 25), (6, 55), (10, 55)] {
        let mut second = pin!(limiter.charge_until_ready(log.charge("key").with_cost(cost), Duration::ZERO));
        let Poll::Ready(Ok(denied)) = poll(second.as_mut()) else { panic!("no time is left") };
        assert_eq!(denied.outcome(), Outcome::Denied, "cost {cost}");
        assert_eq!(denied.retry_after(), Some((seconds + 5) * SECOND), "cost {cost}");
        assert_eq!((denied.granted(), denied.remaining()), (0, 0));
    }
    let never = ready(limiter.charge_until_ready(log.charge("key").with_cost(11), Duration::ZERO));
    assert_eq!(never.expect("waiting is supported").outcome(), Outcome::NeverFits);
    clock.advance(60 * SECOND);
    assert!(is_allowed(&poll(first.as_mut())), "nothing was debited meanwhile");
}

#[test]
fn a_caller_that_only_others_hold_up_is_denied_with_a_retry_time() {
    let (limiter, _) = limiter();
    let window = limit(Limit::per_minute(10).fixed_window());
    assert!(limiter.charge_now(window.charge("key").with_cost(5)).expect("supported").is_allowed());
    let mut first = pin!(limiter.charge_until_ready(window.charge("key").with_cost(8), 120 * SECOND));
    assert!(poll(first.as_mut()).is_pending());
    for cost in [1, 4] {
        let second = limiter.charge_until_ready(window.charge("key").with_cost(cost), Duration::ZERO);
        let denied = ready(second).expect("waiting is supported");
        assert_eq!((denied.outcome(), denied.granted(), denied.remaining()), (Outcome::Denied, 0, 5));
        assert!(denied.retry_after().is_some_and(|wait| !wait.is_zero()));
        assert_eq!(denied.retry_after_secs(), Some(1));
    }
}
