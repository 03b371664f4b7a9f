//! What callers and the breaker did.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};

use tollgate_core::{BreakerState, Event, Observer};

use crate::fixture::CALLERS;

/// What callers measured, by limit where there are three.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) granted: [AtomicU32; 3],
    pub(crate) granted_by_store: [AtomicU32; 3],
    pub(crate) decided_by_store: [AtomicU32; 3],
    /// By caller, too.
    pub(crate) decided_by_policy: [[AtomicU32; 3]; CALLERS],
    /// Decisions that the policy of the limit does not make.
    pub(crate) unexpected: Mutex<Vec<String>>,
    pub(crate) stop: AtomicBool,
}

/// The changes of the breaker, in order.
#[derive(Debug, Default)]
pub(crate) struct Transitions(Mutex<Vec<BreakerState>>);

impl Observer for Transitions {
    fn observe(&self, event: Event<'_>) {
        if let Event::BreakerChanged { state, .. } = event {
            self.0.lock().expect("not poisoned").push(state);
        }
    }
}

impl Transitions {
    /// Verifies that every change is one that a circuit breaker makes, and that it is closed at the end.
    pub(crate) fn verify(&self) {
        use BreakerState::{Closed, HalfOpen, Open};
        let mut last = Closed;
        let all = self.0.lock().expect("not poisoned");
        for state in all.iter().copied() {
            let permitted = match last {
                Closed => state == Open,
                Open => state == HalfOpen,
                _ => state == Open || state == Closed,
            };
            assert!(permitted, "{last} to {state} in {all:?}");
            last = state;
        }
        assert!(all.contains(&Open) && last == Closed, "{all:?}");
    }
}
