//! What is switched how, at one instant. Never changed, only replaced: whoever reads it needs no lock.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use indexmap::{Equivalent, IndexSet};
use tollgate_core::store::OwnedKey;
use tollgate_core::{Action, Charge, Key};

use super::fate::Fate;
use super::shadow::Watch;

/// How a limit is switched, unless it is on.
#[derive(Clone, Debug)]
pub(super) enum Switch {
    Off,
    Shadow(Arc<Watch>),
}

/// Keys on a list. They may be chosen by an attacker: the hash is std's, with a secret.
pub(super) type Keys = IndexSet<OwnedKey>;

/// What is switched how. Its parts are shared with the settings that it replaces, so that one more limit or key does
/// not copy the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) all_off: bool,
    /// By the names of limits; those that are on are not here.
    pub(super) limits: Arc<BTreeMap<Box<str>, Switch>>,
    pub(super) allowed: Arc<Keys>,
    pub(super) denied: Arc<Keys>,
}

impl Settings {
    /// Everything is on, and no key is listed.
    pub(super) fn is_plain(&self) -> bool {
        !self.all_off && self.limits.is_empty() && self.allowed.is_empty() && self.denied.is_empty()
    }

    pub(super) fn denies(&self, key: Key<'_>) -> bool {
        self.denied.contains(&Sought(key))
    }

    pub(super) fn allows(&self, key: Key<'_>) -> bool {
        self.allowed.contains(&Sought(key))
    }

    /// What happens to a charge.
    pub(super) fn fate(&self, charge: &Charge<'_>) -> Fate {
        if !gives_back(charge) && self.denies(charge.key()) {
            return Fate::DenyListed;
        }
        if self.all_off || self.allows(charge.key()) {
            return Fate::Passes;
        }
        match self.limits.get(charge.limit().name()) {
            Some(Switch::Off) => Fate::Passes,
            Some(Switch::Shadow(watch)) if may_be_denied(charge) => Fate::Watched(Arc::clone(watch)),
            Some(Switch::Shadow(_)) | None => Fate::Asked,
        }
    }
}

/// Whoever is listed as denied may still end what it began: others may be waiting for the place.
fn gives_back(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Refund { .. } | Action::Reset | Action::Release)
}

/// A limit that is watched must not deny; what cannot be denied is not its business.
fn may_be_denied(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Take { .. } | Action::TakeUpTo | Action::Renew)
}

/// A key that is looked up without a copy of it.
pub(super) struct Sought<'a>(pub(super) Key<'a>);

impl Hash for Sought<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl Equivalent<OwnedKey> for Sought<'_> {
    fn equivalent(&self, listed: &OwnedKey) -> bool {
        self.0 == listed.as_key()
    }
}
