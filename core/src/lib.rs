//! The core of Tollgate: limits, algorithms, decisions, time, and the seam that stores implement. No I/O,
//! no runtime, no global state; `no_std` with `alloc`.
//!
//! Most programs use the `tollgate` crate, which brings a store along. Whoever writes a store starts with
//! [`Store`] and runs the trials of `tollgate-conformance` on it.
//!
//! # Layout
//!
//! - [`Limit`] (`limit`): an algorithm with its numbers, plus a name; [`LimitBuilder`] checks them.
//! - [`Key`], [`Charge`], [`Request`] (`key`, `charge`): what is asked; [`OwnedRequest`] (`owned`): the same, to keep.
//! - [`Decision`], [`Verdict`] (`decision`): what is answered.
//! - `algorithm`: one file per algorithm; `pace`: rates without drift.
//! - [`State`], [`Snapshot`] (`state`), [`settle`]: the pure functions that every store agrees with.
//! - [`Store`], [`AnyStore`], [`ImmediateStore`] (`store`), [`Capability`], [`StoreError`]: the seam.
//! - [`decide_in_places`] (`spread`): requests over several entities, for stores that keep these apart.
//! - [`Clock`], [`Timer`] (`clock`), [`Time`] (`time`): where time comes from.
//! - [`Limiter`] (`limiter`): what a user holds.
//! - [`Event`], [`Observer`] (`event`): what metrics hang on.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod algorithm;
mod capability;
mod charge;
mod clock;
mod decision;
mod error;
mod event;
#[cfg(feature = "std")]
mod ids;
mod key;
mod limit;
mod limiter;
mod owned;
mod pace;
mod settle;
mod spread;
mod state;
mod store;
mod time;
#[cfg(test)]
mod trying;

pub use algorithm::{AlgorithmKind, Flow, FullAt, PlainTake, RedisCellReply};
pub use capability::{Atomicity, Capability, Kinds, OperationMemory, Timekeeper};
pub use charge::{Action, Charge, LeaseId, OperationId, Request};
pub use clock::{BlockingTimer, Clock, Timer};
#[cfg(feature = "std")]
pub use clock::{ManualClock, SystemClock};
pub use decision::{Decision, Outcome, RawDecision, Source, Verdict};
pub use error::{Effect, ErrorKind, StoreError};
pub use event::{BreakerState, Event, FallbackReason, Observer};
pub use key::Key;
pub use limit::{
    Limit, LimitBuilder, LimitError, MAX_COUNT, MAX_ENTRIES, MAX_FILL, MAX_NAME, MAX_PERIOD, MAX_SUB_BUCKETS,
    Numbers,
};
#[cfg(feature = "std")]
pub use limiter::{Lease, Patience};
pub use limiter::{Limiter, Reservation};
pub use owned::{OwnedCharge, OwnedKey, OwnedRequest};
pub use settle::{settle, slots};
pub use spread::{Part, Places, decide_in_places};
pub use state::{Snapshot, State};
pub use store::{
    AnyStore, DynStore, Export, ImmediateStore, Run, RunVerdict, Store, book_and_export, decide_one_by_one,
};
pub use time::Time;
