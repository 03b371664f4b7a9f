//! The `redis` subcommand: which subjects, which workloads, which claims.
//!
//! Every subject has keys of its own in the same server, all of which exist before anything is
//! timed; nothing is flushed in between.
//!
//! # Layout
//!
//! - `server`: the Redis that is measured against
//! - `load`, `usage`: calls in flight, rounds and which of them count, and what they cost
//! - `subject`: what is measured
//! - `tollgate`, `floor`, `peers`: the subjects

mod floor;
mod load;
#[cfg(feature = "peers")]
mod peers;
mod server;
mod subject;
mod tollgate;
mod usage;

use std::sync::Arc;

use crate::keys::Keys;
use crate::report::{Claim, Finding, Findings, Kind};
use load::{Figure, Lap, Load, Track, best};
use server::Server;
use subject::{Contestant, Failure, runner};

/// What the command line asks for.
#[derive(Debug)]
pub struct Options {
    pub rounds: u32,
    pub quick: bool,
    /// Instead of a server of our own.
    pub server: Option<String>,
}

/// Throughput, as most services meet it.
const CHECKS_50: &str = "checks-50";
/// Throughput of many callers.
const CHECKS_500: &str = "checks-500";
/// One call at a time, so that no call shares what it costs the server with another.
const ALONE: &str = "alone";

const FLOOR: &str = "floor";

/// A subject with too few undisturbed rounds gets more, up to so many times the plan.
const MOST_ROUNDS: u32 = 2;

struct Workload {
    name: &'static str,
    in_flight: u32,
    keys: usize,
    /// Per subject and round.
    checks: u32,
    /// By which the rounds are ranked.
    rank: Figure,
    /// The columns of its table, each with the figure in it.
    columns: &'static [(&'static str, Figure)],
}

/// Keys and checks are a tenth in a quick run.
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

fn thousands(lap: &Lap) -> f64 {
    1e3 / lap.time()
}

/// Measures everything and prints it. Fails if one of our own subjects did not do what the
/// workload asks.
///
/// The client has one thread, which leaves a processor of two to the server. A second thread
/// makes nobody faster, as the server is what all wait for, and doubles everybody's processor
/// time in the client, by threads that wake each other.
pub fn run(options: Options) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(measure(options)).map_err(|error| error.to_string())
}

async fn measure(options: Options) -> Result<(), Failure> {
    let server = Server::reach(options.server.clone()).await?;
    let contestants = contestants();
    let mut findings = Findings::default();
    let mut measured = Ok(());
    for workload in &WORKLOADS {
        measured = measure_workload(&options, &server, workload, &contestants, &mut findings).await;
        if measured.is_err() {
            break;
        }
    }
    server.clean().await?;
    measured?;

    println!(
        "thousand checks per second, then µs per check: time, processor time of the client and of the server, \
         the server's scripts; best of {} rounds",
        options.rounds
    );
    for workload in &WORKLOADS {
        let part = contestants.iter().filter(|contestant| contestant.workloads.contains(&workload.name));
        let names: Vec<_> = part.map(|contestant| contestant.name).collect();
        let columns: Vec<_> =
            workload.columns.iter().map(|(column, _)| (*column, vec![(*column).to_owned()])).collect();
        println!("\n{}: {} in flight", workload.name, workload.in_flight);
        findings.print_table(&names, &columns);
    }
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

async fn measure_workload(
    options: &Options,
    server: &Server,
    workload: &Workload,
    contestants: &[Contestant],
    findings: &mut Findings,
) -> Result<(), Failure> {
    let shrink = if options.quick { 10 } else { 1 };
    let load = Load {
        keys: Arc::new(Keys::new(workload.keys / shrink as usize, 1)),
        in_flight: workload.in_flight,
        checks: workload.checks / shrink,
    };
    let mut control = server.connect().await?;
    eprintln!("{}: preparing", workload.name);
    let mut tracks = Vec::new();
    for (index, contestant) in contestants.iter().enumerate() {
        if contestant.workloads.contains(&workload.name) {
            let track = match (contestant.build)(server.place(index)).await {
                Ok(runner) => Track::prepared(runner, &load).await,
                Err(failure) => Err(failure),
            };
            tracks.push((contestant, track));
        }
    }
    eprintln!("{}: measuring", workload.name);
    let enough = options.rounds.div_ceil(2) as usize;
    for round in 0..MOST_ROUNDS * options.rounds {
        for (_, track) in &mut tracks {
            let Ok(running) = track else { continue };
            if round >= options.rounds && running.alone() >= enough {
                continue;
            }
            if let Err(failure) = running.lap(&load, server, &mut control).await {
                *track = Err(failure);
            }
        }
    }
    for (contestant, track) in tracks {
        record(findings, contestant, workload, track)?;
    }
    Ok(())
}

fn record(
    findings: &mut Findings,
    contestant: &Contestant,
    workload: &Workload,
    track: Result<Track, Failure>,
) -> Result<(), Failure> {
    let name = contestant.name;
    match track {
        Ok(track) => {
            let lap = best(&track.laps, workload.rank).expect("there is at least one round");
            for (column, figure) in workload.columns {
                let figure = Finding::Figure { value: figure(&lap), crowded: lap.crowded };
                findings.record(name, (*column).to_owned(), figure);
            }
        }
        Err(failure) if contestant.peer => {
            findings.record(name, workload.name.to_owned(), Finding::Cannot(failure.to_string()));
        }
        Err(failure) => return Err(format!("{name} on {}: {failure}", workload.name).into()),
    }
    Ok(())
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
