//! Stores around stores, for when a store fails, is slow, or has to be left out.
//!
//! # Layout
//!
//! - [`Guarded`] (`guarded`): a deadline, a breaker, and what to do when the store fails.
//! - [`Coalesced`] (`coalesced`): few calls for many checks.
//! - [`Switched`], [`Switches`] (`switched`): limits that are switched off or only watched, and keys that pass or
//!   don't, while a program runs.

mod coalesced;
mod guarded;
mod switched;

pub use coalesced::Coalesced;
pub use guarded::{Counts, Guarded, Local, OnFailure, Share};
pub use switched::{KeyList, LimitMode, ShadowReport, SwitchState, Switched, Switches};
