//! Reservations that are cancelled more than once.

use std::time::Duration;

use tollgate::{Effect, Limit, Limiter, ManualClock};

use crate::stores::LosesAnswers;
use crate::{limit, limiter, ready};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_cancel_that_is_repeated_after_a_lost_answer_refunds_once() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(LosesAnswers::default(), clock.clone());
    let api = limit(Limit::per_minute(10));
    let debt = || ready(limiter.peek(&api, "key")).expect("a decision").debt();
    ready(limiter.debit(&api, "key", 14)).expect("a decision");
    let mut reservation = ready(limiter.reserve(&api, "key", MINUTE)).expect("buckets reserve");
    assert!(reservation.is_allowed());
    assert_eq!(debt(), 5);
    limiter.store().lose(true);
    for attempt in 0..3 {
        let error = ready(limiter.cancel(&mut reservation)).expect_err("the answer is lost");
        assert_eq!(error.effect(), Effect::Unknown);
        limiter.store().lose(false);
        assert_eq!(debt(), 4, "attempt {attempt}");
        limiter.store().lose(true);
    }
    limiter.store().lose(false);
    assert_eq!(
        ready(limiter.cancel(&mut reservation)).expect("a decision").granted(),
        1,
        "as the first time"
    );
    assert_eq!(debt(), 4, "refunded once");
    // Each reservation has a key of its own.
    let mut next = ready(limiter.reserve(&api, "key", MINUTE)).expect("buckets reserve");
    assert_eq!(debt(), 5);
    assert_eq!(ready(limiter.cancel(&mut next)).expect("a decision").granted(), 1);
    assert_eq!(debt(), 4);
}

#[test]
fn a_cancelled_reservation_is_not_refunded_again() {
    let (limiter, _) = limiter();
    let api = limit(Limit::per_minute(10));
    limiter.debit_now(&api, "key", 14).expect("supported");
    let mut reservation = limiter.reserve_now(&api, "key", MINUTE).expect("buckets reserve");
    for _ in 0..3 {
        assert_eq!(limiter.cancel_now(&mut reservation).granted(), 1);
        assert_eq!(
            ready(limiter.cancel(&mut reservation)).expect("the memory store never fails").granted(),
            1
        );
        assert_eq!(limiter.peek_now(&api, "key").debt(), 4);
    }
    let mut denied = limiter.reserve_now(&api, "key", Duration::ZERO).expect("buckets reserve");
    assert_eq!(limiter.cancel_now(&mut denied).granted(), 0, "there is nothing to refund");
}
