//! The `redis` subcommand: subjects, workloads and claims.
//!
//! Every subject has its own keys on the same server. All keys exist before anything is timed, and nothing is flushed
//! in between.
//!
//! # Layout
//!
//! - `server`: the Redis server under measurement
//! - `workload`: workloads; `race`: the subjects side by side on them
//! - `algorithms`: every algorithm beside a hand-written script; `long_log`: how long a call holds the server
//! - `load`: calls in flight, rounds, and which round counts; `usage`: CPU times
//! - `subject`: what is measured
//! - `tollgate`, `floor`, `handwritten`, `peers`: the subjects

mod algorithms;
pub mod floor;
mod handwritten;
pub mod load;
mod long_log;
#[cfg(feature = "peers")]
mod peers;
pub mod race;
pub mod server;
pub mod subject;
pub mod tollgate;
pub mod usage;
pub mod workload;

use crate::measure::Plan;
use crate::report::{Claim, Findings, Kind};
use crate::selection::Selection;
use load::Lap;
use server::Server;
use subject::{Contestant, Failure};
use workload::{ALONE, CHECKS_50, CHECKS_500, MANY_KEYS_50, MANY_KEYS_500, Workload};

/// The time in scripts, one call at a time.
const SCRIPT_ALONE: &str = "script-alone";

const WORKLOADS: [Workload; 3] = [
    MANY_KEYS_50,
    MANY_KEYS_500,
    // One call at a time, so that no call shares its cost on the server with another. Many subjects, and a cost that
    // does not depend on the number of keys.
    Workload {
        name: ALONE,
        in_flight: 1,
        keys: 2_000,
        checks: 2_000,
        rank: Lap::scripts,
        columns: &[(SCRIPT_ALONE, Lap::scripts)],
    },
];

/// Measures everything and prints it. Fails if a check of a Tollgate subject fails or is denied.
///
/// Uses the server at the URL, or starts one. `only` are the names of claims or tables, if not all are wanted.
pub fn run(plan: Plan, server: Option<String>, only: &[String]) -> Result<(), String> {
    let mut tables = WORKLOADS.map(|workload| workload.name).to_vec();
    tables.extend([algorithms::TABLE, long_log::TABLE]);
    let selection = Selection::of(only, &claims(), &tables)?;
    race::block_on(measure(plan, server, &selection)).map_err(|error| error.to_string())
}

async fn measure(plan: Plan, server: Option<String>, selection: &Selection) -> Result<(), Failure> {
    let server = Server::open(server).await?;
    let contestants = contestants();
    let mut findings = Findings::default();
    let measured = async {
        race::measure(plan, &server, &WORKLOADS, &contestants, selection, &mut findings).await?;
        server.clean().await?;
        algorithms::measure(plan, &server, selection, &mut findings).await?;
        long_log::measure(plan, &server, selection, &mut findings).await
    };
    let measured = measured.await;
    server.clean().await?;
    measured?;

    println!(
        "thousands of checks per second, then µs per check: time, CPU time of the client and of the server, time in \
         scripts; best of {} rounds",
        plan.rounds
    );
    race::print(&findings, &WORKLOADS, &contestants, selection);
    algorithms::print(&findings, selection);
    long_log::print(&findings, selection);
    findings.conclude(&claims());
    Ok(())
}

fn contestants() -> Vec<Contestant> {
    let mut contestants = tollgate::all();
    contestants.push(floor::contestant(&[CHECKS_50, CHECKS_500, ALONE]));
    #[cfg(feature = "peers")]
    contestants.extend(peers::all());
    contestants
}

fn claims() -> Vec<Claim> {
    let against = |kind, column: &str, against| Claim {
        kind,
        name: column.to_owned(),
        against,
        ours: (tollgate::BARE, column.to_owned()),
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
    let mut claims =
        vec![against(Kind::Ratio, CHECKS_50, floor::NAME), against(Kind::Ratio, CHECKS_500, floor::NAME)];
    claims.extend(peers.map(|peer| against(Kind::Ratio, CHECKS_50, peer)));
    claims.extend(peers.map(|peer| against(Kind::Cost, "client-cpu-50", peer)));
    claims.push(variation("connect-checks-50", "bare", tollgate::CONNECT, tollgate::BARE, CHECKS_50));
    claims.push(variation("five-charges", "one-charge", tollgate::FIVE, tollgate::BARE, CHECKS_50));
    claims.push(variation("batch-64", "one-check", tollgate::BATCH, tollgate::BARE, SCRIPT_ALONE));
    claims.push(Claim {
        kind: Kind::Ratio,
        ..variation("exactly-once-50", "plain", tollgate::EXACTLY_ONCE, tollgate::BARE, CHECKS_50)
    });
    claims.extend(algorithms::claims());
    claims.push(long_log::claim());
    claims
}
