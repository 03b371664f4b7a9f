//! Events as metrics and as log lines.
//!
//! - `counting`: every event is counted as the crate's table says
//! - `cardinality`: the number of labels is bounded
//! - `logging`: which lines are written, at which level, and how often
//! - `discretion`: keys appear nowhere
//! - `load`: concurrent threads lose nothing, and the hot path does not allocate
//! - `recorded`, `lines`: how tests read metrics and lines

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

/// A limit of one per day.
fn one() -> Limit {
    Limit::per_day(1).build("one").expect("valid")
}

/// Returns a decision by `source` that allows a charge.
fn allowed(source: Source) -> Decision {
    RawDecision::allow(&one().charge("user:42"), source).into()
}

/// Returns a decision by `source` that denies a charge.
fn denied(source: Source) -> Decision {
    let limit = one();
    let charge: Charge<'_> = limit.charge("user:42");
    RawDecision::deny(&charge, Duration::from_secs(1), source).into()
}
