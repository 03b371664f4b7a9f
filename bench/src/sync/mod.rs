//! The `sync` subcommand: the cost of decisions through `Synced`, the cost of its sync rounds, and its overshoot under
//! overload on a real Redis. Nodes on virtual time are simulated by `tollgate-sim`.
//!
//! # Layout
//!
//! - `local`: the time of a decision, beside the memory store and a peer
//! - `central`: the same checks on Redis
//! - `rounds`: sync rounds with many dirty keys, on Redis and on Cassandra
//! - `records`: what a cluster keeps of a node besides the states
//! - `overload`: ten nodes at three times their limit

mod central;
mod local;
mod overload;
mod records;
mod rounds;

use crate::measure::Plan;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::report::{Claim, Findings, Kind};

/// Measures everything and prints it. Fails if a check fails or is denied.
pub fn run(plan: Plan, cassandra: bool) -> Result<(), String> {
    measure(plan, cassandra).map_err(|error| error.to_string())
}

fn measure(plan: Plan, cassandra: bool) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let server = race::block_on(Server::open(None))?;
    local::measure(plan, &server, &mut findings)?;
    race::block_on(central::measure(plan, &server, &mut findings))?;
    rounds::on_redis(plan, &server, &mut findings)?;
    records::measure(plan, &mut findings)?;
    overload::measure(plan, &server, &mut findings)?;
    if cassandra {
        rounds::on_cassandra(plan, &mut findings)?;
    }

    let rounds = plan.rounds;
    println!(
        "ns per decision and thread, sync interval {:?}: best of {rounds} rounds on 1 thread / median on 2 threads\n",
        local::INTERVAL
    );
    local::print(&findings);
    println!(
        "\nthe same checks on Redis: thousands of checks per second, then µs per check; best of {rounds} rounds"
    );
    central::print(&findings);
    println!("\na sync round of many dirty keys; best of {rounds} rounds\n");
    rounds::print(&findings, cassandra);
    println!("\nwhat a cluster keeps of a node besides the states; the most of {rounds} sync rounds\n");
    records::print(&findings);
    println!("\nten nodes at three times their limit on Redis, as fractions of the limit\n");
    overload::print(&findings);
    findings.conclude(&claims(cassandra));
    Ok(())
}

fn claims(cassandra: bool) -> Vec<Claim> {
    let claim = |kind, name: &str, against, ours: (&'static str, &str), theirs: (&'static str, &str)| Claim {
        kind,
        name: name.to_owned(),
        against,
        ours: (ours.0, ours.1.to_owned()),
        theirs: (theirs.0, theirs.1.to_owned()),
    };
    let (local, memory, peer) = (local::LOCAL, local::MEMORY, local::PEER);
    let same = |kind, name: &str, against, ours, theirs, column| {
        claim(kind, name, against, (ours, column), (theirs, column))
    };
    let mut claims = Vec::new();
    for column in [local::HOT_1, local::MANY_1, local::HOT_2, local::MANY_2] {
        claims.push(same(Kind::Cost, &format!("local-{column}"), "memory", local, memory, column));
    }
    // The worse of one key and many keys.
    claims.push(same(Kind::Absolute, "local-1t", "memory", local::WORST, local::WORST, "1t"));
    claims.push(same(Kind::Absolute, "local-2t", "memory", local::WORST, local::WORST, "2t"));
    for (name, column) in [("local", local::MANY_1), ("local-2t", local::BOTH)] {
        let central = (central::CENTRAL, central::NANOSECONDS);
        claims.push(claim(Kind::Ratio, name, "central", (local, column), central));
    }
    claims.push(same(Kind::Ratio, "local-2t", "trypema", local, peer, local::MANY_2));
    claims.push(same(Kind::Ratio, "local-hot-2t", "trypema", local, peer, local::HOT_2));
    let redis = rounds::BUCKETS;
    claims.push(same(Kind::Absolute, "roundtrips-per-key", "exchange", redis, redis, rounds::CALLS));
    claims.push(same(Kind::Absolute, "seconds-100k-keys", "exchange", redis, redis, rounds::SECONDS));
    for (kind, rounds) in [
        ("bucket", rounds::BUCKETS),
        ("shared-bucket", rounds::SHARED),
        ("sliding-window", rounds::WINDOWS),
        ("fixed-window", rounds::FIXED),
        ("sliding-counter", rounds::COUNTERS),
        ("interval-bucket", rounds::BY_INTERVAL),
    ] {
        let name = format!("sync-100k-{kind}-ms");
        claims.push(same(Kind::Absolute, &name, "limit", rounds, rounds, rounds::MILLISECONDS));
    }
    if cassandra {
        let rows = rounds::ROWS;
        claims.push(same(Kind::Absolute, "transactions-per-key", "cassandra", rows, rows, rounds::CALLS));
    }
    let node = records::NODE;
    claims.push(same(Kind::Absolute, "sync-records-bytes-per-node", "cluster", node, node, records::BYTES));
    let (deltas, overshoot) = (overload::DELTAS, overload::OVERSHOOT);
    claims.push(same(Kind::Absolute, "overshoot-10-nodes-3x-redis", "limit", deltas, deltas, overshoot));
    claims
}
