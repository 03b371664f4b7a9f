//! The core of Tollgate, a rate limiter: limits and their algorithms (token bucket, leaky bucket, GCRA, fixed and
//! sliding windows, concurrency), decisions, clocks, and the [`Store`](store::Store) trait that backends implement. No
//! I/O, no runtime, no global state; `no_std` with `alloc`.
//!
//! Most programs use the `tollgate` crate, which brings a store along. Authors of stores start with [`store`], and run
//! the trials of `tollgate-conformance`.
//!
//! # Layout
//!
//! What an application needs is at the root, what the author of a store or wrapper needs is in [`store`].
//!
//! - [`Limit`] (`limit`): an algorithm with its parameters and a name; [`LimitBuilder`] validates them.
//! - [`Key`], [`Charge`], [`Request`] (`key`, `charge`): the input of a check.
//! - [`Decision`], [`Verdict`], [`Balance`] (`decision`): its result.
//! - [`Limiter`] (`limiter`): a store and a clock.
//! - [`Clock`], [`Timer`] (`clock`), [`Time`] (`time`): where time comes from.
//! - [`Event`], [`Observer`] (`event`): the hook for metrics and logs.
//! - [`documents`]: versioned documents, where rule sets and plan assignments are stored.
//! - [`StoreError`], [`ConfigError`] (`error`): errors of stores, and of configurations that cannot be built.
//! - `algorithm`: one file per algorithm; `rate`: rates without drift; `state`, `settle`: the pure functions that every
//!   store agrees with.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod algorithm;
mod charge;
mod clock;
mod decision;
pub mod documents;
mod error;
mod event;
#[cfg(feature = "std")]
mod ids;
mod key;
mod limit;
mod limiter;
#[cfg(test)]
mod long_states;
mod rate;
mod settle;
mod state;
pub mod store;
mod time;
#[cfg(test)]
mod worked_example;

pub use algorithm::{AlgorithmKind, RedisCellReply};
pub use charge::{Action, Charge, IdempotencyKey, LeaseId, Request};
pub use clock::{BlockingTimer, Clock, Timer};
#[cfg(feature = "std")]
pub use clock::{ManualClock, SystemClock};
pub use decision::{Balance, Decision, Outcome, Source, Verdict};
pub use error::{ConfigError, Effect, ErrorKind, StoreError};
pub use event::{BreakerState, Event, FallbackReason, Observer};
pub use key::Key;
pub use limit::{Limit, LimitBuilder, LimitError};
#[cfg(feature = "std")]
pub use limiter::{Admission, Lease, Permit, Wait};
pub use limiter::{Limiter, Reservation};
pub use store::AnyStore;
pub use time::Time;
