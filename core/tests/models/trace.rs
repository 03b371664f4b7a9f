//! Running traces, and the comparison of a limit with its model along one.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseResult};
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Time};

use super::guarantees;
use super::steps::Reported;
pub(crate) use super::steps::{Operation, Step, steps};

/// Where traces start and stop: far from both ends of time, so that nothing saturates.
pub(crate) const START: u64 = 1_000_000_000_123_456_789;
pub(crate) const HORIZON: u64 = 3_000_000_000_000_000_000;
/// No further debits beyond this debt, for the same reason.
const MAX_DEBT: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Returns a configuration that runs this many cases, and keeps failed ones beside the test.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("proptest-regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

/// Returns a span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("below the horizon")
}

/// Returns a limit's period in nanoseconds.
pub(crate) fn period(limit: &Limit) -> u64 {
    nanos(limit.period())
}

/// A running trace: returns when each operation happens, and what it is.
pub(crate) struct Trace<'s> {
    steps: std::slice::Iter<'s, Step>,
    now: u64,
    reported: Reported,
}

impl<'s> Trace<'s> {
    pub(crate) fn of(steps: &'s [Step]) -> Self {
        Self { steps: steps.iter(), now: START, reported: Reported::default() }
    }

    pub(crate) fn next(&mut self, limit: &Limit, state: &State) -> Option<(Time, Operation)> {
        let step = self.steps.next()?;
        self.now = step.pause.end(limit, self.now, self.reported);
        let now = Time::from_nanos(self.now);
        let in_debt = state.fresh_at().since(now) > MAX_DEBT;
        (self.now < HORIZON).then(|| (now, step.operation(limit, in_debt)))
    }

    /// Observes a decision, for pauses that aim at what it reports.
    pub(crate) fn observe(&mut self, decision: &Decision) {
        let later = |span: Duration| self.now + nanos(span);
        let retry_at = decision.retry_after().map_or(self.reported.retry_at, later);
        self.reported = Reported { retry_at, reset_at: later(decision.reset_after()) };
    }
}

/// A slow and simple implementation of an algorithm.
pub(crate) trait Model {
    /// Checks a decision, and applies the same operation to the model.
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult;
}

/// Runs a trace on a limit and its model, and checks the guarantees of every decision.
pub(crate) fn run(limit: &Limit, steps: &[Step], mut model: impl Model) -> TestCaseResult {
    let mut state = State::default();
    let mut trace = Trace::of(steps);
    while let Some((now, operation)) = trace.next(limit, &state) {
        let decision = state.apply(&operation.charge(limit), now);
        model
            .follow(now.nanos(), operation, &decision)
            .map_err(|error| in_context(&error, limit, now, operation, &decision))?;
        guarantees::check(limit, &state, now, &operation.charge(limit), &decision)
            .map_err(|error| in_context(&error, limit, now, operation, &decision))?;
        trace.observe(&decision);
    }
    Ok(())
}

pub(crate) fn in_context(
    error: &TestCaseError,
    limit: &Limit,
    now: Time,
    operation: Operation,
    decision: &Decision,
) -> TestCaseError {
    let limit = limit.to_builder();
    TestCaseError::fail(format!(
        "{error}\n  at {now}: {operation:?}\n  decided {decision:?}\n  under {limit:?}"
    ))
}

/// Returns the state after a trace, and the time.
pub(crate) fn state_after(limit: &Limit, steps: &[Step]) -> (State, Time) {
    let (mut state, mut now) = (State::default(), Time::from_nanos(START));
    let mut trace = Trace::of(steps);
    while let Some((then, operation)) = trace.next(limit, &state) {
        now = then;
        if operation.charge(limit).supported().is_ok() {
            trace.observe(&state.apply(&operation.charge(limit), now));
        }
    }
    (state, now)
}

/// Runs a trace, and checks every decision with the state that it left.
pub(crate) fn for_each_decision(
    limit: &Limit,
    steps: &[Step],
    check: impl Fn(&State, Time, Operation, &Decision) -> TestCaseResult,
) -> TestCaseResult {
    let mut state = State::default();
    let mut trace = Trace::of(steps);
    while let Some((now, operation)) = trace.next(limit, &state) {
        let charge = operation.charge(limit);
        if charge.supported().is_err() {
            continue;
        }
        let decision = state.apply(&charge, now);
        check(&state, now, operation, &decision)
            .map_err(|error| in_context(&error, limit, now, operation, &decision))?;
        trace.observe(&decision);
    }
    Ok(())
}
