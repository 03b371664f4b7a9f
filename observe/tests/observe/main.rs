//! What becomes of events: metrics and lines.
//!
//! - `counting`: every event ends where the crate's table says
//! - `cardinality`: names of limits, however many
//! - `logging`: which lines, at which level, how often
//! - `discretion`: keys appear nowhere
//! - `load`: many threads lose nothing, and the hot path does not allocate
//! - `recorded`, `lines`: how tests look at metrics and at lines

mod cardinality;
mod counting;
mod discretion;
mod lines;
mod load;
mod logging;
mod recorded;

use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{Charge, Decision, Limit, Source};

/// A limit of one.
fn one() -> Limit {
    Limit::per_day(1).build("one").expect("valid")
}

/// A decision by `source` that lets a charge pass.
fn passing(source: Source) -> Decision {
    RawDecision::allow(&one().charge("somebody"), source).into()
}

/// A decision by `source` that turns a charge away.
fn refusing(source: Source) -> Decision {
    let limit = one();
    let charge: Charge<'_> = limit.charge("somebody");
    RawDecision::deny(&charge, Duration::from_secs(1), source).into()
}
