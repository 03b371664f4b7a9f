//! [`Switched`]: a kill switch, shadow mode, an allow list and a deny list, at run time.
//!
//! # Layout
//!
//! - `switches`: the handle of an operator; `table`: the positions of all switches at one instant.
//! - `handling`: how one charge is handled; `plan`: how a request is handled.
//! - `shadow`: what limits in shadow mode would have denied.
//! - `store`: the calls.

mod handling;
mod plan;
mod shadow;
mod store;
mod switches;
mod table;

pub use shadow::{ShadowStats, SwitchedStats};
pub use switches::{KeyList, SwitchState, Switches};

/// A store whose limits can be switched off or to shadow mode at run time, with an allow list and a deny list of keys.
///
/// The first rule that applies decides how a charge is handled:
///
/// 1. **Deny list**: its key is on the deny list, and its action is not a refund, release or reset. The charge is
///    [`DenyListed`], and its request is denied without calling the store. Other charges are allowed with 0 granted.
/// 2. **Off**: the kill switch is on, its key is on the allow list, or its limit is off. It is allowed with
///    [`Source::Switch`], whatever its action. The store does not receive it.
/// 3. **Shadow mode**: its limit is in shadow mode, and its action can be denied (a take or a renewal). The store
///    decides it separately, and debits it if it fits. It is allowed at once and in full, with [`Source::Shadow`] if
///    the store decided otherwise.
/// 4. **On**: the store decides.
///
/// [`DenyListed`]: tollgate_core::Outcome::DenyListed
/// [`Source::Switch`]: tollgate_core::Source::Switch
/// [`Source::Shadow`]: tollgate_core::Source::Shadow
///
/// # Semantics
///
/// - **Requests**: the remaining charges of a request are a smaller request with the same idempotency key. The verdict
///   has every charge at its position. Its time is the store's, or the caller's if the store is not called.
/// - **Shadow mode**: shadowed charges go to the store in the same call as the rest of their request. If the rest is
///   denied, or fails without an effect, they are refunded in the background. If only they fail, they are allowed with
///   `Source::Switch`. Debits, refunds and releases cannot be denied, and are part of the rest. The renewal of a lost
///   lease is allowed.
/// - **Unsupported actions** are an error if the limit is on, a counted failure in shadow mode, and allowed if the
///   limit is off.
/// - **Deny list**: refunds, releases and resets of deny-listed keys reach the store, so that work in progress can end
///   and its slots become free.
///
/// # Cost
///
/// If no switch is set, a call costs one atomic load more than the store's.
#[derive(Clone, Debug)]
pub struct Switched<S> {
    store: S,
    switches: Switches,
}

impl<S> Switched<S> {
    /// Wraps a store, with switches of its own.
    pub fn new(store: S) -> Self {
        Self::with_switches(store, Switches::new())
    }

    /// Wraps a store, with switches that several stores can share.
    pub fn with_switches(store: S, switches: Switches) -> Self {
        Self { store, switches }
    }

    /// Returns the inner store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the switches. Clones of them are the same switches.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Returns what has been counted of limits in shadow mode. The same as [`Switches::stats`].
    pub fn stats(&self) -> SwitchedStats {
        self.switches.stats()
    }
}
