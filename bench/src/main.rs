//! Tollgate side by side with other limiters, in one run.
//!
//! Figures from two runs, let alone two machines, say little about each other;
//! the ratios at the end of one run are what counts.
//!
//! # Layout
//!
//! Of all subcommands:
//!
//! - `report`: the table and the claim lines
//! - `keys`: the keys that subjects are asked about
//! - `crowding`: whether other programs were in the way
//! - `measure`: threads, rounds, and which of them count
//!
//! Of `memory`, the limiters that keep their state in this process:
//!
//! - `memory`: which subjects, which workloads, which claims
//! - `subject`: what is measured
//! - `tollgate`, `floor`, `peers`: the subjects
//! - `alloc`: counts live bytes, for the memory a key takes
//!
//! Of `redis`, the limiters that keep their state in Redis: `redis`, with a layout of its own.
//!
//! Of `resilience`, Tollgate's wrappers around stores, by the means of the other two: `resilience`, with a
//! layout of its own.
//!
//! Of `cassandra`, Tollgate's store on Cassandra: `cassandra`, with a layout of its own.
//!
//! Of `sync`, decisions that are made here and exchanged: `sync`, with a layout of its own.
//!
//! Of `sync-sim`, nodes that decide by themselves and exchange, on virtual time: `sync_sim`, with a layout of
//! its own.

mod alloc;
mod cassandra;
mod crowding;
mod floor;
mod keys;
mod measure;
mod memory;
#[cfg(feature = "peers")]
mod peers;
mod redis;
mod report;
mod resilience;
mod subject;
mod sync;
mod sync_sim;
mod tollgate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use measure::Plan;

const USAGE: &str = "\
usage: tollgate-bench memory [--rounds N] [--quick]
       tollgate-bench redis [--rounds N] [--quick] [--server URL]
       tollgate-bench resilience [--rounds N] [--quick]
       tollgate-bench cassandra [--rounds N] [--quick] [URL]
       tollgate-bench sync [--rounds N] [--quick] [--cassandra]
       tollgate-bench sync-sim [--quick] [--out DIR]

  memory        compare the limiters that keep their state in this process
  redis         compare the limiters that keep their state in Redis
  resilience    compare stores with and without what is wrapped around them, on Redis servers
                that are started for the run, and killed
  cassandra     compare the store on Cassandra with the transactions that it cannot do without, and
                with itself in several processes; on a node that is started for the run, or on
                the one at URL, cassandra://HOST:PORT, which should have nothing else to do;
                its keyspace `tollgate_bench` is made anew and removed at the end
  sync          compare local decisions with the memory store, with a peer's and with checks on Redis;
                what exchanges cost, and how near a fleet under overload stays to its limit
  sync-sim      simulate nodes that decide by themselves and exchange with a centre every so often:
                how far they go beyond the limit, and how much of it they use
  --rounds N    rounds per workload (7; 3 with --quick)
  --quick       a short run, to see that everything works; its figures are rough
  --server URL  not a redis-server started for the run, but this one, which should have nothing
                else to do; all keys contain `tollgate-bench-` and are removed at the end
  --cassandra   exchange with a Cassandra node as well, which is started for the run
  --out DIR     where the pictures go (target/sync-sim)";

enum Command {
    Memory(Plan),
    Redis(Plan, Option<String>),
    Resilience(Plan),
    Sync { plan: Plan, cassandra: bool },
    Cassandra(Plan, Option<String>),
    SyncSim { quick: bool, out: PathBuf },
    Contender { url: String, key: String, cold: bool, span: Duration },
}

fn main() -> ExitCode {
    let Some(command) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match command {
        Command::Memory(plan) => memory::run(plan),
        Command::Redis(plan, server) => redis::run(plan, server),
        Command::Resilience(plan) => resilience::run(plan),
        Command::Sync { plan, cassandra } => sync::run(plan, cassandra),
        Command::Cassandra(plan, server) => cassandra::run(plan, server),
        Command::SyncSim { quick, out } => sync_sim::run(quick, &out),
        Command::Contender { url, key, cold, span } => cassandra::contention::contend(&url, &key, cold, span),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// What the arguments ask for, or `None` if they make no sense.
fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Command> {
    let subcommand = arguments.next()?;
    if subcommand == cassandra::contention::SUBCOMMAND {
        let (url, key) = (arguments.next()?, arguments.next()?);
        let cold = arguments.next()? == cassandra::contention::COLD;
        let span = Duration::from_millis(arguments.next()?.parse().ok()?);
        return Some(Command::Contender { url, key, cold, span });
    }
    let (mut rounds, mut quick, mut cassandra, mut server, mut out) = (None, false, false, None, None);
    let simulated = subcommand == "sync-sim";
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" if !simulated => rounds = Some(arguments.next()?.parse().ok().filter(|&n| n > 0)?),
            "--quick" => quick = true,
            "--cassandra" if subcommand == "sync" => cassandra = true,
            "--out" if simulated => out = Some(arguments.next()?),
            "--server" if subcommand == "redis" => server = Some(arguments.next()?),
            url if subcommand == "cassandra" && url.starts_with("cassandra://") => server = Some(argument),
            _ => return None,
        }
    }
    let plan = Plan { rounds: rounds.unwrap_or(if quick { 3 } else { 7 }), quick };
    match subcommand.as_str() {
        "memory" => Some(Command::Memory(plan)),
        "redis" => Some(Command::Redis(plan, server)),
        "resilience" => Some(Command::Resilience(plan)),
        "sync" => Some(Command::Sync { plan, cassandra }),
        "cassandra" => Some(Command::Cassandra(plan, server)),
        "sync-sim" => {
            Some(Command::SyncSim { quick, out: out.unwrap_or_else(|| "target/sync-sim".to_owned()).into() })
        }
        _ => None,
    }
}
