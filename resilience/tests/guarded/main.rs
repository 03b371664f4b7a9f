//! A guarded store with injected faults, in virtual time. Outages of a real server are in `outages`.

mod actions;
mod allow_for;
mod breaker;
mod configuration;
mod deadline;
mod faulty;
mod panics;
mod policies;
mod reconciliation;
mod reconciliation_failures;
mod replaced;
