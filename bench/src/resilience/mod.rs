//! The `resilience` subcommand: what the wrappers around stores cost, and what is gained by them.
//!
//! # Layout
//!
//! - `in_process`: what a guard costs a store in memory, and how fast it is when its store is dead
//! - `latency`: how long a single caller waits when the store is dead
//! - `dead`: a store whose Redis was killed
//! - `on_redis`: the wrappers around a Redis that lives

mod dead;
mod in_process;
mod latency;
mod on_redis;

use crate::measure::Plan;
use crate::redis::race;
use crate::redis::subject::Failure;
use crate::report::{Claim, Findings, Kind};

/// Measures everything and prints it. Fails if a subject did not do what the workload asks.
pub fn run(plan: Plan) -> Result<(), String> {
    measure(plan).map_err(|error| error.to_string())
}

fn measure(plan: Plan) -> Result<(), Failure> {
    let mut findings = Findings::default();
    in_process::measure(plan, &mut findings)?;
    race::block_on(async {
        latency::measure(plan, &mut findings).await?;
        on_redis::measure(plan, &mut findings).await
    })?;

    let rounds = plan.rounds;
    println!("in this process, on one thread: ns per check; best of {rounds} rounds\n");
    in_process::print(&findings);
    println!(
        "\n{} callers at once: µs that one in a hundred checks exceeds; best of {rounds} rounds\n",
        latency::CALLERS
    );
    latency::print(&findings);
    println!(
        "\non Redis: thousand checks per second, then µs per check: time, processor time of the client and of the \
         server; best of {rounds} rounds"
    );
    on_redis::print(&findings);
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
    let (plain, coalesced, floor) = (on_redis::PLAIN, on_redis::COALESCED, on_redis::FLOOR);
    vec![
        claim(Kind::Added, "guarded-memory-added-ns", "bare", guarded_memory, memory, in_process::HOT),
        claim(Kind::Cost, "guarded-redis-50", "bare", on_redis::GUARDED, plain, on_redis::MANY_50),
        claim(Kind::Ratio, "dead-store", "memory", dead::NAME, memory, in_process::HOT),
        claim(Kind::Itself, "dead-store-p99-us", "deadline", dead::NAME, latency::DEADLINE, latency::P99),
        claim(Kind::Ratio, "coalesced-hot-500", "plain", coalesced, plain, on_redis::HOT_500),
        claim(Kind::Ratio, "coalesced-100k-50", "evalsha", coalesced, floor, on_redis::MANY_50),
        claim(Kind::Ratio, "coalesced-100k-500", "evalsha", coalesced, floor, on_redis::MANY_500),
        claim(Kind::Cost, "coalesced-alone", "plain", coalesced, plain, on_redis::ALONE),
    ]
}
