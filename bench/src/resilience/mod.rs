//! The `resilience` subcommand: costs and gains of the wrappers around stores.
//!
//! # Layout
//!
//! - `in_process`: the cost of a guard around a memory store, and its speed while its store is dead
//! - `latency`: the latency of a caller while the store is dead
//! - `dead`: a store whose Redis was killed
//! - `on_redis`: the wrappers around a running Redis

mod dead;
mod in_process;
mod latency;
mod on_redis;

use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::redis::workload::{ALONE, CHECKS_50, CHECKS_500};
use crate::redis::{floor, race};
use crate::report::{Claim, Findings, Kind};
use crate::selection::Selection;

/// Measures what is selected and prints it. Fails if a check fails or is denied.
///
/// `only` are the names of claims or tables, if not all are wanted.
pub fn run(plan: Plan, only: &[String]) -> Result<(), String> {
    let mut tables = vec![in_process::TABLE, latency::P99];
    tables.extend(on_redis::WORKLOADS.map(|workload| workload.name));
    let selection = Selection::of(only, &claims(), &tables)?;
    measure(plan, &selection).map_err(|error| error.to_string())
}

fn measure(plan: Plan, selection: &Selection) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let in_process = in_process::is_selected(selection);
    let latency = selection.includes(latency::P99, dead::NAME, [latency::P99]);
    if in_process {
        in_process::measure(plan, &mut findings)?;
    }
    race::block_on(async {
        if latency {
            latency::measure(plan, &mut findings).await?;
        }
        on_redis::measure(plan, selection, &mut findings).await
    })?;

    let rounds = plan.rounds;
    if in_process {
        println!("in this process, on one thread: ns per check; best of {rounds} rounds\n");
        in_process::print(&findings);
    }
    if latency {
        println!(
            "\n{} concurrent callers: 99th percentile in µs; best of {rounds} rounds\n",
            latency::CALLERS
        );
        latency::print(&findings);
    }
    println!(
        "\non Redis: thousands of checks per second, then µs per check: time, CPU time of the client and of the \
         server, time in scripts; best of {rounds} rounds"
    );
    on_redis::print(&findings, selection);
    findings.conclude(&claims());
    Ok(())
}

fn claims() -> Vec<Claim> {
    let claim = |kind, name: &str, against, ours, theirs, column: &str| Claim {
        kind,
        name: name.to_owned(),
        against,
        ours: (ours, column.to_owned()),
        theirs: (theirs, column.to_owned()),
    };
    let (memory, guarded_memory) = (in_process::MEMORY, in_process::GUARDED);
    let (bare, coalesced, floor) = (on_redis::BARE, on_redis::COALESCED, floor::NAME);
    vec![
        claim(Kind::Added, "guarded-memory-added-ns", "bare", guarded_memory, memory, in_process::HOT),
        claim(Kind::Cost, "guarded-redis-50", "bare", on_redis::GUARDED, bare, CHECKS_50),
        claim(Kind::Ratio, "dead-store", "memory", dead::NAME, memory, in_process::HOT),
        claim(Kind::Absolute, "dead-store-p99-us", "deadline", dead::NAME, latency::DEADLINE, latency::P99),
        claim(Kind::Ratio, "coalesced-hot-500", "plain", coalesced, bare, on_redis::HOT_500),
        claim(Kind::Ratio, "coalesced-100k-50", "evalsha", coalesced, floor, CHECKS_50),
        claim(Kind::Ratio, "coalesced-100k-500", "evalsha", coalesced, floor, CHECKS_500),
        claim(Kind::Cost, "coalesced-alone", "plain", coalesced, bare, ALONE),
        claim(Kind::Cost, "composed-50", "bare", on_redis::COMPOSED, bare, CHECKS_50),
        claim(
            Kind::Ratio,
            "coalesced-mixed-50",
            "plain",
            on_redis::MIXED_COALESCED,
            on_redis::MIXED,
            on_redis::MIXED_50,
        ),
        claim(
            Kind::Ratio,
            "coalesced-mixed-500",
            "plain",
            on_redis::MIXED_COALESCED,
            on_redis::MIXED,
            on_redis::MIXED_500,
        ),
    ]
}
