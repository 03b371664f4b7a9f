//! Nodes that decide locally and synchronize with one central store, in virtual time.

mod advance;
mod alone;
mod background;
mod bound;
mod clocks;
mod cold_keys;
mod convergence;
mod delivery;
mod fleet;
mod forgotten;
mod leases;
mod outages;
mod share;
mod single_node;
mod staleness;
