//! Tollgate side by side with other limiters, in one process and one run.
//!
//! Figures from two runs, let alone two machines, say little about each other;
//! the ratios at the end of one run are what counts.
//!
//! # Layout
//!
//! - `memory`: the subcommand: which subjects, which workloads, which claims
//! - `measure`, `crowding`: threads, rounds, and which of them count
//! - `report`: the table and the claim lines
//! - `subject`, `keys`: what is measured, and the keys it is asked about
//! - `tollgate`, `floor`, `peers`: the subjects
//! - `alloc`: counts live bytes, for the memory a key takes

mod alloc;
mod crowding;
mod floor;
mod keys;
mod measure;
mod memory;
#[cfg(feature = "peers")]
mod peers;
mod report;
mod subject;
mod tollgate;

use std::process::ExitCode;
use std::time::Duration;

use measure::Plan;

const USAGE: &str = "\
usage: tollgate-bench memory [--rounds N] [--quick]

  memory      compare the limiters that keep their state in this process
  --rounds N  rounds per workload (7; 3 with --quick)
  --quick     a short run, to see that everything works; its figures are rough";

fn main() -> ExitCode {
    let Some(plan) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match memory::run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// The plan that the arguments ask for, or `None` if they make no sense.
fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Plan> {
    if arguments.next()? != "memory" {
        return None;
    }
    let mut rounds = None;
    let mut quick = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = Some(arguments.next()?.parse().ok().filter(|&n| n > 0)?),
            "--quick" => quick = true,
            _ => return None,
        }
    }
    Some(Plan {
        rounds: rounds.unwrap_or(if quick { 3 } else { 7 }),
        lap: Duration::from_millis(if quick { 20 } else { 100 }),
    })
}
