//! Reproducible random numbers.

/// A small pseudo-random generator. The same seed always yields the same sequence, so every trace can be repeated.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence is infinite, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [(32, 0xd6e8_feb8_6659_fd93), (29, 0xd6e8_feb8_6659_fd93)] {
            mixed = (mixed ^ mixed >> shift).wrapping_mul(factor);
        }
        mixed ^ mixed >> 32
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns true with a probability of one in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the items, of which there must be at least one.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).unwrap_or(0)]
    }
}
