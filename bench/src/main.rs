//! Benchmarks of Tollgate beside other rate limiters, in one run.
//!
//! Figures of two runs, or of two machines, are not comparable. The ratios at the end of one run are the results.
//!
//! # Layout
//!
//! For all subcommands:
//!
//! - `report`: tables and claim lines
//! - `selection`: which parts are measured
//! - `keys`: the keys of a workload
//! - `crowding`: whether other programs disturbed a measurement
//! - `measure`: threads, rounds, and which round counts
//! - `columns`: subjects in this process, side by side in columns of a table
//!
//! For `memory`, limiters with their state in this process:
//!
//! - `memory`: workloads, subjects and claims
//! - `subject`: what is measured
//! - `tollgate`, `floor`, `peers`: the subjects
//! - `alloc`: counts live bytes, for the memory per key
//!
//! Each of the others has its own layout:
//!
//! - `redis`: limiters with their state in Redis
//! - `resilience`: Tollgate's wrappers around stores
//! - `cassandra`: Tollgate's store on Cassandra
//! - `sync`: local decisions that are synchronized with a central store
//! - `rules`: requests matched against rules, and rule files loaded

mod alloc;
mod cassandra;
mod columns;
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
mod rules;
mod selection;
mod subject;
mod sync;
mod tollgate;

use std::process::ExitCode;
use std::time::Duration;

use measure::Plan;

const USAGE: &str = "\
usage: tollgate-bench memory [--rounds N] [--quick] [--only NAME]...
       tollgate-bench redis [--rounds N] [--quick] [--only NAME]... [--server URL]
       tollgate-bench resilience [--rounds N] [--quick] [--only NAME]...
       tollgate-bench cassandra [--rounds N] [--quick] [URL]
       tollgate-bench sync [--rounds N] [--quick] [--cassandra]
       tollgate-bench rules [--rounds N] [--quick]

  memory        compares limiters with their state in this process
  redis         compares limiters with their state in Redis
  resilience    compares stores with and without wrappers, on Redis servers that are started for
                the run, and killed
  cassandra     compares the store on Cassandra with bare transactions, and with itself in several
                processes; on a node that is started for the run, or on the node at URL,
                cassandra://HOST:PORT, which should be idle; the keyspace `tollgate_bench` is
                created anew, and dropped at the end
  sync          compares local decisions with the memory store, with a peer and with checks on
                Redis; measures sync rounds, and the overshoot of ten nodes under overload
  rules         matches requests against 10 and 10,000 rules, and loads a file of 10,000 rules
  --rounds N    rounds per workload; default: 7, and 3 with --quick
  --quick       a short run to see that everything works; its figures are imprecise
  --only NAME   measures only what the claim lines with this name compare, or the table with this name
  --server URL  uses the Redis server at URL, which should be idle, instead of starting one; all keys
                contain `tollgate-bench-` and are removed at the end
  --cassandra   also measures sync rounds with a Cassandra node, which is started for the run";

enum Command {
    Memory { plan: Plan, only: Vec<String> },
    Redis { plan: Plan, server: Option<String>, only: Vec<String> },
    Resilience { plan: Plan, only: Vec<String> },
    Sync { plan: Plan, cassandra: bool },
    Rules(Plan),
    Cassandra(Plan, Option<String>),
    Contender { url: String, key: String, cold: bool, span: Duration },
}

fn main() -> ExitCode {
    let Some(command) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match command {
        Command::Memory { plan, only } => memory::run(plan, &only),
        Command::Redis { plan, server, only } => redis::run(plan, server, &only),
        Command::Resilience { plan, only } => resilience::run(plan, &only),
        Command::Sync { plan, cassandra } => sync::run(plan, cassandra),
        Command::Rules(plan) => rules::run(plan),
        Command::Cassandra(plan, server) => cassandra::run(plan, server),
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

/// Parses the arguments. `None` if they are invalid.
fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Command> {
    let subcommand = arguments.next()?;
    if subcommand == cassandra::contention::SUBCOMMAND {
        let (url, key) = (arguments.next()?, arguments.next()?);
        let cold = arguments.next()? == cassandra::contention::COLD;
        let span = Duration::from_millis(arguments.next()?.parse().ok()?);
        return Some(Command::Contender { url, key, cold, span });
    }
    let (mut rounds, mut quick, mut cassandra, mut server, mut only) = (None, false, false, None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = Some(arguments.next()?.parse().ok().filter(|&n| n > 0)?),
            "--quick" => quick = true,
            "--cassandra" if subcommand == "sync" => cassandra = true,
            "--only" if ["memory", "redis", "resilience"].contains(&&*subcommand) => {
                only.push(arguments.next()?);
            }
            "--server" if subcommand == "redis" => server = Some(arguments.next()?),
            url if subcommand == "cassandra" && url.starts_with("cassandra://") => server = Some(argument),
            _ => return None,
        }
    }
    let plan = Plan { rounds: rounds.unwrap_or(if quick { 3 } else { 7 }), quick };
    match subcommand.as_str() {
        "memory" => Some(Command::Memory { plan, only }),
        "redis" => Some(Command::Redis { plan, server, only }),
        "resilience" => Some(Command::Resilience { plan, only }),
        "sync" => Some(Command::Sync { plan, cassandra }),
        "rules" => Some(Command::Rules(plan)),
        "cassandra" => Some(Command::Cassandra(plan, server)),
        _ => None,
    }
}
