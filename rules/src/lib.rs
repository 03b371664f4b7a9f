//! Which limit applies to whom.
//!
//! # Layout
//!
//! - [`Plans`] (`plans`): users with a plan each, such as free, standard and pro.

mod plans;

pub use plans::{PlanError, Plans, PlansBuilder};
