//! Coalescing on a scripted store. There is one thread, and time does not pass by itself, so that every test knows what
//! happens in which order.

mod batching;
mod cancellation;
#[path = "../delayed/mod.rs"]
mod delayed;
mod exactness;
mod failures;
mod overtaking;
mod scripted;
mod stats;
