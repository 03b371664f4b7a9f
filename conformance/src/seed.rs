//! Random numbers that are the same every time.

/// A small generator: every trace can be repeated from its seed.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// The generator of that number.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number: an odd step, well mixed.
    #[expect(clippy::should_implement_trait, reason = "it has no end, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [(32, 0xd6e8_feb8_6659_fd93), (29, 0xd6e8_feb8_6659_fd93)] {
            mixed = (mixed ^ mixed >> shift).wrapping_mul(factor);
        }
        mixed ^ mixed >> 32
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the items, of which there is at least one.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).unwrap_or(0)]
    }
}
