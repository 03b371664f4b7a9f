//! Nodes around real servers, with real clocks.

mod cassandra;
mod fleet;
mod leases;
mod limits;
mod outages;
mod records;
mod round_trips;
