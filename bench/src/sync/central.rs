//! The checks that `local` decides, on Redis: one call each, fifty in flight.

use crate::measure::Plan;
use crate::redis::load::Lap;
use crate::redis::race::{self, Workload, thousands};
use crate::redis::server::Server;
use crate::redis::subject::{Contestant, Failure, runner};
use crate::redis::tollgate::Check;
use crate::report::Findings;

pub const CENTRAL: &str = "central";
const MANY: &str = "100k-50";
/// Per check, to be compared with a local one.
pub const NANOSECONDS: &str = "ns-50";

const WORKLOADS: [Workload; 1] = [Workload {
    name: MANY,
    in_flight: 50,
    keys: 100_000,
    checks: 25_000,
    rank: Lap::time,
    columns: &[
        ("thousands/s-50", thousands),
        (MANY, Lap::time),
        (NANOSECONDS, |lap| 1e3 * lap.time()),
        ("client-cpu-50", Lap::client),
        ("server-cpu-50", Lap::server),
    ],
}];

fn contestants() -> Vec<Contestant> {
    let build = |place| runner(Check::through(place, |redis| redis));
    vec![Contestant { name: CENTRAL, build, peer: false, workloads: &[MANY] }]
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    race::measure(plan, server, &WORKLOADS, &contestants(), findings).await
}

pub fn print(findings: &Findings) {
    race::print(findings, &WORKLOADS, &contestants());
}
