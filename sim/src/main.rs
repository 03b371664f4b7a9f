//! A simulator of rate limiting by nodes that decide locally and synchronize with a central store: how far they exceed
//! the limit (overshoot), and how much of it they use (utilization).
//!
//! ```sh
//! cargo run --release -p tollgate-sim
//! ```
//!
//! The nodes are `tollgate-limiter-sync` itself around a memory store, on a manual clock. Requests, sync rounds and
//! network partitions are simulated. Calls to the central store take no time. The same arguments print the same
//! figures.
//!
//! # Layout
//!
//! - `fleet`: the nodes, and their connections to the central store
//! - `traffic`: when requests arrive
//! - `plan`: what happens in a run; `simulation`: a run, event by event
//! - `figures`, `fair_parts`: the figures of a run
//! - `grid`, `small_limits`, `shapes`, `partitions`, `fairness`, `plenty`, `outages`, `claims`: which runs are compared,
//!   and their tables
//! - `table`: aligned columns
//! - `plots`, `stories`: the charts; `svg`: how they are drawn; `burst`: the picture of the README

mod burst;
mod claims;
mod fair_parts;
mod fairness;
mod figures;
mod fleet;
mod grid;
mod outages;
mod partitions;
mod plan;
mod plenty;
mod plots;
mod shapes;
mod simulation;
mod small_limits;
mod stories;
mod svg;
mod table;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use claims::{WorstCases, print_claim};
use fairness::Fairness;
use grid::Grid;
use outages::Outages;
use partitions::Partitions;
use plenty::Plenty;
use shapes::Shapes;
use simulation::Bucket;
use small_limits::SmallLimits;

const USAGE: &str = "\
usage: tollgate-sim [--quick] [--out DIR]

Simulates nodes that decide locally and synchronize with a central store at an interval. Prints tables and
claim lines, and draws charts.

  --quick    fewer nodes, seeds and seconds
  --out DIR  the directory of the charts; default: target/sim";

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(options.quick, &options.out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    quick: bool,
    out: PathBuf,
}

impl Options {
    /// Parses the arguments. `None` if they are invalid.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self { quick: false, out: "target/sim".into() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--out" => options.out = arguments.next()?.into(),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Simulates everything, prints the tables and claim lines, and draws charts into `out`.
fn run(quick: bool, out: &Path) -> Result<(), String> {
    let nodes: &[usize] = if quick { &[3, 10, 100] } else { &[3, 10, 100, 1_000] };
    let grid = Grid::measure(Bucket::new(1_000, 100), nodes, quick)?;
    grid.print();
    let small_limits = SmallLimits::measure(quick)?;
    println!();
    small_limits.print();
    let shapes = Shapes::measure(quick)?;
    println!();
    shapes.print();
    let partitions = Partitions::measure()?;
    println!();
    partitions.print();
    let fairness = Fairness::measure(quick)?;
    println!();
    fairness.print();
    let plenty = Plenty::measure(quick)?;
    println!();
    plenty.print();
    let outages = Outages::measure(quick)?;
    println!();
    outages.print();
    let worst_cases = WorstCases::measure(quick)?;
    println!();
    worst_cases.print();
    println!(
        "\nwhich interval? ten nodes at three times the limit, with deltas and with leases; calls to the central \
         store per second and node\n"
    );
    let large_burst = Grid::measure(Bucket::new(1_000, 1_000), &[10], quick)?;
    for grid in [&grid, &large_burst] {
        grid.print_choice();
        println!();
    }
    for chart in plots::draw(&grid, out)? {
        println!("drawn: {}", chart.display());
    }
    let lease_excess = [
        grid.lease_excess(),
        large_burst.lease_excess(),
        small_limits.lease_excess(),
        shapes.lease_excess(),
        partitions.lease_excess(),
        worst_cases.lease_excess(),
    ];
    println!();
    worst_cases.print_claims(lease_excess.into_iter().fold(0.0, f64::max));
    print_claim("ratio fairness-10-nodes fair-part", fairness.ten_nodes());
    print_claim("ratio fairness-joining fair-part", fairness.joining());
    print_claim("cost spurious-denials-below-limit limit", plenty.spurious());
    print_claim("ratio after-outage limit", outages.worst_second());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        let parse = |arguments: &[&str]| {
            let options = Options::parse(arguments.iter().map(|&argument| argument.to_owned()))?;
            Some((options.quick, options.out))
        };
        assert_eq!(parse(&[]), Some((false, "target/sim".into())));
        assert_eq!(parse(&["--out", "charts", "--quick"]), Some((true, "charts".into())));
        assert_eq!((parse(&["--out"]), parse(&["--rounds"])), (None, None));
    }
}
