//! Decisions at memory speed, a central truth.
//!
//! # Layout
//!
//! - [`Synced`] (`synced`): the store; `here`: deciding without asking anybody; `background`: the task.
//! - [`Terms`], [`Mode`], [`WhenStale`], [`ColdKeys`] (`terms`): how limits are synchronised.
//! - `table`: what is known here of each key, either a `copy` of its state or a `pool` of tokens.
//! - `share`: how much of what is left this node may spend; `owed`: what it has to tell the centre.
//! - `exchange`: telling it, and taking back what there is; `shared`: what callers and the task share.
//! - [`Insight`] (`insight`): what has been going on.

mod background;
mod copy;
mod exchange;
mod here;
mod insight;
mod owed;
mod pool;
mod several;
mod share;
mod shared;
mod synced;
mod table;
mod terms;

pub use insight::Insight;
pub use synced::Synced;
pub use terms::{ColdKeys, Mode, Terms, WhenStale};
