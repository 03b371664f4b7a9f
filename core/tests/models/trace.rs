//! Random traces, and the run of one along a limit and its model.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseResult};
use tollgate_core::store::State;
use tollgate_core::{Action, Charge, Decision, Limit, Outcome, Time};

use super::promises;

/// Where traces begin, and where they stop: far from both ends of time, so that nothing saturates.
pub(crate) const BEGIN: u64 = 1_000_000_000_123_456_789;
pub(crate) const HORIZON: u64 = 3_000_000_000_000_000_000;
/// Debits stop piling up here, for the same reason.
const DEEP_DEBT: Duration = Duration::from_secs(10 * 366 * 86_400);

/// So many cases; what failed once is kept beside the test.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let beside = FileFailurePersistence::WithSource("proptest-regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(beside)), ..ProptestConfig::default() }
}

/// What is asked, with its numbers settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Take(u32),
    Reserve(u32, Duration),
    TakeUpTo(u32),
    Debit(u32),
    Refund(u32),
    Forget,
}

impl Ask {
    pub(crate) fn charge(self, limit: &Limit) -> Charge<'_> {
        let (cost, action) = match self {
            Self::Take(cost) => (cost, Action::Take { max_wait: None }),
            Self::Reserve(cost, wait) => (cost, Action::Take { max_wait: Some(wait) }),
            Self::TakeUpTo(cost) => (cost, Action::TakeUpTo),
            Self::Debit(cost) => (cost, Action::Debit { at: None }),
            Self::Refund(cost) => (cost, Action::Refund { at: None }),
            Self::Forget => (0, Action::Reset),
        };
        limit.charge("k").with_cost(cost).with_action(action)
    }

    /// A take of either kind, which a block time holds up.
    pub(crate) fn takes(self) -> bool {
        matches!(self, Self::Take(_) | Self::Reserve(..) | Self::TakeUpTo(_))
    }
}

/// A step before it meets a limit: numbers are relative to the limit's own, so that boundaries are hit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pause: Pause,
    verb: Verb,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    None,
    Nanos(u64),
    /// Around a multiple of the time of one token.
    Intervals(u64, i64),
    /// Around a multiple of the period.
    Periods(u64, i64),
    /// Thousandths of the period.
    PartOfPeriod(u64),
    /// Around the next multiple of the period (or a fraction of it) on the clock.
    Boundary(u64, i64),
    /// Around the instant that the last denial named.
    Retry(i64),
    /// Around the instant at which the last decision promised a fresh state.
    Reset(i64),
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Take,
    /// With a patience of so many hundredths of a period, or of a token's time.
    Reserve(u32),
    ReserveIntervals(u32),
    TakeUpTo,
    Debit,
    Refund,
    Forget,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Few(u32),
    AroundCapacity(i64),
    /// Thousandths of the capacity.
    Part(u32),
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec((pauses(), verbs(), costs()).prop_map(|(pause, verb, cost)| Step { pause, verb, cost }), 1..=most)
}

fn pauses() -> impl Strategy<Value = Pause> {
    let off = || -1..=1_i64;
    prop_oneof![
        4 => Just(Pause::None),
        2 => (1..4_u64).prop_map(Pause::Nanos),
        3 => (1..4_u64, off()).prop_map(|(times, off)| Pause::Intervals(times, off)),
        2 => (1..3_u64, off()).prop_map(|(times, off)| Pause::Periods(times, off)),
        1 => (5..12_u64).prop_map(|times| Pause::Periods(times, 0)),
        4 => (1..1500_u64).prop_map(Pause::PartOfPeriod),
        2 => (1..4_u64, off()).prop_map(|(part, off)| Pause::Boundary(part, off)),
        3 => off().prop_map(Pause::Retry),
        2 => off().prop_map(Pause::Reset),
    ]
}

fn verbs() -> impl Strategy<Value = Verb> {
    prop_oneof![
        16 => Just(Verb::Take),
        4 => (0..150_u32).prop_map(Verb::Reserve),
        4 => (0..4_u32).prop_map(Verb::ReserveIntervals),
        4 => Just(Verb::TakeUpTo),
        3 => Just(Verb::Debit),
        3 => Just(Verb::Refund),
        1 => Just(Verb::Forget),
    ]
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        5 => (0..4_u32).prop_map(Cost::Few),
        2 => (-2..=2_i64).prop_map(Cost::AroundCapacity),
        2 => (0..1000_u32).prop_map(Cost::Part),
    ]
}

impl Cost {
    fn of(self, limit: &Limit) -> u32 {
        let capacity = limit.capacity();
        match self {
            Self::Few(cost) => cost,
            Self::AroundCapacity(off) => {
                u32::try_from((i64::from(capacity) + off).max(0)).unwrap_or(u32::MAX)
            }
            Self::Part(part) => u32::try_from(u64::from(capacity) * u64::from(part) / 1000).unwrap_or(0),
        }
    }
}

/// A limit's period in nanoseconds.
pub(crate) fn period(limit: &Limit) -> u64 {
    u64::try_from(limit.period().as_nanos()).expect("a year at most")
}

/// What the last decision promised, for pauses that aim at it.
#[derive(Clone, Copy, Default)]
struct Promised {
    retry_at: u64,
    reset_at: u64,
}

impl Pause {
    fn end(self, limit: &Limit, now: u64, promised: Promised) -> u64 {
        let period = period(limit);
        let interval = (period / u64::from(limit.count())).max(1);
        let target = match self {
            Self::None => now,
            Self::Nanos(nanos) => now + nanos,
            Self::Intervals(times, off) => (now + times * interval).saturating_add_signed(off),
            Self::Periods(times, off) => (now + times * period).saturating_add_signed(off),
            Self::PartOfPeriod(part) => now + period / 1000 * part + period % 1000 * part / 1000,
            Self::Boundary(part, off) => {
                let grid = (period / part).max(1);
                ((now / grid + 1) * grid).saturating_add_signed(off)
            }
            Self::Retry(off) => promised.retry_at.saturating_add_signed(off),
            Self::Reset(off) => promised.reset_at.saturating_add_signed(off),
        };
        target.max(now)
    }
}

impl Step {
    /// The same step, but what it would give back it takes.
    pub(crate) fn without_refund(self) -> Self {
        let verb = if matches!(self.verb, Verb::Refund) { Verb::Take } else { self.verb };
        Self { verb, ..self }
    }

    fn ask(self, limit: &Limit, in_debt: bool) -> Ask {
        let cost = self.cost.of(limit);
        let reserve = |patience: u64| {
            if limit.kind().reserves() {
                Ask::Reserve(cost, Duration::from_nanos(patience))
            } else {
                Ask::Take(cost)
            }
        };
        match self.verb {
            Verb::Reserve(part) if !in_debt => reserve(period(limit) / 100 * u64::from(part)),
            Verb::ReserveIntervals(times) if !in_debt => {
                reserve(period(limit) / u64::from(limit.count()) * u64::from(times))
            }
            Verb::Debit if !in_debt => Ask::Debit(cost),
            Verb::Take | Verb::Reserve(_) | Verb::ReserveIntervals(_) | Verb::Debit => Ask::Take(cost),
            Verb::TakeUpTo => Ask::TakeUpTo(cost),
            Verb::Refund => Ask::Refund(cost),
            Verb::Forget => Ask::Forget,
        }
    }
}

/// A trace with its numbers settled as it runs: hands out when and what to ask next.
pub(crate) struct Walk<'s> {
    steps: std::slice::Iter<'s, Step>,
    now: u64,
    promised: Promised,
}

impl<'s> Walk<'s> {
    pub(crate) fn along(steps: &'s [Step]) -> Self {
        Self { steps: steps.iter(), now: BEGIN, promised: Promised::default() }
    }

    pub(crate) fn next(&mut self, limit: &Limit, state: &State) -> Option<(Time, Ask)> {
        let step = self.steps.next()?;
        self.now = step.pause.end(limit, self.now, self.promised);
        let now = Time::from_nanos(self.now);
        let in_debt = state.fresh_at().since(now) > DEEP_DEBT;
        (self.now < HORIZON).then(|| (now, step.ask(limit, in_debt)))
    }

    pub(crate) fn heard(&mut self, decision: &Decision) {
        let ahead = |span: Duration| self.now + u64::try_from(span.as_nanos()).expect("below the horizon");
        let retry_at = decision.retry_after().map_or(self.promised.retry_at, ahead);
        self.promised = Promised { retry_at, reset_at: ahead(decision.reset_after()) };
    }
}

/// A slow, obviously right limiter.
pub(crate) trait Model {
    /// Checks what was decided, and does the same.
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult;
}

/// Runs a trace along a limit and its model, and checks the promises of every answer.
pub(crate) fn run(limit: &Limit, steps: &[Step], mut model: impl Model) -> TestCaseResult {
    let mut state = State::default();
    let mut walk = Walk::along(steps);
    while let Some((now, ask)) = walk.next(limit, &state) {
        let seen = state.apply(&ask.charge(limit), now);
        model.follow(now.nanos(), ask, &seen).map_err(|error| in_context(&error, limit, now, ask, &seen))?;
        promises::are_kept(limit, &state, now, &ask.charge(limit), &seen)
            .map_err(|error| in_context(&error, limit, now, ask, &seen))?;
        walk.heard(&seen);
    }
    Ok(())
}

pub(crate) fn in_context(
    error: &TestCaseError,
    limit: &Limit,
    now: Time,
    ask: Ask,
    seen: &Decision,
) -> TestCaseError {
    let limit = limit.to_builder();
    TestCaseError::fail(format!("{error}\n  at {now}: {ask:?}\n  answered {seen:?}\n  of {limit:?}"))
}

/// The whole numbers of an answer whose unit is a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) granted: u64,
    /// What is left; below zero is debt.
    pub(crate) left: i128,
}

impl Answer {
    pub(crate) fn of(decision: &Decision) -> Self {
        Self {
            outcome: decision.outcome(),
            granted: decision.granted().into(),
            left: i128::from(decision.remaining()) - i128::from(decision.debt()),
        }
    }
}

/// A model that counts whole tokens, so that its answers are exact, and cannot reserve.
pub(crate) trait Counting {
    fn capacity(&self) -> u64;
    /// Time passes.
    fn advance(&mut self, now: u64);
    /// What counts against the capacity now.
    fn used(&self) -> u64;
    /// Whether something other than the count is in the way.
    fn held_up(&self) -> bool {
        false
    }
    fn add(&mut self, cost: u64);
    /// Takes back up to `cost`; says how much.
    fn take_back(&mut self, cost: u64) -> u64;
    fn forget(&mut self);
    /// A take of so much was denied.
    fn denied(&mut self, _cost: u64) {}
}

/// What any counter answers: the rules of takes, debits and refunds.
pub(crate) fn count(model: &mut impl Counting, now: u64, ask: Ask) -> Answer {
    model.advance(now);
    let capacity = model.capacity();
    let there = capacity.saturating_sub(model.used());
    let (outcome, granted) = match ask {
        Ask::Take(cost) | Ask::Reserve(cost, _) if u64::from(cost) > capacity => (Outcome::NeverFits, 0),
        Ask::Take(cost) | Ask::Reserve(cost, _) => {
            let passes = u64::from(cost.max(1)) <= there && !model.held_up();
            if passes { (Outcome::Allowed, cost.into()) } else { (Outcome::Denied, 0) }
        }
        Ask::TakeUpTo(cost) => {
            let passes = there > 0 && !model.held_up();
            if passes { (Outcome::Allowed, u64::from(cost).min(there)) } else { (Outcome::Denied, 0) }
        }
        Ask::Debit(cost) => (Outcome::Allowed, cost.into()),
        Ask::Refund(cost) => (Outcome::Allowed, model.take_back(cost.into())),
        Ask::Forget => {
            model.forget();
            (Outcome::Allowed, 0)
        }
    };
    match ask {
        Ask::Take(cost) | Ask::Reserve(cost, _) | Ask::TakeUpTo(cost)
            if outcome == Outcome::Denied && cost > 0 =>
        {
            model.denied(cost.into());
        }
        Ask::Refund(_) | Ask::Forget => {}
        _ if granted > 0 => model.add(granted),
        _ => {}
    }
    Answer { outcome, granted, left: i128::from(capacity) - i128::from(model.used()) }
}

impl<C: Counting> Model for C {
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        prop_assert_eq!(Answer::of(seen), count(self, now, ask), "seen and expected");
        prop_assert_eq!(seen.start_after(), Duration::ZERO, "a counter passes now or not at all");
        Ok(())
    }
}

/// Takes up to `cost` back from hits, in their order, and says how much that was.
pub(crate) fn take_from<'h, T: 'h>(hits: impl Iterator<Item = &'h mut (T, u64)>, cost: u64) -> u64 {
    let mut given = 0;
    for (_, left) in hits {
        let part = (cost - given).min(*left);
        *left -= part;
        given += part;
    }
    given
}

/// The state that a trace leaves behind, and when.
pub(crate) fn walked(limit: &Limit, steps: &[Step]) -> (State, Time) {
    let (mut state, mut now) = (State::default(), Time::from_nanos(BEGIN));
    let mut walk = Walk::along(steps);
    while let Some((then, ask)) = walk.next(limit, &state) {
        now = then;
        if ask.charge(limit).supported().is_ok() {
            walk.heard(&state.apply(&ask.charge(limit), now));
        }
    }
    (state, now)
}

/// Lets `check` look at every answer along a trace, and at the state it left.
pub(crate) fn each_answer(
    limit: &Limit,
    steps: &[Step],
    check: impl Fn(&State, Time, Ask, &Decision) -> TestCaseResult,
) -> TestCaseResult {
    let mut state = State::default();
    let mut walk = Walk::along(steps);
    while let Some((now, ask)) = walk.next(limit, &state) {
        let charge = ask.charge(limit);
        if charge.supported().is_err() {
            continue;
        }
        let seen = state.apply(&charge, now);
        check(&state, now, ask, &seen).map_err(|error| in_context(&error, limit, now, ask, &seen))?;
        walk.heard(&seen);
    }
    Ok(())
}
