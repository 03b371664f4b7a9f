//! Nobody waits longer than the deadline.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, ErrorKind, Key, Limit, Request, Source, Time};
use tollgate_resilience::{Guarded, OnFailure};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Mode, Scene};

/// How long a call takes, in the runtime's own time, which stands still while something happens.
#[expect(clippy::disallowed_methods, reason = "the runtime's virtual time")]
async fn taking<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let answer = call.await;
    (began.elapsed(), answer)
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_call_ends_in_time() {
    let deadline = Duration::from_millis(20);
    let scene = Scene::new(|guarded| guarded.opens_after(64, 64));
    let limit = Limit::per_second(10).build("api").expect("valid");
    let (guarded, now, key) = (&scene.guarded, scene.clock.now(), Key::from("a"));
    scene.faulty.is(Mode::Hangs);

    let (took, decision) = taking(scene.check(&limit, "a")).await;
    assert_eq!((took, decision.source()), (deadline, Source::Policy));
    let charges = [limit.charge("a"), limit.charge("b")];
    let (took, verdict) = taking(scene.decide(&charges)).await;
    assert_eq!((took, verdict.expect("an answer").is_allowed()), (deadline, true));
    let run = [Run::new(Request::new(&charges), 3)];
    let (took, mut answers) = taking(guarded.decide_batch(&run, now)).await;
    assert_eq!((took, answers.remove(0).expect("an answer").passed()), (deadline, 3));
    let (took, export) = taking(guarded.export(&limit, key, now)).await;
    assert_eq!((took, export.expect_err("no policy for that").kind()), (deadline, ErrorKind::Timeout));

    scene.faulty.is(Mode::Fine);
    let _ = scene.check(&limit, "a").await;
    scene.faulty.is(Mode::Hangs);
    let (took, applied) = taking(guarded.apply_deltas(Request::new(&charges), now)).await;
    assert_eq!((took, applied.expect_err("no policy for that").kind()), (deadline, ErrorKind::Timeout));
    assert_eq!(guarded.counts().late, 5);
    assert_eq!(guarded.counts().failed, 5);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_can_be_chosen() {
    let scene = Scene::new(|guarded| guarded.deadline(Duration::from_millis(7)));
    let limit = Limit::per_second(10).build("api").expect("valid");
    scene.faulty.is(Mode::Hangs);
    assert_eq!(taking(scene.check(&limit, "a")).await.0, Duration::from_millis(7));
}

#[test]
fn a_store_that_never_waits_needs_no_runtime() {
    let guarded = Guarded::new(MemoryStore::new()).on_failure(OnFailure::Deny);
    let limit = Limit::per_second(10).build("api").expect("valid");
    let (charge, now) = (limit.charge("a"), Time::from_secs(1_790_000_000));
    let mut call = pin!(guarded.decide_one(&charge, &now));
    let Poll::Ready(decision) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("memory does not wait")
    };
    assert_eq!(decision.expect("an answer").source(), Source::Store);
}
