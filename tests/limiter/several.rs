//! Several limits at once: waiting for all of them, and what a verdict says.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tollgate::{Charge, Clock, Limit, LimitBuilder, Verdict};

use crate::{limiter, poll, ready};

const SECOND: Duration = Duration::from_secs(1);

fn named(name: &str, builder: LimitBuilder) -> Limit {
    builder.build(name).expect("valid")
}

fn passed(polled: &Poll<Result<Verdict, tollgate::StoreError>>) -> bool {
    matches!(polled, Poll::Ready(Ok(verdict)) if verdict.is_allowed())
}

#[test]
fn a_verdict_names_its_most_restrictive_limit() {
    let (limiter, _) = limiter();
    let (api, daily) =
        (named("api", Limit::per_second(10)), named("daily", Limit::per_day(4).fixed_window()));
    let both = |cost: u32| [api.charge("key").with_cost(cost), daily.charge("key").with_cost(cost)];
    let allowed = limiter.check_all_now(both(3)).expect("supported");
    assert_eq!((allowed.is_allowed(), allowed.most_restrictive_limit()), (true, Some("daily")));
    let denied = ready(limiter.check_all(both(3))).expect("the memory store never fails");
    assert_eq!((denied.is_denied(), denied.most_restrictive_limit()), (true, Some("daily")));
    let reversed = [daily.charge("key"), api.charge("key").with_cost(9)];
    let denied = ready(limiter.check_all(reversed)).expect("the memory store never fails");
    assert_eq!((denied.is_denied(), denied.most_restrictive_limit()), (true, Some("api")));
    assert_eq!(denied.retry_after_secs(), Some(1), "200 ms, rounded up");
    assert_eq!(limiter.check_all_now([]).expect("supported").most_restrictive_limit(), None);
}

/// Limits that reserve: both are debited at once, and the caller starts with the later one.
#[test]
fn a_caller_that_reserves_waits_for_the_last_start() {
    let (limiter, clock) = limiter();
    let (user, service) =
        (named("user", Limit::per_second(1)), named("service", Limit::per_second(1).queue(9)));
    let both = [user.charge("key"), service.charge("all")];
    assert!(limiter.check_now(&user, "key").is_allowed());
    for _ in 0..3 {
        assert!(limiter.check_now(&service, "all").is_allowed());
    }
    let mut caller = pin!(limiter.all_until_ready(both, 5 * SECOND));
    assert!(poll(caller.as_mut()).is_pending());
    assert_eq!(limiter.peek_now(&user, "key").debt(), 1, "debited at once");
    clock.advance(SECOND);
    assert!(poll(caller.as_mut()).is_pending(), "the other limit starts later");
    clock.advance(2 * SECOND);
    let Poll::Ready(Ok(verdict)) = poll(caller.as_mut()) else { panic!("it starts now") };
    assert_eq!((verdict.is_allowed(), verdict.start_after()), (true, 3 * SECOND));
    assert_eq!(verdict.most_restrictive_limit(), Some("service"));
    // One of them would start too late.
    let balance = limiter.peek_now(&user, "key").remaining();
    for _ in 0..4 {
        assert!(limiter.check_now(&service, "all").is_allowed());
    }
    let denied = ready(limiter.all_until_ready(both, SECOND)).expect("waiting is supported");
    assert_eq!((denied.is_denied(), denied.most_restrictive_limit()), (true, Some("service")));
    assert_eq!(limiter.peek_now(&user, "key").remaining(), balance, "nothing was debited");
}

#[test]
fn a_dropped_caller_refunds_all_of_its_reservations() {
    let (limiter, _) = limiter();
    let (user, service) = (named("user", Limit::per_second(2)), named("service", Limit::per_second(1)));
    assert!(limiter.check_now(&service, "all").is_allowed());
    {
        let both = [user.charge("key"), service.charge("all")];
        let mut caller = pin!(limiter.all_until_ready(both, 5 * SECOND));
        assert!(poll(caller.as_mut()).is_pending());
        assert_eq!(
            (limiter.peek_now(&user, "key").remaining(), limiter.peek_now(&service, "all").debt()),
            (1, 1)
        );
    }
    assert_eq!(
        (limiter.peek_now(&user, "key").remaining(), limiter.peek_now(&service, "all").debt()),
        (2, 0)
    );
}

/// A window cannot reserve, so nothing is debited before both limits have room.
#[test]
fn nothing_is_debited_while_one_limit_cannot_reserve() {
    let (limiter, clock) = limiter();
    let bucket = named("bucket", Limit::per_second(1).burst(5));
    let window = named("window", Limit::per(1, 10 * SECOND).fixed_window().anchored());
    let both = [bucket.charge("key").with_cost(2), window.charge("key")];
    assert!(limiter.check_now(&window, "key").is_allowed());
    limiter.debit_now(&bucket, "key", 13).expect("supported");
    let mut caller = pin!(limiter.all_until_ready(both, 20 * SECOND));
    for _ in 0..9 {
        assert!(poll(caller.as_mut()).is_pending());
        let before = limiter.peek_now(&bucket, "key").reset_after();
        clock.advance(SECOND);
        assert!(poll(caller.as_mut()).is_pending());
        assert_eq!(before, limiter.peek_now(&bucket, "key").reset_after() + SECOND, "only time passes");
    }
    clock.advance(SECOND);
    assert!(passed(&poll(caller.as_mut())));
    assert!(limiter.peek_now(&window, "key").is_denied());
    assert_eq!(limiter.peek_now(&bucket, "key").reset_after(), 5 * SECOND, "2 were left, and are debited");
}

/// The start time of a queue beside a window: it lies within the wait, or the request is denied.
#[test]
fn a_queue_beside_a_window_starts_within_the_wait() {
    let (limiter, clock) = limiter();
    let queue = named("queue", Limit::per_second(1).queue(9));
    let window = named("window", Limit::per_minute(60).fixed_window());
    let both = [queue.charge("key"), window.charge("key")];
    for _ in 0..4 {
        assert!(limiter.check_now(&queue, "key").is_allowed());
    }
    let mut caller = pin!(limiter.all_until_ready(both, 4 * SECOND));
    assert!(poll(caller.as_mut()).is_pending(), "it starts in 4 s");
    clock.advance(4 * SECOND);
    assert!(passed(&poll(caller.as_mut())));
    let used = limiter.peek_now(&window, "key").remaining();
    {
        let mut dropped = pin!(limiter.all_until_ready(both, 4 * SECOND));
        assert!(poll(dropped.as_mut()).is_pending());
        assert_eq!(limiter.peek_now(&window, "key").remaining(), used - 1);
    }
    assert_eq!(limiter.peek_now(&window, "key").remaining(), used, "refunded");
}

#[test]
fn callers_for_the_same_keys_are_served_in_order_and_hold_up_no_others() {
    let (limiter, clock) = limiter();
    let user = named("user", Limit::per(1, 100 * SECOND).fixed_window().anchored());
    let service = named("service", Limit::per_second(2).fixed_window().anchored());
    let wait = |name: &'static str, patience| {
        // The order of the charges does not matter.
        let charges = if patience > 200 {
            [user.charge(name), service.charge("all")]
        } else {
            [service.charge("all"), user.charge(name)]
        };
        Box::pin(limiter.all_until_ready(charges, patience * SECOND))
    };
    assert!(limiter.check_now(&user, "exhausted").is_allowed());
    assert!(limiter.charge_now(service.charge("all").with_cost(2)).expect("supported").is_allowed());
    let (mut first, mut second, mut other) =
        (wait("exhausted", 300), wait("exhausted", 200), wait("other", 50));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert!(poll(other.as_mut()).is_pending());
    clock.advance(SECOND);
    assert!(poll(second.as_mut()).is_pending() && poll(first.as_mut()).is_pending());
    assert!(passed(&poll(other.as_mut())), "not behind somebody whose own limit is exhausted");
    clock.advance(99 * SECOND);
    assert!(poll(second.as_mut()).is_pending(), "not first in line");
    assert!(passed(&poll(first.as_mut())));
    assert!(poll(second.as_mut()).is_pending());
    clock.advance(100 * SECOND);
    assert!(passed(&poll(second.as_mut())));
}

#[test]
fn a_request_that_cannot_wait_is_an_error() {
    let (limiter, _) = limiter();
    let (api, jobs) = (named("api", Limit::per_second(1)), named("jobs", Limit::concurrent(1)));
    let charges: [Charge<'_>; 2] = [api.charge("key"), jobs.charge("key")];
    let error = ready(limiter.all_until_ready(charges, SECOND)).expect_err("a slot could not be released");
    assert!(error.to_string().contains("`jobs`") && error.to_string().contains("use `acquire`"), "{error}");
    assert_eq!(limiter.peek_now(&api, "key").remaining(), 1);
    assert!(ready(limiter.all_until_ready([], SECOND)).expect("nothing to wait for").is_allowed());
}

#[test]
fn threads_wait_for_several_limits() {
    let (limiter, clock) = limiter();
    let (bucket, window) =
        (named("bucket", Limit::per_second(1)), named("window", Limit::per_second(2).fixed_window()));
    let start = clock.now();
    for call in 1..=3 {
        let both = [bucket.charge("key"), window.charge("key")];
        let verdict = limiter.all_until_ready_blocking(both, 2 * SECOND).expect("waiting is supported");
        assert!(verdict.is_allowed(), "call {call}");
        assert_eq!(verdict.most_restrictive_limit(), Some("bucket"));
    }
    assert_eq!(clock.now().since(start), 2 * SECOND);
    let both = [bucket.charge("key").with_cost(2), window.charge("key")];
    assert!(limiter.all_until_ready_blocking(both, SECOND).expect("waiting is supported").is_denied());
    let reserving = [bucket.charge("key"), bucket.charge("other")];
    let verdict = limiter.all_until_ready_blocking(reserving, SECOND).expect("waiting is supported");
    assert!(verdict.is_allowed());
    assert_eq!(clock.now().since(start), 3 * SECOND);
}
