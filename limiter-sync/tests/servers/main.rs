//! Nodes around real servers, with real clocks.

mod cassandra;
mod fair_shares;
mod fleet;
mod leases;
mod limits;
#[path = "../load/mod.rs"]
mod load;
mod outages;
mod records;
mod round_trips;
