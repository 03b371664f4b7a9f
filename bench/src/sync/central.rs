//! The checks of `local` on Redis: one call each, 50 in flight.

use crate::measure::Plan;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::{Contestant, Failure};
use crate::redis::tollgate::bare;
use crate::redis::workload::{CHECKS_50, MANY_KEYS_50, Workload};
use crate::report::{Finding, Findings};
use crate::selection::Selection;

pub const CENTRAL: &str = "central";
/// Nanoseconds per check, to compare with a local decision.
pub const NANOSECONDS: &str = "ns-50";

const WORKLOADS: [Workload; 1] = [MANY_KEYS_50];

fn contestants() -> [Contestant; 1] {
    [bare(CENTRAL, &[CHECKS_50])]
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let everything = Selection::default();
    race::measure(plan, server, &WORKLOADS, &contestants(), &everything, findings).await?;
    let microseconds = findings.figure(CENTRAL, CHECKS_50).unwrap_or(f64::NAN);
    let figure = Finding::Figure { value: 1e3 * microseconds, crowded: false };
    findings.record(CENTRAL, NANOSECONDS.to_owned(), figure);
    Ok(())
}

pub fn print(findings: &Findings) {
    race::print(findings, &WORKLOADS, &contestants(), &Selection::default());
}
