//! The `sync` subcommand: what decisions through `Synced` cost, what its exchanges cost Redis, and how near a fleet under
//! overload stays to its limit there. Nodes on virtual time are `sync-sim`'s.
//!
//! # Layout
//!
//! - `local`: a decision, beside the memory store and a peer, while exchanges go on
//! - `central`: the same checks on Redis
//! - `exchange`: many dirty keys at once, on Redis and on Cassandra
//! - `overload`: a fleet under three times its limit

mod central;
mod exchange;
mod local;
mod overload;

use crate::measure::Plan;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::report::{Claim, Findings, Kind};

/// Measures everything and prints it. Fails if a subject did not do what the workload asks.
pub fn run(plan: Plan, cassandra: bool) -> Result<(), String> {
    measure(plan, cassandra).map_err(|error| error.to_string())
}

fn measure(plan: Plan, cassandra: bool) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let server = race::block_on(Server::reach(None))?;
    local::measure(plan, &server, &mut findings)?;
    race::block_on(central::measure(plan, &server, &mut findings))?;
    exchange::on_redis(plan, &server, &mut findings)?;
    overload::measure(plan, &server, &mut findings)?;
    if cassandra {
        exchange::on_cassandra(plan, &mut findings)?;
    }

    let rounds = plan.rounds;
    println!(
        "ns per decision and thread, exchanging every {:?}: best of {rounds} rounds on 1 thread / median on 2 threads\n",
        local::INTERVAL
    );
    local::print(&findings);
    println!("\nthe same on Redis: thousand checks per second, then µs per check; best of {rounds} rounds");
    central::print(&findings);
    println!("\nan exchange of many dirty keys; best of {rounds} rounds\n");
    exchange::print(&findings, cassandra);
    println!("\nten nodes at three times their limit on Redis, in parts of the limit\n");
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
    // The worse of hot and many.
    claims.push(same(Kind::Itself, "local-1t", "memory", local::WORST, local::WORST, "1t"));
    claims.push(same(Kind::Itself, "local-2t", "memory", local::WORST, local::WORST, "2t"));
    for (name, column) in [("local", local::MANY_1), ("local-2t", local::BOTH)] {
        let central = (central::CENTRAL, central::NANOSECONDS);
        claims.push(claim(Kind::Ratio, name, "central", (local, column), central));
    }
    claims.push(same(Kind::Ratio, "local-2t", "trypema", local, peer, local::MANY_2));
    claims.push(same(Kind::Ratio, "local-hot-2t", "trypema", local, peer, local::HOT_2));
    let redis = exchange::BUCKETS;
    claims.push(same(Kind::Itself, "roundtrips-per-key", "exchange", redis, redis, exchange::TRIPS));
    claims.push(same(Kind::Itself, "seconds-100k-keys", "exchange", redis, redis, exchange::SECONDS));
    if cassandra {
        let rows = exchange::ROWS;
        claims.push(same(Kind::Itself, "transactions-per-key", "cassandra", rows, rows, exchange::TRIPS));
    }
    let (deltas, over) = (overload::DELTAS, overload::OVER);
    claims.push(same(Kind::Itself, "overshoot-10-nodes-3x-redis", "limit", deltas, deltas, over));
    claims
}
