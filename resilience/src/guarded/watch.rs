//! What a guard counts and tells.

use std::sync::Arc;

use tollgate_core::{
    BreakerState, Clock, Decision, Event, FallbackReason, Observer, Source, StoreError, SystemClock, Time,
};

use super::call::Failure;
use super::counts::Counters;

#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) counters: Counters,
    observer: Option<Observed>,
}

/// Calls are timed only if somebody wants to know.
struct Observed {
    observer: Arc<dyn Observer>,
    clock: SystemClock,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("counts", &self.counters.read()).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn by(observer: Arc<dyn Observer>) -> Self {
        let observed = Observed { observer, clock: SystemClock::new() };
        Self { observer: Some(observed), ..Self::default() }
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(Observed { observer, .. }) = &self.observer {
            observer.observe(event);
        }
    }

    /// A call begins.
    pub(crate) fn begin(&self) -> Option<Time> {
        self.observer.as_ref().map(|observed| observed.clock.now())
    }

    /// A call that [began](Self::begin) then has ended.
    pub(crate) fn called(&self, began: Option<Time>, failure: Option<&Failure>) {
        if let (Some(Observed { observer, clock }), Some(began)) = (&self.observer, began) {
            let error: Option<StoreError> = failure.cloned().map(Failure::into_error);
            observer.observe(Event::StoreCalled { took: clock.now().since(began), error: error.as_ref() });
        }
    }

    /// The store failed a call.
    pub(crate) fn failed(&self, failure: &Failure) {
        self.counters.failed.one();
        match failure {
            Failure::Error(_) => {}
            Failure::Late(_) => self.counters.late.one(),
            Failure::Panic => self.counters.panicked.one(),
        }
    }

    /// The breaker does something else now, if it does.
    pub(crate) fn changed(&self, state: Option<BreakerState>) {
        if let Some(state) = state {
            if state == BreakerState::Open {
                self.counters.opened.one();
            }
            self.tell(Event::BreakerChanged { state });
        }
    }

    /// Something other than the store decided.
    pub(crate) fn fell_back(&self, limit: &str, reason: FallbackReason, decision: &Decision) {
        let counter = match decision.source() {
            Source::Fallback => &self.counters.local,
            _ if decision.is_allowed() => &self.counters.allowed,
            _ => &self.counters.denied,
        };
        counter.one();
        self.tell(Event::FellBack { limit, reason, decision });
    }
}
