//! Workloads on Redis, among them those that several subcommands share.

use super::load::{Figure, Lap};

/// A workload. In a quick run, keys and checks are a tenth.
pub struct Workload {
    pub name: &'static str,
    pub in_flight: u32,
    pub keys: usize,
    /// Per subject and round.
    pub checks: u32,
    /// The figure by which the rounds are ranked.
    pub rank: Figure,
    /// The columns of its table, each with its figure.
    pub columns: &'static [(&'static str, Figure)],
}

/// The throughput of a typical service: 50 checks in flight. Also the name of its column with µs per check.
pub const CHECKS_50: &str = "checks-50";
/// The throughput of many callers: 500 checks in flight.
pub const CHECKS_500: &str = "checks-500";
/// One check at a time.
pub const ALONE: &str = "alone";

pub const MANY_KEYS_50: Workload = many_keys(
    CHECKS_50,
    50,
    &[
        ("thousands/s-50", thousands),
        (CHECKS_50, Lap::time),
        ("client-cpu-50", Lap::client),
        ("server-cpu-50", Lap::server),
        ("script-50", Lap::scripts),
    ],
);

pub const MANY_KEYS_500: Workload = many_keys(
    CHECKS_500,
    500,
    &[
        ("thousands/s-500", thousands),
        (CHECKS_500, Lap::time),
        ("client-cpu-500", Lap::client),
        ("server-cpu-500", Lap::server),
        ("script-500", Lap::scripts),
    ],
);

const fn many_keys(
    name: &'static str,
    in_flight: u32,
    columns: &'static [(&'static str, Figure)],
) -> Workload {
    Workload { name, in_flight, keys: 100_000, checks: 25_000, rank: Lap::time, columns }
}

/// Returns thousands of checks per second.
pub fn thousands(lap: &Lap) -> f64 {
    1e3 / lap.time()
}
