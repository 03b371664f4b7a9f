//! Few calls for many checks, on a store that does as it is told. One thread and no time that passes by itself, so that
//! every test knows what happens in which order.

mod counting;
mod gathered;
mod going_away;
mod going_wrong;
mod overtaking;
mod scripted;
#[path = "../yielding/mod.rs"]
mod yielding;
