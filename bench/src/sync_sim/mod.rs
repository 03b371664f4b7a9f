//! The `sync-sim` subcommand: nodes that decide by themselves and exchange with a centre every so often, on virtual time.
//!
//! The nodes are `tollgate-limiter-sync` itself around a store in memory, driven by a clock that moves by hand; requests,
//! exchanges and cuts are what is simulated. Calls of the centre take no time. The same arguments print the same figures.
//!
//! # Layout
//!
//! - `fleet`: the nodes, and their ways to the centre
//! - `traffic`: who asks when
//! - `simulation`: one run, in the order in which things happen
//! - `figures`: what a run comes to
//! - `grid`, `small`, `shapes`, `partition`, `claims`: which runs are compared, and their tables
//! - `plots`: the pictures; `svg`: how they are drawn

mod claims;
mod figures;
mod fleet;
mod grid;
mod partition;
mod plots;
mod shapes;
mod simulation;
mod small;
mod svg;
mod traffic;

use std::path::Path;

use grid::Grid;
use simulation::Rate;

/// Simulates everything, prints it, and draws pictures into `out`.
pub fn run(quick: bool, out: &Path) -> Result<(), String> {
    let nodes: &[usize] = if quick { &[3, 10, 100] } else { &[3, 10, 100, 1_000] };
    let grid = Grid::measure(Rate::new(1_000, 100), nodes, quick)?;
    grid.print();
    let small = small::Small::measure(quick)?;
    println!();
    small.print();
    let shapes = shapes::Shapes::measure(quick)?;
    println!();
    shapes.print();
    let partitions = partition::Partitions::measure()?;
    println!();
    partitions.print();
    let worst = claims::Worst::measure(quick)?;
    println!();
    worst.print();
    println!(
        "\nwhich interval? Deltas and leases of ten nodes at three times the limit; calls of the centre per second and node\n"
    );
    let large_burst = Grid::measure(Rate::new(1_000, 1_000), &[10], quick)?;
    for grid in [&grid, &large_burst] {
        grid.print_choice();
        println!();
    }
    for picture in plots::draw(&grid, out)? {
        println!("drawn: {}", picture.display());
    }
    let beyond = [
        grid.beyond_leases(),
        large_burst.beyond_leases(),
        small.beyond_leases(),
        shapes.beyond_leases(),
        partitions.beyond_leases(),
        worst.beyond_leases(),
    ];
    worst.conclude(beyond.into_iter().fold(0.0, f64::max));
    Ok(())
}

/// A part as a percentage.
fn percent(part: f64) -> String {
    format!("{:.2}", part * 100.0)
}
