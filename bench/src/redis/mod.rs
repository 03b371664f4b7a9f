//! The `redis` subcommand: which subjects, which workloads, which claims.
//!
//! Every subject has keys of its own in the same server, all of which exist before anything is
//! timed; nothing is flushed in between.
//!
//! # Layout
//!
//! - `server`: the Redis that is measured against
//! - `race`: workloads, and the subjects side by side on them
//! - `load`, `usage`: calls in flight, rounds and which of them count, and what they cost
//! - `subject`: what is measured
//! - `tollgate`, `floor`, `peers`: the subjects

pub mod floor;
pub mod load;
#[cfg(feature = "peers")]
mod peers;
pub mod race;
pub mod server;
pub mod subject;
pub mod tollgate;
pub mod usage;

use crate::measure::Plan;
use crate::report::{Claim, Findings, Kind};
use load::Lap;
use race::{Workload, thousands};
use server::Server;
use subject::{Contestant, Failure, runner};

/// Throughput, as most services meet it.
const CHECKS_50: &str = "checks-50";
/// Throughput of many callers.
const CHECKS_500: &str = "checks-500";
/// One call at a time, so that no call shares what it costs the server with another.
const ALONE: &str = "alone";

const FLOOR: &str = "floor";

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: CHECKS_50,
        in_flight: 50,
        keys: 100_000,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-50", thousands),
            (CHECKS_50, Lap::time),
            ("client-cpu-50", Lap::client),
            ("server-cpu-50", Lap::server),
            ("script-50", Lap::scripts),
        ],
    },
    Workload {
        name: CHECKS_500,
        in_flight: 500,
        keys: 100_000,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-500", thousands),
            (CHECKS_500, Lap::time),
            ("client-cpu-500", Lap::client),
            ("server-cpu-500", Lap::server),
            ("script-500", Lap::scripts),
        ],
    },
    // Many subjects, and a cost that does not depend on the number of keys.
    Workload {
        name: ALONE,
        in_flight: 1,
        keys: 2_000,
        checks: 2_000,
        rank: Lap::scripts,
        columns: &[(SCRIPT_ALONE, Lap::scripts)],
    },
];

const SCRIPT_ALONE: &str = "script-alone";

/// Measures everything and prints it. Fails if one of our own subjects did not do what the
/// workload asks.
///
/// The server is the one named, or one of our own.
pub fn run(plan: Plan, server: Option<String>) -> Result<(), String> {
    race::block_on(measure(plan, server)).map_err(|error| error.to_string())
}

async fn measure(plan: Plan, server: Option<String>) -> Result<(), Failure> {
    let server = Server::reach(server).await?;
    let contestants = contestants();
    let mut findings = Findings::default();
    let measured = race::measure(plan, &server, &WORKLOADS, &contestants, &mut findings).await;
    server.clean().await?;
    measured?;

    println!(
        "thousand checks per second, then µs per check: time, processor time of the client and of the server, \
         the server's scripts; best of {} rounds",
        plan.rounds
    );
    race::print(&findings, &WORKLOADS, &contestants);
    findings.conclude(&claims());
    Ok(())
}

fn contestants() -> Vec<Contestant> {
    let mut contestants = tollgate::all();
    contestants.push(Contestant {
        name: FLOOR,
        build: |place| runner(floor::build(place)),
        peer: false,
        workloads: &[CHECKS_50, CHECKS_500, ALONE],
    });
    #[cfg(feature = "peers")]
    contestants.extend(peers::all());
    contestants
}

fn claims() -> Vec<Claim> {
    let against = |kind, column: &str, against| Claim {
        kind,
        name: column.to_owned(),
        against,
        ours: (tollgate::ONE, column.to_owned()),
        theirs: (against, column.to_owned()),
    };
    let variation = |name: &str, against, ours, theirs, column: &str| Claim {
        kind: Kind::Cost,
        name: name.to_owned(),
        against,
        ours: (ours, column.to_owned()),
        theirs: (theirs, column.to_owned()),
    };
    let peers = ["trypema", "throttle-kit", "limitador"];
    let mut claims = vec![against(Kind::Ratio, CHECKS_50, FLOOR), against(Kind::Ratio, CHECKS_500, FLOOR)];
    claims.extend(peers.map(|peer| against(Kind::Ratio, CHECKS_50, peer)));
    claims.extend(peers.map(|peer| against(Kind::Cost, "client-cpu-50", peer)));
    claims.push(variation("five-charges", "one-charge", tollgate::FIVE, tollgate::ONE, CHECKS_50));
    claims.push(variation("batch-64", "one-check", tollgate::BATCH, tollgate::ONE, SCRIPT_ALONE));
    claims
}
