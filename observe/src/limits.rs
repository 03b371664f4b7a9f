//! Something for each limit by its name, for at most so many names.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;

/// How many limits are told apart, unless another number was asked for.
pub const MOST_LIMITS: usize = 1_000;

/// What limits are called that came when there was no room for more names.
pub const OTHER: &str = "(other)";

/// What a limit is called outside of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label<'a> {
    /// By its name.
    Own(&'a str),
    /// Like all others for whose names there was no room.
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

/// Values by the name of a limit. Names are never forgotten: what they label outside of this program isn't either.
///
/// Limits are read with every decision and new ones are rare, so readers take no lock and whoever adds one copies
/// the map.
pub(crate) struct Limits<V> {
    most: usize,
    named: ArcSwap<Map<V>>,
    /// Held by whoever adds one.
    adding: Mutex<()>,
    other: V,
}

type Map<V> = HashMap<Arc<str>, Arc<V>, RandomState>;

impl<V: Default> Limits<V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, named: ArcSwap::default(), adding: Mutex::default(), other: V::default() }
    }

    /// Does something with the limit's value and the label that it goes by.
    #[inline]
    pub(crate) fn with<T>(&self, name: &str, work: impl FnOnce(Label<'_>, &V) -> T) -> T {
        let named = self.named.load();
        if let Some(value) = named.get(name) {
            return work(Label::Own(name), value);
        }
        if named.len() >= self.most {
            return work(Label::Shared, &self.other);
        }
        drop(named);
        match self.add(name) {
            Some(value) => work(Label::Own(name), &value),
            None => work(Label::Shared, &self.other),
        }
    }

    /// A value for a new name. `None` if the last place has gone to another meanwhile.
    #[cold]
    fn add(&self, name: &str) -> Option<Arc<V>> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let named = self.named.load();
        if let Some(value) = named.get(name) {
            return Some(Arc::clone(value));
        }
        if named.len() >= self.most {
            return None;
        }
        let value = Arc::new(V::default());
        let mut more = Map::clone(&named);
        more.insert(name.into(), Arc::clone(&value));
        self.named.store(Arc::new(more));
        Some(value)
    }
}

impl<V> fmt::Debug for Limits<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("named", &self.named.load().len())
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_first_names_are_told_apart_and_the_rest_are_not() {
        let limits = Limits::<AtomicUsize>::new(2);
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
    fn threads_that_add_at_once_lose_nothing_and_stay_within_the_bound() {
        const ROUNDS: usize = 2_000;
        let rounds: Vec<_> = (0..ROUNDS).map(|_| Limits::<AtomicUsize>::new(2)).collect();
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
