//! The keys of a workload, and the order in which they arrive on each thread.
//!
//! Keys are in memory in the order of their arrival. In a service a key has just been read from a request, so its bytes
//! are in the cache. Keys scattered over the heap would add two cache misses to every check that a limiter does not
//! cause, and whose cost depends on whether it reads the clock before or after the key.

const NAME_LENGTH: usize = "user-0000000".len();

/// Returns the name of the `index`th key.
///
/// Without a colon, which some limiters do not accept in a key.
pub fn name(index: usize) -> String {
    let name = format!("user-{index:07}");
    assert_eq!(name.len(), NAME_LENGTH, "{name} is too long");
    name
}

/// Precomputed key names, in one shuffled order per thread.
pub struct Keys {
    ordered: Names,
    arrivals: Vec<Names>,
}

impl Keys {
    pub fn new(count: usize, threads: usize) -> Self {
        Self {
            ordered: Names((0..count).map(name).collect()),
            arrivals: (1..=threads as u64)
                .map(|seed| Names(shuffled(count, seed).into_iter().map(name).collect()))
                .collect(),
        }
    }

    /// Returns every name once, in the order of the indices.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.ordered.count()).map(|index| self.ordered.get(index))
    }

    /// Returns the arrivals on `thread` from its `start`th key on.
    ///
    /// A lap starts where the previous one ended; otherwise all laps would visit the same few keys of a large set.
    pub fn walk(&self, thread: usize, start: usize) -> Walk<'_> {
        let names = &self.arrivals[thread];
        let count = names.count();
        Walk { names, count, at: start % count }
    }
}

/// Concatenated names of equal length.
struct Names(String);

impl Names {
    fn count(&self) -> usize {
        self.0.len() / NAME_LENGTH
    }

    #[inline]
    fn get(&self, index: usize) -> &str {
        let start = index * NAME_LENGTH;
        &self.0[start..start + NAME_LENGTH]
    }
}

/// An endless walk over the keys.
pub struct Walk<'a> {
    names: &'a Names,
    count: usize,
    at: usize,
}

impl<'a> Walk<'a> {
    #[inline]
    pub fn step(&mut self) -> &'a str {
        let name = self.names.get(self.at);
        self.at += 1;
        if self.at == self.count {
            self.at = 0;
        }
        name
    }
}

/// Returns 0 to `count` in an order that depends on the seed only.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for last in (1..order.len()).rev() {
        let other = split_mix(&mut state) % (last as u64 + 1);
        order.swap(last, usize::try_from(other).expect("at most last"));
    }
    order
}

/// The `SplitMix64` generator: good enough for a shuffle, without a dependency.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_key_once_and_starts_over() {
        let keys = Keys::new(100, 2);
        let mut walk = keys.walk(1, 0);
        let mut seen: Vec<&str> = (0..100).map(|_| walk.step()).collect();
        assert_eq!(walk.step(), seen[0]);
        seen.sort_unstable();
        assert!(keys.names().eq(seen));
    }

    #[test]
    fn threads_walk_differently_and_laps_continue() {
        let keys = Keys::new(100, 2);
        let steps = |thread, start| {
            let mut walk = keys.walk(thread, start);
            (0..10).map(|_| walk.step()).collect::<Vec<_>>()
        };
        assert_ne!(steps(0, 0), steps(1, 0));
        assert_eq!(steps(0, 0)[3..], steps(0, 103)[..7]);
    }
}
