//! The `cassandra` subcommand: the cost of the store beside bare transactions, on one node.
//!
//! No round is marked as disturbed: a node has hundreds of threads, and on two processors it competes with the client
//! anyway.
//!
//! # Layout
//!
//! - `server`: the node under measurement
//! - `distinct`: checks of many keys, one transaction each
//! - `hot`: one hot key in one process; `contention`: in several processes
//! - `key`: the hot key
//! - `bare`: bare statements of the driver, for the floor and the naive loop
//! - `callers`: callers that make checks for some time

mod bare;
mod callers;
pub mod contention;
mod distinct;
mod hot;
mod key;
pub mod server;

use std::time::Duration;

use tollgate_resilience::Coalesced;
use tollgate_store_cassandra::{CassandraStore, Config};

use crate::measure::Plan;
use crate::redis::race;
use crate::redis::subject::Failure;
use crate::report::{Claim, Findings, Kind};
use server::Server;

/// The store as `tollgate::connect` configures it.
type CoalescedStore = Coalesced<CassandraStore>;

async fn connect(config: Config) -> Result<CoalescedStore, Failure> {
    let store = config.connect().await?;
    Ok(Coalesced::builder(store).max_in_flight(1).overtake_after(Duration::from_secs(1)).build()?)
}

/// Measures everything and prints it. Fails if a check fails, is denied, or is not counted.
///
/// Uses the node at the URL, or starts one.
pub fn run(plan: Plan, server: Option<String>) -> Result<(), String> {
    race::block_on(measure(plan, server)).map_err(|error| error.to_string())
}

async fn measure(plan: Plan, server: Option<String>) -> Result<(), Failure> {
    let server = Server::open(server).await?;
    let mut findings = Findings::default();
    distinct::measure(plan, &server, &mut findings).await?;
    hot::measure(plan, &server, &mut findings).await?;
    contention::measure(plan, &server, &mut findings).await?;
    server.clean().await?;

    println!(
        "distinct keys, {} in flight, with the last state of each cached: checks per second, µs per check, CPU time of \
         the client; best of {} rounds\n",
        distinct::IN_FLIGHT,
        plan.rounds
    );
    distinct::print(&findings);
    println!("\none hot key, {} callers in one process; best round\n", hot::CALLERS);
    hot::print(&findings);
    println!(
        "\none hot key, {} callers in each of several processes; `cold` ones do not cache the row\n",
        contention::CALLERS
    );
    contention::print(&findings);
    findings.conclude(&claims());
    Ok(())
}

fn claims() -> Vec<Claim> {
    let claim = |kind, name: &str, against, column: &str, ours, theirs| Claim {
        kind,
        name: name.to_owned(),
        against,
        ours: (ours, column.to_owned()),
        theirs: (theirs, column.to_owned()),
    };
    let (one, hot) = (distinct::ONE, hot::OURS);
    vec![
        claim(Kind::Ratio, "distinct-keys", "floor", distinct::TIME, one, distinct::FLOOR),
        claim(Kind::Cost, "five-limits", "one-limit", distinct::TIME, distinct::FIVE, one),
        claim(Kind::Ratio, "hot-key", "naive", hot::TIME, hot, hot::NAIVE),
        claim(Kind::Absolute, "transactions-per-check", "hot-key", hot::TRANSACTIONS, hot, hot),
        claim(Kind::Absolute, "reads-per-check", "distinct-keys", distinct::READS, one, one),
    ]
}
