//! Nodes around a real server, by real clocks.

mod cassandra;
mod fleet;
mod leases;
mod outages;
mod patience;
mod round_trips;
mod slow;
