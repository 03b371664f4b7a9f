//! A guarded store whose faults are made on demand, in virtual time. Real outages are in `outages`.

mod actions;
mod breaker;
mod deadline;
mod faulty;
mod handover;
mod panics;
mod policies;
