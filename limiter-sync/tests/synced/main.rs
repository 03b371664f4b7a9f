//! Nodes that decide for themselves, and a centre that they exchange with.

mod alone;
mod background;
mod bound;
mod clocks;
mod cold;
mod fleet;
mod leases;
mod lost;
mod share;
mod silence;
mod story;
