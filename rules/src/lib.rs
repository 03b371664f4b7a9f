//! Rate limit plans for Tollgate: which limit applies to which user or tenant, such as free, standard and pro plans
//! that change at run time. [`Plans`] has an example.
//!
//! # Layout
//!
//! - [`Plans`] (`plans`): users on subscription plans, such as free, standard and pro.

mod plans;

pub use plans::{PlanError, Plans, PlansBuilder};
