//! Tests of the limiter, on the memory store and a manual clock.

mod admission;
mod permits;
mod reservations;
mod several;
mod stores;
mod waiting;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::{
    AlgorithmKind, AnyStore, Charge, Clock, Decision, ErrorKind, Event, Limit, LimitBuilder, Limiter,
    ManualClock, Outcome, StoreError, Wait,
};

fn limiter() -> (Limiter<MemoryStore, ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    (Limiter::with_clock(MemoryStore::config().max_keys(100).build(), clock.clone()), clock)
}

fn limit(builder: LimitBuilder) -> Limit {
    builder.build("limit").expect("valid")
}

/// Polls a future once, as a runtime would.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the output of a future that never waits.
fn ready<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

type Polled = Poll<Result<Decision, StoreError>>;

fn is_allowed(polled: &Polled) -> bool {
    matches!(polled, Poll::Ready(Ok(decision)) if decision.is_allowed())
}

#[test]
fn every_operation_works_with_and_without_a_runtime() {
    let (limiter, _) = limiter();
    let api = limit(Limit::per_hour(10));
    assert_eq!(limiter.check_now(&api, "now").remaining(), 9);
    assert_eq!(limiter.take_up_to_now(&api, "now", u32::MAX).granted(), 9);
    assert_eq!(limiter.debit_now(&api, "now", 5).expect("supported").debt(), 5);
    assert_eq!(limiter.refund_now(&api, "now", 7).expect("supported").remaining(), 2);
    assert_eq!(limiter.peek_now(&api, "now").remaining(), 2);
    assert!(limiter.charge_now(api.charge("now").with_cost(2)).expect("supported").is_allowed());
    limiter.reset_now(&api, "now");
    assert_eq!(limiter.peek_now(&api, "now").remaining(), 10);
    let both =
        limiter.check_all_now([api.charge("now").with_cost(10), api.charge("then")]).expect("supported");
    assert!(both.is_allowed());

    ready(async {
        assert_eq!(limiter.check(&api, "later").await?.remaining(), 9);
        assert_eq!(limiter.take_up_to(&api, "later", u32::MAX).await?.granted(), 9);
        assert_eq!(limiter.debit(&api, "later", 5).await?.debt(), 5);
        assert_eq!(limiter.refund(&api, "later", 7).await?.remaining(), 2);
        assert_eq!(limiter.peek(&api, "later").await?.remaining(), 2);
        limiter.reset(&api, "later").await?;
        let charges = vec![api.charge("later").with_cost(4), api.charge("later").with_cost(6)];
        assert!(limiter.check_all(charges).await?.is_allowed());
        Ok::<_, StoreError>(())
    })
    .expect("the memory store never fails");
}

#[test]
fn until_ready_is_first_come_first_served() {
    for builder in [
        Limit::per_second(1),
        Limit::per_second(1).queue(5),
        Limit::per_second(1).smooth(),
        Limit::per_second(1).fixed_window(),
        Limit::per_second(1).sliding_log(),
        Limit::per_second(1).sliding_window(),
    ] {
        let (limiter, clock) = limiter();
        let limit = limit(builder);
        while limiter.check_now(&limit, "key").is_allowed() && limit.kind() != AlgorithmKind::LeakyQueue {}
        let wait = || Box::pin(limiter.until_ready(&limit, "key", Duration::from_secs(60)));
        let mut callers = [wait(), wait(), wait()];
        let mut served = Vec::new();
        for _ in 0..200 {
            // The last caller is polled first, so it is the first in the queue.
            for caller in [2, 1, 0] {
                if !served.contains(&caller) && is_allowed(&poll(callers[caller].as_mut())) {
                    served.push(caller);
                }
            }
            clock.advance(Duration::from_millis(100));
        }
        assert_eq!(served, [2, 1, 0], "{}", limit.kind().name());
    }
}

#[test]
fn until_ready_is_denied_after_the_callers_maximum_wait() {
    for builder in
        [Limit::per_minute(1), Limit::per_minute(1).fixed_window(), Limit::per_minute(1).sliding_log()]
    {
        let (limiter, clock) = limiter();
        let limit = limit(builder);
        assert!(limiter.check_now(&limit, "key").is_allowed());
        let denied = ready(limiter.until_ready(&limit, "key", Duration::from_secs(2)))
            .expect("the memory store never fails");
        assert_eq!(denied.outcome(), Outcome::Denied, "denied at once, because the wait would be longer");
        // A caller with a longer maximum wait is in the queue before one with a shorter one.
        let mut patient = pin!(limiter.until_ready(&limit, "key", Duration::from_secs(120)));
        let mut impatient = pin!(limiter.until_ready(&limit, "key", Duration::from_secs(5)));
        assert!(poll(patient.as_mut()).is_pending());
        let polled = poll(impatient.as_mut());
        clock.advance(Duration::from_secs(5));
        let polled = if polled.is_pending() { poll(impatient.as_mut()) } else { polled };
        assert!(matches!(polled, Poll::Ready(Ok(decision)) if decision.is_denied()));
        clock.advance(Duration::from_secs(60));
        assert!(is_allowed(&poll(patient.as_mut())), "{}", limit.kind().name());
    }
}

#[test]
fn a_dropped_caller_refunds_its_reservation() {
    let (limiter, clock) = limiter();
    let limit = limit(Limit::per_second(1));
    assert!(limiter.check_now(&limit, "key").is_allowed());
    {
        let mut dropped = pin!(limiter.until_ready(&limit, "key", Duration::from_secs(60)));
        assert!(poll(dropped.as_mut()).is_pending());
        assert_eq!(limiter.peek_now(&limit, "key").debt(), 1);
    }
    assert_eq!(limiter.peek_now(&limit, "key").debt(), 0, "no later reservation queued behind it");
    // In the queue of a limit that cannot reserve.
    let window = Limit::per_second(1).fixed_window().build("window").expect("valid");
    assert!(limiter.check_now(&window, "key").is_allowed());
    let mut second = pin!(limiter.until_ready(&window, "key", Duration::from_secs(60)));
    {
        let mut first = pin!(limiter.until_ready(&window, "key", Duration::from_secs(60)));
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending());
    }
    assert!(poll(second.as_mut()).is_pending(), "now first in the queue, and denied");
    clock.advance(Duration::from_secs(1));
    assert!(is_allowed(&poll(second.as_mut())));
    assert_eq!(clock.sleepers(), 0, "no sleeper remains");
}

#[test]
fn jitter_only_delays() {
    let (limiter, clock) = limiter();
    let limit = limit(Limit::per_second(1));
    assert!(limiter.check_now(&limit, "key").is_allowed());
    let wait = Wait::up_to(Duration::from_secs(5)).with_jitter(Duration::from_millis(500));
    let mut caller = pin!(limiter.until_ready(&limit, "key", wait));
    assert!(poll(caller.as_mut()).is_pending());
    clock.advance(Duration::from_millis(999));
    assert!(poll(caller.as_mut()).is_pending(), "never early");
    clock.advance(Duration::from_millis(501));
    assert!(is_allowed(&poll(caller.as_mut())), "never more than the jitter late");
}

#[test]
fn jitter_never_exceeds_the_maximum_wait() {
    let (limiter, clock) = limiter();
    let limit = limit(Limit::per_second(1));
    assert!(limiter.check_now(&limit, "key").is_allowed());
    let start = clock.now();
    let wait = Wait::up_to(Duration::from_secs(2)).with_jitter(Duration::MAX);
    assert!(limiter.until_ready_blocking(&limit, "key", wait).expect("waiting is supported").is_allowed());
    assert!(clock.now().since(start) <= Duration::from_secs(2));
}

/// With the wakers of a runtime: a caller that leaves the queue, dropped or served, wakes the next one.
#[tokio::test]
async fn no_caller_in_the_queue_sleeps_forever() {
    let (limiter, clock) = limiter();
    let (limiter, limit) = (Arc::new(limiter), limit(Limit::per_second(1).sliding_log()));
    assert!(limiter.check_now(&limit, "key").is_allowed());
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for caller in 0..4 {
        let (limiter, limit, served) = (Arc::clone(&limiter), limit.clone(), Arc::clone(&served));
        waiting.push(tokio::spawn(async move {
            let decision = limiter
                .until_ready(&limit, "key", Duration::from_secs(60))
                .await
                .expect("waiting is supported");
            assert!(decision.is_allowed());
            served.lock().expect("no panic").push(caller);
        }));
        tokio::task::yield_now().await;
    }
    waiting.remove(1).abort();
    for _ in 0..3 {
        // The tasks run only if they are woken.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(1));
    }
    for task in waiting {
        task.await.expect("woken and served");
    }
    assert_eq!(*served.lock().expect("no panic"), [0, 2, 3]);
}

#[test]
fn waiting_is_an_error_where_it_is_not_supported() {
    let (limiter, _) = limiter();
    let jobs = limit(Limit::concurrent(1));
    let error = ready(limiter.until_ready(&jobs, "key", Duration::from_secs(1))).expect_err("no lease");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("acquire"), "{error}");
    let api = Limit::per_second(1).build("api").expect("valid");
    let debit = api.charge("key").with_action(tollgate::Action::Debit { at: None });
    let error = limiter.charge_until_ready_blocking(debit, Duration::from_secs(1)).expect_err("a debit");
    assert!(error.to_string().contains("only a take"), "{error}");
}

#[test]
fn blocking_waits_behave_like_async_ones() {
    let (limiter, clock) = limiter();
    let start = clock.now();
    let queue = limit(Limit::per_second(10).queue(20));
    for call in 0..20 {
        assert!(until_ready_blocking(&limiter, &queue, 5).is_allowed());
        assert_eq!(clock.now().since(start), Duration::from_millis(100) * call);
    }
    let window = Limit::per_second(3).fixed_window().build("window").expect("valid");
    let start = clock.now();
    assert!((0..9).all(|_| until_ready_blocking(&limiter, &window, 2).is_allowed()));
    assert!(clock.now().since(start) > Duration::from_secs(1));
    let daily = Limit::per_day(1).sliding_log().build("daily").expect("valid");
    assert!(limiter.check_now(&daily, "key").is_allowed());
    assert!(until_ready_blocking(&limiter, &daily, 2).is_denied());
}

fn until_ready_blocking(
    limiter: &Limiter<MemoryStore, ManualClock>,
    limit: &Limit,
    seconds: u64,
) -> Decision {
    limiter.until_ready_blocking(limit, "key", Duration::from_secs(seconds)).expect("waiting is supported")
}

#[test]
fn a_cancelled_reservation_refunds_what_no_later_one_queued_behind() {
    let (limiter, _) = limiter();
    let limit = limit(Limit::per_second(1));
    assert!(limiter.check_now(&limit, "key").is_allowed());
    let minute = Duration::from_secs(60);
    let mut first = limiter.reserve_now(&limit, "key", minute).expect("buckets reserve");
    let mut second = limiter.reserve_now(&limit, "key", minute).expect("buckets reserve");
    assert_eq!((first.start_after(), second.start_after()), (Duration::from_secs(1), Duration::from_secs(2)));
    assert_eq!(limiter.cancel_now(&mut first).granted(), 0, "the second queued behind it");
    assert_eq!(limiter.cancel_now(&mut second).granted(), 1);
    let mut third = ready(limiter.reserve(&limit, "key", minute)).expect("buckets reserve");
    assert_eq!(third.start_after(), Duration::from_secs(2));
    assert_eq!(ready(limiter.cancel(&mut third)).expect("the memory store never fails").granted(), 1);
    let mut never = limiter.reserve_now(&limit, "key", Duration::ZERO).expect("buckets reserve");
    assert!(!never.is_allowed());
    assert!(limiter.cancel_now(&mut never).is_denied(), "there is nothing to refund");
}

#[test]
fn an_unsupported_action_is_an_error_with_a_reason() {
    let (limiter, _) = limiter();
    let window = limit(Limit::per_second(1).fixed_window());
    let error =
        limiter.reserve_now(&window, "key", Duration::from_secs(1)).expect_err("windows cannot reserve");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`limit`") && error.to_string().contains("retry_after"), "{error}");
    assert!(
        limiter.acquire_lease_now(&window, "key").expect_err("no leases").to_string().contains("concurrency")
    );
    let jobs = Limit::concurrent(1).build("jobs").expect("valid");
    assert!(limiter.refund_now(&jobs, "key", 1).expect_err("no refunds").to_string().contains("release"));
    let error = ready(limiter.debit(&window, "key", u32::MAX)).expect_err("too large");
    assert!(error.to_string().contains("use at most 1000000000"), "{error}");
}

#[test]
fn leases_are_held_renewed_and_released() {
    let (limiter, clock) = limiter();
    let jobs = limit(Limit::concurrent(1).lease(Duration::from_secs(10)));
    let lease = limiter.acquire_lease_now(&jobs, "key").expect("a concurrency limit");
    assert!(lease.is_held());
    assert!(!limiter.acquire_lease_now(&jobs, "key").expect("a concurrency limit").is_held());
    clock.advance(Duration::from_secs(9));
    assert!(limiter.renew_now(&lease).is_allowed());
    clock.advance(Duration::from_secs(9));
    assert!(!ready(limiter.acquire_lease(&jobs, "key")).expect("a concurrency limit").is_held());
    limiter.release_now(lease);
    let next = ready(limiter.acquire_lease(&jobs, "key")).expect("a concurrency limit");
    assert!(next.is_held());
    assert!(ready(limiter.renew(&next)).expect("the memory store never fails").is_allowed());
    ready(limiter.release(next)).expect("the memory store never fails");
    assert_eq!(limiter.peek_now(&jobs, "key").remaining(), 1);
}

#[test]
fn an_observer_sees_every_decision_and_no_key() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&events);
    let observer = Arc::new(move |event: Event<'_>| {
        log.lock().expect("no panic").push(format!("{event:?}"));
    });
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(MemoryStore::new(), clock).with_observer(observer);
    let (api, daily) = (limit(Limit::per_hour(1)), Limit::per_day(9).build("daily").expect("valid"));
    let _ = limiter.check_now(&api, "secret");
    let _ = limiter.check_all_now([api.charge("secret"), daily.charge("secret")]);
    let _ = limiter.reserve_now(&daily, "secret", Duration::ZERO);
    let events = events.lock().expect("no panic");
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event.contains("Decided") && !event.contains("secret")));
    assert!(events[1].contains("Denied") && events[2].contains("daily"));
}

#[test]
fn a_store_chosen_at_run_time_is_a_store() {
    let clock = ManualClock::default();
    let store: AnyStore = AnyStore::new(MemoryStore::new());
    let limiter = Arc::new(Limiter::with_clock(store, clock));
    let api = limit(Limit::per_hour(2));
    let spawned = Arc::clone(&limiter);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let allowed = runtime.block_on(async move {
        let task = tokio::spawn(async move {
            let charges: [Charge<'_>; 2] = [api.charge("a"), api.charge("b").with_cost(2)];
            let all = spawned.check_all(charges).await.expect("the memory store never fails").is_allowed();
            let one = spawned.check(&api, "b").await.expect("the memory store never fails").is_allowed();
            (all, one)
        });
        task.await.expect("no panic")
    });
    assert_eq!(allowed, (true, false));
}

/// Counts its wake-ups.
#[derive(Default)]
struct CountingWaker(std::sync::atomic::AtomicUsize);

impl std::task::Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A runtime polls only tasks that were woken.
#[test]
fn a_caller_that_leaves_the_queue_wakes_the_next() {
    let (limiter, _) = limiter();
    let limit = limit(Limit::per_second(1).fixed_window());
    assert!(limiter.check_now(&limit, "key").is_allowed());
    let woken = Arc::new(CountingWaker::default());
    let mut second = pin!(limiter.until_ready(&limit, "key", Duration::from_secs(60)));
    {
        let mut first = pin!(limiter.until_ready(&limit, "key", Duration::from_secs(60)));
        assert!(poll(first.as_mut()).is_pending());
        let waker = Waker::from(Arc::clone(&woken));
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
    assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 1, "it is first in the queue now");
}

#[test]
fn a_maximum_wait_that_is_exactly_long_enough_suffices() {
    let (limiter, clock) = limiter();
    let limit = limit(Limit::per_second(1).fixed_window().anchored());
    assert!(limiter.check_now(&limit, "key").is_allowed());
    // With this much jitter the caller would nearly always be late, if jitter could exceed the maximum wait.
    let wait = Wait::up_to(Duration::from_secs(1)).with_jitter(Duration::from_secs(3_600));
    let mut caller = pin!(limiter.until_ready(&limit, "key", wait));
    assert!(poll(caller.as_mut()).is_pending());
    clock.advance(Duration::from_secs(1));
    assert!(is_allowed(&poll(caller.as_mut())));
}
