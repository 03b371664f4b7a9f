//! The `cassandra` subcommand: what the store costs beside the transactions that it cannot do without, on one node.
//!
//! No round is marked as one with other programs in the way: a node has some hundred threads, and on two processors it is in the
//! client's way itself.
//!
//! # Layout
//!
//! - `server`: the node that is measured against
//! - `distinct`: checks of many keys, one transaction each
//! - `hot`: one key that everybody asks about, in one process; `contention`: in several
//! - `key`: that key
//! - `bare`: statements of the driver's own, for the floor and the naive loop
//! - `callers`: callers that ask for some time

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

/// The store as users have it.
type Gathered = Coalesced<CassandraStore>;

async fn connect(config: Config) -> Result<Gathered, Failure> {
    let store = config.connect().await?;
    Ok(Coalesced::new(store).in_flight(1).patience(Duration::from_secs(1)))
}

/// Measures everything and prints it. Fails if something was not admitted, or not counted.
///
/// The node is the one named, or one of our own.
pub fn run(plan: Plan, server: Option<String>) -> Result<(), String> {
    race::block_on(measure(plan, server)).map_err(|error| error.to_string())
}

async fn measure(plan: Plan, server: Option<String>) -> Result<(), Failure> {
    let server = Server::reach(server).await?;
    let mut findings = Findings::default();
    distinct::measure(plan, &server, &mut findings).await?;
    hot::measure(plan, &server, &mut findings).await?;
    contention::measure(plan, &server, &mut findings).await?;
    server.clean().await?;

    println!(
        "distinct keys, {} in flight, each asked about before, so that its last state is known: checks per second, µs per \
         check, processor time of the client; best of {} rounds\n",
        distinct::IN_FLIGHT,
        plan.rounds
    );
    distinct::print(&findings);
    println!("\none hot key, {} callers in one process; best round\n", hot::CALLERS);
    hot::print(&findings);
    println!(
        "\none hot key, {} callers in each of several processes; `cold` ones never remember the row they saw last\n",
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
        claim(Kind::Itself, "transactions-per-check", "hot-key", hot::TRANSACTIONS, hot, hot),
        claim(Kind::Itself, "reads-per-check", "distinct-keys", distinct::READS, one, one),
    ]
}
