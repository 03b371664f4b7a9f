//! The handle: what an operator holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tollgate_core::Key;
use tollgate_core::store::OwnedKey;

use super::settings::{Keys, Settings, Sought, Switch};
use super::shadow::{ShadowReport, Watch};

/// How a limit is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitMode {
    /// It is enforced.
    On,
    /// It is not asked: everything passes.
    Off,
    /// It is evaluated and counted, but denies nothing.
    Shadow,
}

/// Which list a key is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyList {
    /// It passes, whatever the limit.
    Allowed,
    /// It does not pass, whatever the limit.
    Denied,
}

/// What is switched, for an operator to look at. Names limits, never keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwitchState {
    /// Every limit is off.
    pub all_off: bool,
    /// The names of limits that are off by themselves.
    pub off: Vec<String>,
    /// The names of limits that are only watched, and what they would have done.
    pub shadow: Vec<(String, ShadowReport)>,
    /// How many keys are listed as allowed.
    pub allowed: usize,
    /// How many keys are listed as denied.
    pub denied: usize,
}

/// Turns limits off and on, and lists keys, while a program runs. Clones are the same switches; what is switched counts
/// from the next call on, for every [`Switched`](crate::Switched) store that goes by them.
///
/// ```
/// use tollgate_core::{Limit, Limiter};
/// use tollgate_resilience::Switched;
/// use tollgate_store_memory::MemoryStore;
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
/// switches.on("api");
/// switches.allow("user:42");
/// assert!(limiter.check_now(&api, "user:42").is_allowed());
/// switches.deny("user:42");
/// assert!(limiter.check_now(&api, "user:42").is_denied());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Switches(Arc<Panel>);

#[derive(Debug, Default)]
struct Panel {
    /// Whether anything is set at all, so that the usual case looks no further.
    any: AtomicBool,
    settings: ArcSwap<Settings>,
    /// One change after the other; readers don't come here.
    changing: Mutex<()>,
}

impl Switches {
    /// Everything is on, and no key is listed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kill switch: turns every limit off, those that are watched too. Keys that are listed as denied are still
    /// turned away.
    pub fn all_off(&self) {
        self.change(|settings| settings.all_off = true);
    }

    /// Takes the kill switch back: every limit is again as it was switched by itself.
    pub fn all_on(&self) {
        self.change(|settings| settings.all_off = false);
    }

    /// Turns the limits of that name off.
    pub fn off(&self, limit: &str) {
        self.change_limits(|limits| {
            limits.insert(limit.into(), Switch::Off);
        });
    }

    /// Enforces the limits of that name again, whether they were off or only watched.
    pub fn on(&self, limit: &str) {
        self.change_limits(|limits| {
            limits.remove(limit);
        });
    }

    /// Only watches the limits of that name: they are evaluated and counted as if enforced, and deny nothing. Counting
    /// begins now, unless they are watched already.
    pub fn shadow(&self, limit: &str) {
        self.change_limits(|limits| {
            if !matches!(limits.get(limit), Some(Switch::Shadow(_))) {
                limits.insert(limit.into(), Switch::Shadow(Arc::new(Watch::default())));
            }
        });
    }

    /// Lets a key pass, whatever the limit. Takes it off the other list. Copies the list: for many keys at once there
    /// is [`set_allowed`](Self::set_allowed).
    pub fn allow<'k>(&self, key: impl Into<Key<'k>>) {
        let key = OwnedKey::from(key.into());
        self.change(|settings| {
            remove(&mut settings.denied, key.as_key());
            Arc::make_mut(&mut settings.allowed).insert(key);
        });
    }

    /// Turns a key away, whatever the limit. Takes it off the other list. Copies the list: for many keys at once there
    /// is [`set_denied`](Self::set_denied).
    pub fn deny<'k>(&self, key: impl Into<Key<'k>>) {
        let key = OwnedKey::from(key.into());
        self.change(|settings| {
            remove(&mut settings.allowed, key.as_key());
            Arc::make_mut(&mut settings.denied).insert(key);
        });
    }

    /// Takes a key off the list it is on.
    pub fn unlist<'k>(&self, key: impl Into<Key<'k>>) {
        let key = key.into();
        self.change(|settings| {
            remove(&mut settings.allowed, key);
            remove(&mut settings.denied, key);
        });
    }

    /// Replaces the whole list of those that pass. Leaves the other list alone, so that both can be replaced in any
    /// order; a key on both is denied.
    pub fn set_allowed<'k, K: Into<Key<'k>>>(&self, keys: impl IntoIterator<Item = K>) {
        let keys = owned(keys);
        self.change(|settings| settings.allowed = keys);
    }

    /// Replaces the whole list of those that don't pass. Leaves the other list alone, so that both can be replaced in
    /// any order; a key on both is denied.
    pub fn set_denied<'k, K: Into<Key<'k>>>(&self, keys: impl IntoIterator<Item = K>) {
        let keys = owned(keys);
        self.change(|settings| settings.denied = keys);
    }

    /// What is switched.
    pub fn state(&self) -> SwitchState {
        let settings = self.0.settings.load();
        let mut state = SwitchState {
            all_off: settings.all_off,
            allowed: settings.allowed.len(),
            denied: settings.denied.len(),
            ..SwitchState::default()
        };
        for (name, switch) in settings.limits.iter() {
            match switch {
                Switch::Off => state.off.push(name.to_string()),
                Switch::Shadow(watch) => state.shadow.push((name.to_string(), watch.report())),
            }
        }
        state
    }

    /// How the limits of that name are switched, the kill switch included.
    pub fn mode(&self, limit: &str) -> LimitMode {
        let settings = self.0.settings.load();
        match settings.limits.get(limit) {
            _ if settings.all_off => LimitMode::Off,
            Some(Switch::Off) => LimitMode::Off,
            Some(Switch::Shadow(_)) => LimitMode::Shadow,
            None => LimitMode::On,
        }
    }

    /// Which list a key is on: the one that counts, if it was set on both.
    pub fn listed<'k>(&self, key: impl Into<Key<'k>>) -> Option<KeyList> {
        let (settings, key) = (self.0.settings.load(), key.into());
        if settings.denies(key) {
            return Some(KeyList::Denied);
        }
        settings.allows(key).then_some(KeyList::Allowed)
    }

    /// What the limits of that name would have done since they were switched to shadow; `None` if they are not watched.
    pub fn shadow_report(&self, limit: &str) -> Option<ShadowReport> {
        match self.0.settings.load().limits.get(limit) {
            Some(Switch::Shadow(watch)) => Some(watch.report()),
            Some(Switch::Off) | None => None,
        }
    }

    /// What is set, if anything is.
    #[inline]
    pub(super) fn settings(&self) -> Option<Guard<Arc<Settings>>> {
        self.0.any.load(Ordering::Acquire).then(|| self.0.settings.load())
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        // Whoever panicked here has left the settings as they were.
        let _changing = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settings = Settings::clone(&self.0.settings.load());
        change(&mut settings);
        let any = !settings.is_plain();
        self.0.settings.store(Arc::new(settings));
        // Later than the settings: whoever sees that something is set sees what.
        self.0.any.store(any, Ordering::Release);
    }

    fn change_limits(&self, change: impl FnOnce(&mut BTreeMap<Box<str>, Switch>)) {
        self.change(|settings| change(Arc::make_mut(&mut settings.limits)));
    }
}

fn owned<'k, K: Into<Key<'k>>>(keys: impl IntoIterator<Item = K>) -> Arc<Keys> {
    Arc::new(keys.into_iter().map(|key| OwnedKey::from(key.into())).collect())
}

/// Copies the list only if the key is on it.
fn remove(keys: &mut Arc<Keys>, key: Key<'_>) {
    if keys.contains(&Sought(key)) {
        Arc::make_mut(keys).swap_remove(&Sought(key));
    }
}
