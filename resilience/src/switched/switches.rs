//! The handle of an operator.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tollgate_core::Key;
use tollgate_core::store::OwnedKey;

use super::shadow::{ShadowCounters, SwitchedStats};
use super::table::{KeyRef, KeySet, LimitSwitch, SwitchTable};

/// A list of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyList {
    /// The allow list: its keys are allowed, whatever the limit.
    Allow,
    /// The deny list: its keys are denied, whatever the limit.
    Deny,
}

/// The positions of all switches. Contains names of limits, never keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwitchState {
    /// Whether the kill switch is on: every limit is off.
    pub all_off: bool,
    /// The names of the limits that are off.
    pub off: Vec<String>,
    /// The names of the limits in shadow mode.
    pub shadow: Vec<String>,
    /// The number of keys on the allow list.
    pub allow_listed: usize,
    /// The number of keys on the deny list.
    pub deny_listed: usize,
}

/// Switches limits off, on, or to shadow mode, and lists keys, at run time.
///
/// Clones are the same switches. A change applies to every call that starts after it, of every
/// [`Switched`](crate::Switched) store with these switches.
///
/// ```
/// use tollgate::memory::MemoryStore;
/// use tollgate::resilience::Switched;
/// use tollgate::{Limit, Limiter};
///
/// let api = Limit::per_hour(1).build("api")?;
/// let store = Switched::new(MemoryStore::new());
/// let switches = store.switches().clone();
/// let limiter = Limiter::new(store);
/// assert!(limiter.check_now(&api, "user:42").is_allowed());
/// assert!(limiter.check_now(&api, "user:42").is_denied());
///
/// switches.off("api");
/// assert!(limiter.check_now(&api, "user:42").is_allowed());
/// switches.shadow("api");
/// assert!(limiter.check_now(&api, "user:42").is_shadowed());
/// assert_eq!(switches.stats().shadow["api"].would_deny, 1);
/// switches.on("api");
/// switches.allow("user:42");
/// assert!(limiter.check_now(&api, "user:42").is_allowed());
/// switches.deny("user:42");
/// assert!(limiter.check_now(&api, "user:42").is_denied());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Default)]
pub struct Switches(Arc<LiveTable>);

/// Shows the positions of the switches, and how many keys are listed.
impl fmt::Debug for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Switches").field(&self.state()).finish()
    }
}

#[derive(Default)]
struct LiveTable {
    /// Whether the table differs from the default. If not, a call reads no more than this.
    is_set: AtomicBool,
    table: ArcSwap<SwitchTable>,
    /// Serialises changes. Readers do not take it.
    changing: Mutex<()>,
}

impl Switches {
    /// Creates switches: every limit is on, and no key is listed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns the kill switch on: every limit is off, those in shadow mode included. Keys on the deny list are still
    /// denied.
    pub fn all_off(&self) {
        self.change(|table| table.all_off = true);
    }

    /// Turns the kill switch off: the switch of each limit applies again.
    pub fn all_on(&self) {
        self.change(|table| table.all_off = false);
    }

    /// Switches the limits with this name off: everything is allowed, and the store is not called.
    pub fn off(&self, limit: &str) {
        self.change_limits(|limits| {
            limits.insert(limit.into(), LimitSwitch::Off);
        });
    }

    /// Switches the limits with this name on: they are enforced.
    pub fn on(&self, limit: &str) {
        self.change_limits(|limits| {
            limits.remove(limit);
        });
    }

    /// Switches the limits with this name to shadow mode: they are evaluated and counted as if enforced, and deny
    /// nothing. Starts new counters, except if they are in shadow mode already.
    pub fn shadow(&self, limit: &str) {
        self.change_limits(|limits| {
            if !matches!(limits.get(limit), Some(LimitSwitch::Shadow(_))) {
                limits.insert(limit.into(), LimitSwitch::Shadow(Arc::new(ShadowCounters::default())));
            }
        });
    }

    /// Adds a key to the allow list, and removes it from the deny list. Copies the list; for many keys, use
    /// [`set_allow_list`](Self::set_allow_list).
    pub fn allow<'k>(&self, key: impl Into<Key<'k>>) {
        let key = OwnedKey::from(key.into());
        self.change(|table| {
            remove(&mut table.deny_list, key.as_key());
            Arc::make_mut(&mut table.allow_list).insert(key);
        });
    }

    /// Adds a key to the deny list, and removes it from the allow list. Copies the list; for many keys, use
    /// [`set_deny_list`](Self::set_deny_list).
    pub fn deny<'k>(&self, key: impl Into<Key<'k>>) {
        let key = OwnedKey::from(key.into());
        self.change(|table| {
            remove(&mut table.allow_list, key.as_key());
            Arc::make_mut(&mut table.deny_list).insert(key);
        });
    }

    /// Removes a key from both lists.
    pub fn unlist<'k>(&self, key: impl Into<Key<'k>>) {
        let key = key.into();
        self.change(|table| {
            remove(&mut table.allow_list, key);
            remove(&mut table.deny_list, key);
        });
    }

    /// Replaces the allow list. The deny list does not change, so that both can be replaced in any order; a key on both
    /// is denied.
    pub fn set_allow_list<'k, K: Into<Key<'k>>>(&self, keys: impl IntoIterator<Item = K>) {
        let keys = owned(keys);
        self.change(|table| table.allow_list = keys);
    }

    /// Replaces the deny list. The allow list does not change, so that both can be replaced in any order; a key on both
    /// is denied.
    pub fn set_deny_list<'k, K: Into<Key<'k>>>(&self, keys: impl IntoIterator<Item = K>) {
        let keys = owned(keys);
        self.change(|table| table.deny_list = keys);
    }

    /// Returns the positions of all switches.
    pub fn state(&self) -> SwitchState {
        let table = self.0.table.load();
        let mut state = SwitchState {
            all_off: table.all_off,
            allow_listed: table.allow_list.len(),
            deny_listed: table.deny_list.len(),
            ..SwitchState::default()
        };
        for (name, switch) in table.limits.iter() {
            match switch {
                LimitSwitch::Off => state.off.push(name.to_string()),
                LimitSwitch::Shadow(_) => state.shadow.push(name.to_string()),
            }
        }
        state
    }

    /// Returns the list that a key is on. A key on both is on the deny list.
    pub fn list_of<'k>(&self, key: impl Into<Key<'k>>) -> Option<KeyList> {
        let (table, key) = (self.0.table.load(), key.into());
        if table.is_deny_listed(key) {
            return Some(KeyList::Deny);
        }
        table.is_allow_listed(key).then_some(KeyList::Allow)
    }

    /// Returns what has been counted of limits in shadow mode.
    pub fn stats(&self) -> SwitchedStats {
        let table = self.0.table.load();
        let shadow = table.limits.iter().filter_map(|(name, switch)| match switch {
            LimitSwitch::Shadow(counters) => Some((name.to_string(), counters.read())),
            LimitSwitch::Off => None,
        });
        SwitchedStats { shadow: shadow.collect() }
    }

    /// Returns the table, if it differs from the default.
    #[inline]
    pub(super) fn table(&self) -> Option<Guard<Arc<SwitchTable>>> {
        self.0.is_set.load(Ordering::Acquire).then(|| self.0.table.load())
    }

    fn change(&self, change: impl FnOnce(&mut SwitchTable)) {
        // A panic in `change` leaves the old table in place.
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = SwitchTable::clone(&self.0.table.load());
        change(&mut table);
        let is_set = !table.is_default();
        self.0.table.store(Arc::new(table));
        // After the table: a reader that sees the flag sees the table, too.
        self.0.is_set.store(is_set, Ordering::Release);
    }

    fn change_limits(&self, change: impl FnOnce(&mut BTreeMap<Box<str>, LimitSwitch>)) {
        self.change(|table| change(Arc::make_mut(&mut table.limits)));
    }
}

fn owned<'k, K: Into<Key<'k>>>(keys: impl IntoIterator<Item = K>) -> Arc<KeySet> {
    Arc::new(keys.into_iter().map(|key| OwnedKey::from(key.into())).collect())
}

/// Removes a key. Copies the list only if the key is on it.
fn remove(keys: &mut Arc<KeySet>, key: Key<'_>) {
    if keys.contains(&KeyRef(key)) {
        Arc::make_mut(keys).swap_remove(&KeyRef(key));
    }
}
