//! Local decisions: what a node knows of each key, and how it decides by that without a call to the central store.
//!
//! - `table`, `entry`: the keys with a local entry, bounded.
//! - `state`: what is known of a key, either a `replica` of its state (`compact_state`) or a
//!   token `lease`.
//! - `pending`: deltas that are not sent yet; `refill`: how they are dated.
//! - `share`: how much of the remaining tokens this node may spend.
//! - `decide`, `decide_several`: decisions on one charge, and on several.

mod compact_state;
pub(crate) mod decide;
mod decide_several;
pub(crate) mod entry;
pub(crate) mod lease;
pub(crate) mod pending;
pub(crate) mod refill;
pub(crate) mod replica;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod table;
