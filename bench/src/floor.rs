//! The floors: the least work of any exact limiter in shared memory, by the shape of its state.
//!
//! - a word: one clock read, one look-up in a read-only map, one compare-and-set;
//! - windows: the same, beside two words that say which window the count belongs to;
//! - a record: one clock read, one look-up in one of 64 maps behind a lock each, a few words read and written;
//! - a log: the same, and an entry is added.
//!
//! They decide nothing. The first two cannot add keys. The cost of a limiter is reported as a multiple of its floor.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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

pub fn windows(_: Traffic, keys: usize) -> Box<dyn Subject> {
    let clock = Ticker::new();
    let window =
        || Window { start: AtomicU64::new(0), previous: AtomicU64::new(0), count: AtomicU64::new(0) };
    let windows = (0..keys).map(|index| (keys::name(index), window())).collect();
    Box::new(Windows { clock, windows })
}

pub fn records(_: Traffic, keys: usize) -> Box<dyn Subject> {
    Box::new(Locked::<Record>::new(keys))
}

pub fn logs(_: Traffic, keys: usize) -> Box<dyn Subject> {
    Box::new(Locked::<VecDeque<u64>>::new(keys))
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

struct Windows {
    clock: Ticker,
    windows: HashMap<String, Window, RandomState>,
}

struct Window {
    start: AtomicU64,
    previous: AtomicU64,
    count: AtomicU64,
}

impl Subject for Windows {
    fn check(&self, key: &str) -> bool {
        let window = self.windows.get(key);
        let now = self.clock.nanoseconds();
        window.is_some_and(|window| {
            let is_under_way = window.start.load(Ordering::Acquire) <= now;
            let has_room = is_under_way && window.previous.load(Ordering::Acquire) == 0;
            let next = |seen| has_room.then_some(seen + 1);
            window.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
        })
    }
}

/// What the floors behind locks keep per key.
trait Kept: Default + Send {
    fn change(&mut self, now: u64) -> bool;
}

/// A few words.
#[derive(Default)]
struct Record([u64; 4]);

impl Kept for Record {
    fn change(&mut self, now: u64) -> bool {
        let Self([at, used, ..]) = self;
        *used += u64::from(*at <= now);
        *at = now;
        *used > 0
    }
}

impl Kept for VecDeque<u64> {
    fn change(&mut self, now: u64) -> bool {
        self.push_back(now);
        self.front().is_some_and(|oldest| *oldest <= now)
    }
}

const SHARDS: usize = 64;

type Shard<K> = Mutex<HashMap<String, K, RandomState>>;

struct Locked<K> {
    clock: Ticker,
    hasher: RandomState,
    shards: Vec<Shard<K>>,
}

impl<K: Kept> Locked<K> {
    fn new(keys: usize) -> Self {
        let shard = || Mutex::new(HashMap::with_capacity_and_hasher(keys / SHARDS, RandomState::default()));
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Self { clock: Ticker::new(), hasher: RandomState::default(), shards }
    }
}

impl<K: Kept> Subject for Locked<K> {
    fn check(&self, key: &str) -> bool {
        let now = self.clock.nanoseconds();
        let shard = usize::try_from(self.hasher.hash_one(key) >> 32).expect("32 bits") % SHARDS;
        let mut kept = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get_mut(key) {
            Some(state) => state.change(now),
            None => kept.entry(key.to_owned()).or_default().change(now),
        }
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
