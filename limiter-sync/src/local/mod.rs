//! Local decisions: what a node knows of each key, and how it decides by that without a call to the central store.
//!
//! - `table`, `entry`: the keys with a local entry, bounded; `key_hash`: how they are found.
//! - `state`: what is known of a key, either a `replica` of its state (`compact_state`) or a
//!   token `lease`.
//! - `pending`: deltas that are not sent yet; `refill`: how they are dated.
//! - `peers`: what is known of other nodes that use a key. `share`: how much of the remaining tokens this node may spend;
//!   `demand`: which part of the limit that is; `usage`: what all nodes granted, for the time after an outage.
//! - `advance`, `acquisition`: tokens that a caller gets from the central store in advance of the next sync round.
//! - `decide`, `decide_several`: decisions on one charge, and on several.

pub(crate) mod acquisition;
mod advance;
mod compact_state;
pub(crate) mod decide;
mod decide_several;
pub(crate) mod demand;
pub(crate) mod entry;
mod key_hash;
pub(crate) mod lease;
mod peers;
pub(crate) mod pending;
pub(crate) mod refill;
pub(crate) mod replica;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod usage;
