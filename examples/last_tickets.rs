//! The last tickets: 500 buyers on two hosts at the same moment, and exactly 100 tickets are sold.
//!
//! ```sh
//! cargo run --example last_tickets --features cassandra -- cassandra://127.0.0.1/shop
//! ```
//!
//! Needs a Cassandra node; creates the keyspace if it does not exist.

use std::error::Error;
use std::sync::Arc;

use tollgate::cassandra::{Config, Replication};
use tollgate::{AnyStore, Limit, Limiter};

const TICKETS: u32 = 100;
const BUYERS: u32 = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(url) = std::env::args().nth(1) else {
        return Err("missing argument: the URL of a cluster, for example cassandra://127.0.0.1/shop".into());
    };
    // Once, at deployment. In production: Replication::in_datacenters([("dc1", 3)]).
    Config::new(&url).create_schema(&Replication::Simple(1)).await?;

    // In production these are two processes, which share nothing but Cassandra.
    let hosts = [Arc::new(tollgate::connect(&url).await?), Arc::new(tollgate::connect(&url).await?)];
    let tickets = Limit::per_day(TICKETS).fixed_window().anchored().build("tickets")?;
    hosts[0].reset(&tickets, "concert").await?;

    let buyers = (0..BUYERS).map(|buyer| {
        let host = Arc::clone(&hosts[buyer as usize % hosts.len()]);
        tokio::spawn(buy(host, tickets.clone()))
    });
    let mut sold = 0;
    for buyer in buyers.collect::<Vec<_>>() {
        sold += u32::from(buyer.await??);
    }
    println!("{BUYERS} buyers on {} hosts: {sold} of {TICKETS} tickets sold", hosts.len());
    assert_eq!(sold, TICKETS);
    Ok(())
}

async fn buy(host: Arc<Limiter<AnyStore>>, tickets: Limit) -> Result<bool, tollgate::StoreError> {
    Ok(host.check(&tickets, "concert").await?.is_allowed())
}
