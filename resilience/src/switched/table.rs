//! The positions of all switches at one instant. A table is replaced, never changed, so that readers need no lock.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use indexmap::{Equivalent, IndexSet};
use tollgate_core::store::OwnedKey;
use tollgate_core::{Action, Charge, Key};

use super::handling::Handling;
use super::shadow::ShadowCounters;

/// The switch of a limit that is not on.
#[derive(Clone, Debug)]
pub(super) enum LimitSwitch {
    Off,
    Shadow(Arc<ShadowCounters>),
}

/// A list of keys. By the standard library's keyed hash, because an attacker may choose the keys.
pub(super) type KeySet = IndexSet<OwnedKey>;

/// The positions of all switches. Parts are shared with the previous table, so that a change of one limit or key does
/// not copy the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct SwitchTable {
    pub(super) all_off: bool,
    /// By the name of the limit. Limits that are on have no entry.
    pub(super) limits: Arc<BTreeMap<Box<str>, LimitSwitch>>,
    pub(super) allow_list: Arc<KeySet>,
    pub(super) deny_list: Arc<KeySet>,
}

impl SwitchTable {
    /// Returns whether every limit is on and no key is listed.
    pub(super) fn is_default(&self) -> bool {
        !self.all_off && self.limits.is_empty() && self.allow_list.is_empty() && self.deny_list.is_empty()
    }

    pub(super) fn is_deny_listed(&self, key: Key<'_>) -> bool {
        self.deny_list.contains(&KeyRef(key))
    }

    pub(super) fn is_allow_listed(&self, key: Key<'_>) -> bool {
        self.allow_list.contains(&KeyRef(key))
    }

    /// Returns how a charge is handled.
    pub(super) fn handling(&self, charge: &Charge<'_>) -> Handling {
        if !is_exempt_from_deny_list(charge.action()) && self.is_deny_listed(charge.key()) {
            return Handling::DenyListed;
        }
        if self.all_off || self.is_allow_listed(charge.key()) {
            return Handling::Bypassed;
        }
        match self.limits.get(charge.limit().name()) {
            Some(LimitSwitch::Off) => Handling::Bypassed,
            // Shadow mode changes only what the limit could deny.
            Some(LimitSwitch::Shadow(counters)) if charge.action().can_be_denied() => {
                Handling::Shadowed(Arc::clone(counters))
            }
            Some(LimitSwitch::Shadow(_)) | None => Handling::Enforced,
        }
    }
}

/// A deny-listed key may still refund and release what it took before: others may wait for the slot.
fn is_exempt_from_deny_list(action: Action) -> bool {
    matches!(action, Action::Refund { .. } | Action::Reset | Action::Release)
}

/// A key to look up, without a copy of it.
pub(super) struct KeyRef<'a>(pub(super) Key<'a>);

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl Equivalent<OwnedKey> for KeyRef<'_> {
    fn equivalent(&self, listed: &OwnedKey) -> bool {
        self.0 == listed.as_key()
    }
}
