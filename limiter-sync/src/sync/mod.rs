//! Synchronization with the central store.
//!
//! - `task`: the background task, and the end of a node.
//! - `round`: a sync round, from due keys to statistics.
//! - `batch`: the deltas of many keys in one call; `send`: sending it, and applying the answer.
//! - `answered`: answered calls, which the central store need not remember.
//! - `leases`: acquiring and returning tokens in a round; `acquire`: acquiring them for a caller that waits.
//! - `clock`: the offset to the central clock; `staleness`: how long the central store has not answered.

pub(crate) mod acquire;
pub(crate) mod answered;
pub(crate) mod batch;
pub(crate) mod clock;
mod leases;
mod round;
mod send;
pub(crate) mod staleness;
pub(crate) mod task;
