//! Slots of concurrency limits: permits release themselves, and nothing takes a slot that nobody could release.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::{ErrorKind, Limit, Limiter, ManualClock, Outcome, StoreError};

use crate::stores::AnswersLater;
use crate::{limit, limiter, poll, ready};

#[test]
fn a_permit_is_released_when_it_is_dropped() {
    let (limiter, clock) = limiter();
    let (limiter, jobs) = (Arc::new(limiter), limit(Limit::concurrent(1).lease(Duration::from_secs(60))));
    for _ in 0..3 {
        let permit = ready(limiter.acquire(&jobs, "key")).expect("a concurrency limit");
        assert!(permit.is_held());
        let second = limiter.acquire_now(&jobs, "key").expect("a concurrency limit");
        assert!(!second.is_held() && second.decision().is_denied());
        drop(second);
        assert_eq!(
            limiter.peek_now(&jobs, "key").remaining(),
            0,
            "a permit that is not held releases nothing"
        );
    }
    limiter.acquire_now(&jobs, "key").expect("a concurrency limit").forget();
    assert!(
        !limiter.acquire_now(&jobs, "key").expect("a concurrency limit").is_held(),
        "kept until it expires"
    );
    clock.advance(Duration::from_secs(60));
    assert!(limiter.acquire_now(&jobs, "key").expect("a concurrency limit").is_held());
    let error = limiter.acquire_now(&Limit::per_second(1).build("api").expect("valid"), "key");
    assert_eq!(error.expect_err("no leases").kind(), ErrorKind::Unsupported);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_renewed_permit_outlives_its_lease_and_notices_when_it_is_lost() {
    let clock = ManualClock::default();
    let limiter = Arc::new(Limiter::with_clock(MemoryStore::new(), clock.clone()));
    let jobs = limit(Limit::concurrent(1).lease(Duration::from_secs(60)));
    let permit = limiter.acquire_renewed(&jobs, "key").await.expect("a concurrency limit");
    for _ in 0..30 {
        // Lets the renewing task run until it sleeps again.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(20));
    }
    assert!(permit.is_held(), "renewed for ten minutes");
    assert!(!limiter.acquire_now(&jobs, "key").expect("a concurrency limit").is_held());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    // The reset removes the lease, so the next renewal fails.
    limiter.reset_now(&jobs, "key");
    clock.advance(Duration::from_secs(20));
    while !permit.is_lost() {
        tokio::task::yield_now().await;
    }
    assert!(!permit.is_held());
    let other = limiter.acquire_now(&jobs, "key").expect("a concurrency limit");
    drop(permit);
    assert!(other.is_held() && limiter.peek_now(&jobs, "key").is_denied(), "a lost permit releases nothing");
}

/// A slot that a check took would be held until its lease expires: three requests, and the limit is exhausted.
#[test]
fn a_check_of_a_concurrency_limit_takes_no_slot() {
    let (limiter, _) = limiter();
    let jobs = limit(Limit::concurrent(3));
    let errors = [
        ready(limiter.check(&jobs, "key")).expect_err("no lease"),
        ready(limiter.charge(jobs.charge("key").with_cost(2))).expect_err("no lease"),
        ready(limiter.check_all([jobs.charge("key")])).expect_err("no lease"),
        ready(limiter.take_up_to(&jobs, "key", 2)).expect_err("no lease"),
        limiter.charge_now(jobs.charge("key")).expect_err("no lease"),
        limiter.check_all_now([jobs.charge("key")]).expect_err("no lease"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("`limit`") && error.to_string().contains("use `acquire`"),
            "{error}"
        );
    }
    for decision in [limiter.check_now(&jobs, "key"), limiter.take_up_to_now(&jobs, "key", 2)] {
        assert_eq!((decision.outcome(), decision.retry_after()), (Outcome::NeverFits, None));
        assert_eq!((decision.granted(), decision.remaining()), (0, 3));
    }
    assert_eq!(limiter.peek_now(&jobs, "key").remaining(), 3, "a peek takes nothing");
    assert!(ready(limiter.peek(&jobs, "key")).expect("the memory store never fails").is_allowed());
    let lease = jobs.charge("key").with_lease(tollgate::LeaseId::unique());
    assert!(limiter.charge_now(lease).expect("a lease").is_allowed(), "it can be released");
}

type Slots = Arc<Limiter<MemoryStore, ManualClock>>;

async fn returns_early(limiter: &Slots, jobs: &Limit) -> Result<(), StoreError> {
    let permit = limiter.acquire(jobs, "key").await?;
    if permit.is_held() {
        return Ok(());
    }
    panic!("the slot of an earlier request was not released")
}

async fn fails(limiter: &Slots, jobs: &Limit) -> Result<(), StoreError> {
    let permit = limiter.acquire(jobs, "key").await?;
    assert!(permit.is_held(), "the slot of an earlier request was not released");
    Err(StoreError::new(ErrorKind::Internal, "injected"))
}

#[test]
fn every_way_out_releases_the_slot() {
    let (limiter, _) = limiter();
    let (limiter, jobs) = (Arc::new(limiter), limit(Limit::concurrent(1).lease(Duration::from_secs(60))));
    let free = || limiter.peek_now(&jobs, "key").remaining();
    for _ in 0..3 {
        ready(returns_early(&limiter, &jobs)).expect("a decision");
        assert_eq!(free(), 1, "after an early return");
        assert!(ready(fails(&limiter, &jobs)).is_err());
        assert_eq!(free(), 1, "after an error");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let permit = limiter.acquire_now(&jobs, "key").expect("a concurrency limit");
            assert!(!permit.is_held(), "injected");
        }));
        assert!(panicked.is_err());
        assert_eq!(free(), 1, "after a panic");
        // A client that disconnects drops the future of its handler.
        let handler = async {
            let permit = limiter.acquire(&jobs, "key").await.expect("a decision");
            std::future::pending::<()>().await;
            drop(permit);
        };
        {
            let mut handler = pin!(handler);
            assert!(poll(handler.as_mut()).is_pending());
            assert_eq!(free(), 0);
        }
        assert_eq!(free(), 1, "after a dropped future");
    }
}

/// The store has granted the slot, but its caller is gone before the answer arrives.
#[test]
fn a_caller_that_is_dropped_during_the_call_leaves_no_slot_behind() {
    let (store, clock) = (AnswersLater::default(), ManualClock::default());
    let limiter = Arc::new(Limiter::with_clock(store, clock));
    let jobs = limit(Limit::concurrent(1));
    {
        let mut caller = pin!(limiter.acquire(&jobs, "key"));
        assert!(poll(caller.as_mut()).is_pending());
        assert_eq!(limiter.store().remaining(&jobs, "key"), 0, "granted, not answered");
    }
    assert_eq!(limiter.store().remaining(&jobs, "key"), 1);
}

#[test]
fn a_permit_can_be_moved_into_a_task() {
    fn is_owned<T: Send + 'static>(_: &T) {}
    let limiter = Arc::new(limiter().0);
    is_owned(&limiter.acquire_now(&limit(Limit::concurrent(1)), "key").expect("a concurrency limit"));
}
