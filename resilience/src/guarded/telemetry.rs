//! The counters and the observer of a guarded store.

use std::sync::{Arc, OnceLock};

use tollgate_core::{
    BreakerState, Clock, Decision, Event, FallbackReason, Observer, Source, StoreError, SystemClock, Time,
};

use super::call::Failure;
use super::stats::Counters;

pub(super) struct Telemetry {
    /// The name of the store in events.
    name: Box<str>,
    pub(super) counters: Counters,
    observation: OnceLock<Observation>,
}

/// An observer, and the clock that measures calls for it. Without an observer, calls are not measured.
struct Observation {
    observer: Arc<dyn Observer>,
    clock: SystemClock,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, counters, observation: _ } = self;
        f.debug_struct("Telemetry")
            .field("name", name)
            .field("stats", &counters.read())
            .finish_non_exhaustive()
    }
}

impl Telemetry {
    pub(super) fn new(name: Box<str>) -> Self {
        Self { name, counters: Counters::default(), observation: OnceLock::new() }
    }

    /// Sends events to `observer`, unless there is one already.
    pub(super) fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        let observe = || Observation { observer: Arc::clone(observer), clock: SystemClock::new() };
        self.observation.get_or_init(observe);
    }

    /// Returns the name of the store in events.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn observe(&self, event: Event<'_>) {
        if let Some(Observation { observer, .. }) = self.observation.get() {
            observer.observe(event);
        }
    }

    /// Returns the start time of a call, if calls are measured.
    pub(super) fn call_started(&self) -> Option<Time> {
        self.observation.get().map(|observation| observation.clock.now())
    }

    /// Reports the end of a call.
    pub(super) fn call_ended(&self, started: Option<Time>, failure: Option<&Failure>) {
        if let (Some(Observation { observer, clock }), Some(started)) = (self.observation.get(), started) {
            let error: Option<StoreError> = failure.cloned().map(Failure::into_error);
            let (store, took) = (self.name(), clock.now().since(started));
            observer.observe(Event::StoreCalled { store, took, error: error.as_ref() });
        }
    }

    /// Counts a failed call.
    pub(super) fn call_failed(&self, failure: &Failure) {
        self.counters.failed_calls.increment();
        match failure {
            Failure::Error(_) => {}
            Failure::Timeout(_) => self.counters.timed_out_calls.increment(),
            Failure::Panic => self.counters.panics.increment(),
        }
    }

    /// Reports the new state of the breaker, if it changed.
    pub(super) fn breaker_changed(&self, state: Option<BreakerState>) {
        if let Some(state) = state {
            if state == BreakerState::Open {
                self.counters.opened.increment();
            }
            self.observe(Event::BreakerChanged { store: self.name(), state });
        }
    }

    /// Reports a decision that the store did not make.
    pub(super) fn fell_back(&self, limit: &str, reason: FallbackReason, decision: &Decision) {
        let counter = match decision.source() {
            Source::Fallback => &self.counters.decided_by_fallback,
            _ if decision.is_allowed() => &self.counters.allowed_by_policy,
            _ => &self.counters.denied_by_policy,
        };
        counter.increment();
        self.observe(Event::FellBack { limit, reason, decision });
    }
}
