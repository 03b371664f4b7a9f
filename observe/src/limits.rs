//! A map by limit name with a bounded number of names.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;

/// The default number of limits with a label of their own.
pub const MAX_LIMITS: usize = 1_000;

/// The label of all limits beyond that number.
pub const OTHER: &str = "(other)";

/// The label of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label<'a> {
    /// Its name.
    Own(&'a str),
    /// [`OTHER`], shared by all limits beyond the bound.
    Shared,
}

impl<'a> Label<'a> {
    pub(crate) fn as_str(self) -> &'a str {
        match self {
            Self::Own(name) => name,
            Self::Shared => OTHER,
        }
    }
}

/// Values by limit name. Names are never removed: exporters keep their time series as well.
///
/// The map is read with every decision and new limits are rare. So readers take no lock, and a writer copies the map.
pub(crate) struct PerLimit<V> {
    max: usize,
    named: ArcSwap<Map<V>>,
    /// Held while a name is added.
    adding: Mutex<()>,
    other: V,
}

type Map<V> = HashMap<Arc<str>, Arc<V>, RandomState>;

impl<V: Default> PerLimit<V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, named: ArcSwap::default(), adding: Mutex::default(), other: V::default() }
    }

    /// Calls `work` with the limit's label and value.
    #[inline]
    pub(crate) fn with<T>(&self, name: &str, work: impl FnOnce(Label<'_>, &V) -> T) -> T {
        let named = self.named.load();
        if let Some(value) = named.get(name) {
            return work(Label::Own(name), value);
        }
        if named.len() >= self.max {
            return work(Label::Shared, &self.other);
        }
        drop(named);
        match self.add(name) {
            Some(value) => work(Label::Own(name), &value),
            None => work(Label::Shared, &self.other),
        }
    }

    /// Adds a name and returns its value. `None` if another thread added the last name within the bound.
    #[cold]
    fn add(&self, name: &str) -> Option<Arc<V>> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let named = self.named.load();
        if let Some(value) = named.get(name) {
            return Some(Arc::clone(value));
        }
        if named.len() >= self.max {
            return None;
        }
        let value = Arc::new(V::default());
        let mut extended = Map::clone(&named);
        extended.insert(name.into(), Arc::clone(&value));
        self.named.store(Arc::new(extended));
        Some(value)
    }
}

impl<V> fmt::Debug for PerLimit<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerLimit")
            .field("named", &self.named.load().len())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_first_names_get_their_own_label_and_the_others_share_one() {
        let limits = PerLimit::<AtomicUsize>::new(2);
        let count = |name: &str| {
            let add = |label: Label<'_>, count: &AtomicUsize| {
                (label.as_str().to_owned(), count.fetch_add(1, Ordering::Relaxed) + 1)
            };
            limits.with(name, add)
        };
        assert_eq!(count("a"), ("a".into(), 1));
        assert_eq!(count("b"), ("b".into(), 1));
        assert_eq!(count("c"), (OTHER.into(), 1));
        assert_eq!(count("d"), (OTHER.into(), 2));
        assert_eq!(count("a"), ("a".into(), 2));
    }

    #[test]
    fn concurrent_additions_lose_nothing_and_stay_within_the_bound() {
        const ROUNDS: usize = 2_000;
        let rounds: Vec<_> = (0..ROUNDS).map(|_| PerLimit::<AtomicUsize>::new(2)).collect();
        let arrived: Vec<_> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            let rounds = || rounds.iter().zip(&arrived);
            for names in [["a", "b"], ["b", "c"], ["c", "a"]] {
                scope.spawn(move || {
                    for (limits, arrived) in rounds() {
                        arrived.fetch_add(1, Ordering::AcqRel);
                        while arrived.load(Ordering::Acquire) < 2 {
                            std::thread::yield_now();
                        }
                        for name in names {
                            limits.with(name, |_, count| count.fetch_add(1, Ordering::Relaxed));
                        }
                    }
                });
            }
        });
        for limits in &rounds {
            let named = limits.named.load();
            let counts: Vec<_> = named.values().map(|count| count.load(Ordering::Relaxed)).collect();
            assert_eq!((&counts[..], limits.other.load(Ordering::Relaxed)), (&[2, 2][..], 2));
        }
    }
}
