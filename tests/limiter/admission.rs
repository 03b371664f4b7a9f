//! Admission: charges of any kind in one call, slots that release themselves, and charges in shadow mode.

use std::pin::pin;
use std::sync::Arc;

use tollgate::{ErrorKind, Event, Limit, Limiter, ManualClock, Outcome, StoreError};

use crate::stores::{AnswersLater, LosesAnswers};
use crate::{limiter, poll, ready};

fn named(name: &str, builder: tollgate::LimitBuilder) -> Limit {
    builder.build(name).expect("valid")
}

#[test]
fn slots_and_rates_are_taken_together_or_not_at_all() {
    let (limiter, _) = limiter();
    let limiter = Arc::new(limiter);
    let (daily, slots) = (named("daily", Limit::per_day(3)), named("slots", Limit::concurrent(1)));
    let charges = [daily.charge("key"), slots.charge("key")];

    let first = ready(limiter.admit(&charges, &[])).expect("supported");
    assert!(first.is_allowed() && first.permits().len() == 1 && first.permits()[0].is_held());
    let second = ready(limiter.admit(&charges, &[])).expect("supported");
    assert!(second.is_denied() && second.permits().is_empty());
    assert_eq!(second.verdict().most_restrictive_limit(), Some("slots"));
    assert_eq!(limiter.peek_now(&daily, "key").remaining(), 2, "a denied request debits nothing");
    drop(second);
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 0, "a denied request releases nothing");
    drop(first);
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 1);

    limiter.debit_now(&daily, "key", 2).expect("supported");
    let exhausted = ready(limiter.admit(&charges, &[])).expect("supported");
    assert_eq!(exhausted.verdict().most_restrictive_limit(), Some("daily"));
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 1, "no slot of a denied request stays taken");
    assert!(ready(limiter.admit(&[], &[])).expect("nothing to decide").is_allowed());
}

#[test]
fn slots_outlive_the_admission_if_they_are_taken_from_it() {
    let (limiter, _) = limiter();
    let (limiter, slots) = (Arc::new(limiter), named("slots", Limit::concurrent(2)));
    let admission = ready(limiter.admit(&[slots.charge("key")], &[])).expect("supported");
    let permits = admission.into_permits();
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 1);
    drop(permits);
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 2);
}

#[test]
fn shadow_mode_counts_and_never_denies() {
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, (limiter, _)) = (Arc::clone(&events), limiter());
    let limiter = Arc::new(limiter.with_observer(Arc::new(move |event: Event<'_>| {
        if let Event::Decided { limit, decision } = event {
            seen.lock().expect("no panic").push((limit.to_owned(), decision.is_shadowed()));
        }
    })));
    let (api, planned) = (named("api", Limit::per_day(3)), named("planned", Limit::per_day(1)));
    let slots = named("slots", Limit::concurrent(1));
    let shadowed = [planned.charge("key"), slots.charge("key")];
    let first = ready(limiter.admit(&[api.charge("key")], &shadowed)).expect("supported");
    let flags = |admission: &tollgate::Admission| -> Vec<_> {
        admission
            .shadowed()
            .iter()
            .map(|decision| decision.as_ref().is_some_and(tollgate::Decision::is_shadowed))
            .collect()
    };
    assert_eq!((first.is_allowed(), flags(&first), first.permits().len()), (true, vec![false, false], 1));
    let second = ready(limiter.admit(&[api.charge("key")], &shadowed)).expect("supported");
    assert_eq!((second.is_allowed(), flags(&second), second.permits().len()), (true, vec![true, true], 0));
    assert!(second.shadowed().iter().flatten().all(tollgate::Decision::is_allowed));
    let alone = ready(limiter.admit(&[], &shadowed)).expect("supported");
    assert!(alone.is_allowed() && flags(&alone) == [true, true]);
    let expected = [("api", false), ("planned", false), ("slots", false), ("api", false), ("planned", true)];
    let events = events.lock().expect("no panic");
    assert!(events.iter().map(|(name, shadow)| (name.as_str(), *shadow)).take(5).eq(expected), "{events:?}");
}

#[test]
fn a_denied_request_leaves_nothing_in_shadow_mode() {
    let (limiter, _) = limiter();
    let limiter = Arc::new(limiter);
    let (api, planned) = (named("api", Limit::per_day(1)), named("planned", Limit::per_day(5)));
    let slots = named("slots", Limit::concurrent(5));
    let shadowed = [planned.charge("key").with_cost(2), slots.charge("key")];
    let allowed = ready(limiter.admit(&[api.charge("key")], &shadowed)).expect("supported");
    assert!(allowed.is_allowed());
    let denied = ready(limiter.admit(&[api.charge("key")], &shadowed)).expect("supported");
    assert!(denied.is_denied() && denied.permits().is_empty());
    assert_eq!(limiter.peek_now(&planned, "key").remaining(), 3, "refunded");
    assert_eq!(limiter.peek_now(&slots, "key").remaining(), 4, "released");
}

#[test]
fn a_caller_that_goes_away_keeps_no_slot() {
    let limiter = Arc::new(Limiter::with_clock(AnswersLater::default(), ManualClock::default()));
    let slots = named("slots", Limit::concurrent(1));
    {
        let charges = [slots.charge("key")];
        let mut call = pin!(limiter.admit(&charges, &[]));
        assert!(poll(call.as_mut()).is_pending());
        assert_eq!(limiter.store().remaining(&slots, "key"), 0);
    }
    assert_eq!(limiter.store().remaining(&slots, "key"), 1);
}

#[test]
fn a_lost_answer_keeps_no_slot() {
    let limiter = Arc::new(Limiter::with_clock(LosesAnswers::default(), ManualClock::default()));
    let slots = named("slots", Limit::concurrent(1));
    limiter.store().lose(true);
    let error = ready(limiter.admit(&[slots.charge("key")], &[])).expect_err("the answer is lost");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    limiter.store().lose(false);
    let next = ready(limiter.admit(&[slots.charge("key")], &[])).expect("supported");
    assert_eq!(next.verdict().decisions()[0].outcome(), Outcome::Allowed);
}

#[test]
fn a_lost_answer_keeps_no_slot_in_shadow_mode() {
    let limiter = Arc::new(Limiter::with_clock(LosesAnswers::default(), ManualClock::default()));
    let slots = named("slots", Limit::concurrent(1));
    limiter.store().lose(true);
    let lost = ready(limiter.admit(&[], &[slots.charge("key")])).expect("shadow mode never denies");
    assert!(lost.is_allowed() && lost.shadowed() == [None] && lost.permits().is_empty());
    assert_eq!(lost.shadow_error().map(StoreError::kind), Some(ErrorKind::Unavailable));
    limiter.store().lose(false);
    let next = ready(limiter.admit(&[], &[slots.charge("key")])).expect("supported");
    assert!(next.shadow_error().is_none() && next.shadowed()[0].is_some_and(|slot| !slot.is_shadowed()));
}
