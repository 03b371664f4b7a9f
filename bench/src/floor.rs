//! The floor: the least work of any exact limiter in shared memory.
//!
//! One clock read, one look-up in a read-only map, one compare-and-set. It decides nothing and cannot add keys. The
//! cost of a limiter is reported as a multiple of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use quanta::Clock;

use crate::keys;
use crate::subject::{Subject, Traffic};

/// A word that denies.
const SPENT: u64 = u64::MAX;

pub fn direct(traffic: Traffic) -> Box<dyn Subject> {
    Box::new(Direct { clock: Ticker::new(), word: Padded(fresh(traffic)) })
}

pub fn keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    Box::new(Keyed {
        clock: Ticker::new(),
        words: (0..keys).map(|index| (keys::name(index), fresh(traffic))).collect(),
    })
}

struct Direct {
    clock: Ticker,
    word: Padded,
}

impl Subject for Direct {
    fn check(&self, _key: &str) -> bool {
        stamp(&self.word.0, self.clock.nanoseconds())
    }
}

struct Keyed {
    clock: Ticker,
    words: HashMap<String, AtomicU64, RandomState>,
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        // The clock last: reading it stalls the instructions that follow, and would separate one look-up from the next.
        let word = self.words.get(key);
        let now = self.clock.nanoseconds();
        word.is_some_and(|word| stamp(word, now))
    }
}

/// A clock in nanoseconds since its creation.
struct Ticker {
    clock: Clock,
    start: u64,
}

#[expect(clippy::disallowed_methods, reason = "the cost of the clock itself is measured")]
impl Ticker {
    fn new() -> Self {
        let clock = Clock::new();
        let start = clock.raw();
        Self { clock, start }
    }

    fn nanoseconds(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw())
    }
}

/// On its own cache lines: writes of other threads must not slow down reading the clock's calibration. Two lines, as
/// the processor fetches them in pairs.
#[repr(align(128))]
struct Padded(AtomicU64);

fn fresh(traffic: Traffic) -> AtomicU64 {
    AtomicU64::new(match traffic {
        Traffic::Admitted => 0,
        Traffic::Denied => SPENT,
    })
}

/// Writes `now` into a word that is not spent.
fn stamp(word: &AtomicU64, now: u64) -> bool {
    let mut seen = word.load(Ordering::Relaxed);
    while seen != SPENT {
        match word.compare_exchange_weak(seen, now, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(newer) => seen = newer,
        }
    }
    false
}
