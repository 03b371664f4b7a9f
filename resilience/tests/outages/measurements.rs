//! What callers and the breaker did.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{BreakerState, Event, Observer};

/// What callers measured, by limit where there are three.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) granted: [AtomicU32; 3],
    pub(crate) granted_by_store: [AtomicU32; 3],
    pub(crate) decided_by_store: [AtomicU32; 3],
    pub(crate) decided_by_policy: [AtomicU32; 3],
    /// Decisions that the policy of the limit does not make.
    pub(crate) unexpected: Mutex<Vec<String>>,
    pub(crate) longest_call: Longest,
    /// How long a timer of the length of the deadline took at the same time, without a store.
    pub(crate) longest_timer: Longest,
    pub(crate) stop: AtomicBool,
}

/// The longest of many durations.
#[derive(Debug, Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
    pub(crate) fn record(&self, duration: Duration) {
        self.0.fetch_max(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
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
