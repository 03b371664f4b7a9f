//! The algorithms, one file each, as pure functions over their own small state.
//!
//! Token bucket, leaky buckets, GCRA and the smooth bursty limiter keep a single instant and share
//! [`Flow`]; the others implement [`Rules`] on a state of their own.

mod concurrency;
mod fixed_window;
mod flow;
mod gcra;
mod interval_bucket;
mod leaky_meter;
mod leaky_queue;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod smooth_bursty;
mod smooth_warming_up;
mod token_bucket;

use alloc::vec::Vec;

pub(crate) use concurrency::{Concurrency, Leases};
pub(crate) use fixed_window::{FixedWindow, Window};
pub use flow::{Flow, PlainTake, Tat};
pub(crate) use gcra::Gcra;
pub use gcra::RedisCellReply;
pub(crate) use interval_bucket::{IntervalBucket, Tokens};
pub(crate) use leaky_meter::LeakyMeter;
pub(crate) use leaky_queue::LeakyQueue;
pub(crate) use sliding_counter::{Counters, SlidingCounter};
pub(crate) use sliding_log::{Log, SlidingLog};
pub(crate) use sliding_window::{SlidingWindow, TwoWindows};
pub(crate) use smooth_bursty::SmoothBursty;
pub(crate) use smooth_warming_up::{SmoothWarmingUp, Warmth};
pub(crate) use token_bucket::TokenBucket;

use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome, RawDecision, Source};
use crate::time::Time;

/// Which algorithm a limit uses. The numbers are part of the snapshot format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[repr(u8)]
pub enum AlgorithmKind {
    /// Capacity, refilled continuously.
    TokenBucket = 1,
    /// Capacity, refilled once per period.
    IntervalBucket = 2,
    /// A level that drains; what would spill is denied.
    LeakyMeter = 3,
    /// A queue that lets one start at a time.
    LeakyQueue = 4,
    /// A counter per window.
    FixedWindow = 5,
    /// Exact timestamps.
    SlidingLog = 6,
    /// The sum of the last sub-buckets.
    SlidingCounter = 7,
    /// The previous window, weighted, plus the current one.
    SlidingWindow = 8,
    /// Theoretical arrival times.
    Gcra = 9,
    /// Stored permits and a next free ticket.
    SmoothBursty = 10,
    /// The same, slow when cold.
    SmoothWarmingUp = 11,
    /// Work in flight.
    Concurrency = 12,
}

impl AlgorithmKind {
    /// Every kind, in order.
    pub const ALL: [Self; 12] = [
        Self::TokenBucket,
        Self::IntervalBucket,
        Self::LeakyMeter,
        Self::LeakyQueue,
        Self::FixedWindow,
        Self::SlidingLog,
        Self::SlidingCounter,
        Self::SlidingWindow,
        Self::Gcra,
        Self::SmoothBursty,
        Self::SmoothWarmingUp,
        Self::Concurrency,
    ];

    /// The kind with this number in the snapshot format.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Its name in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token bucket",
            Self::IntervalBucket => "token bucket refilled by interval",
            Self::LeakyMeter => "leaky bucket",
            Self::LeakyQueue => "leaky bucket as a queue",
            Self::FixedWindow => "fixed window",
            Self::SlidingLog => "sliding log",
            Self::SlidingCounter => "sliding counter",
            Self::SlidingWindow => "sliding window",
            Self::Gcra => "GCRA",
            Self::SmoothBursty => "smooth bursty",
            Self::SmoothWarmingUp => "smooth warming up",
            Self::Concurrency => "concurrency",
        }
    }

    /// A continuous flow: its whole state is the instant at which it is full again.
    pub const fn is_flow(self) -> bool {
        matches!(
            self,
            Self::TokenBucket | Self::LeakyMeter | Self::LeakyQueue | Self::Gcra | Self::SmoothBursty
        )
    }

    /// It can admit now what starts later. Where it cannot, waiting means asking again.
    pub const fn reserves(self) -> bool {
        matches!(
            self,
            Self::TokenBucket
                | Self::IntervalBucket
                | Self::LeakyMeter
                | Self::LeakyQueue
                | Self::Gcra
                | Self::SmoothBursty
                | Self::SmoothWarmingUp
        )
    }

    /// Why it cannot do that, if it cannot.
    pub const fn refusal(self, action: Action) -> Option<&'static str> {
        match (self, action) {
            (Self::Concurrency, Action::Take { max_wait: Some(_) }) => {
                Some("work in flight ends when it ends: wait by asking again at retry_after")
            }
            (_, Action::Take { max_wait: Some(_) }) if !self.reserves() => {
                Some("windows and logs cannot reserve: wait by asking again at retry_after")
            }
            (Self::Concurrency, Action::Refund { .. }) => Some("release the lease instead of refunding it"),
            (Self::Concurrency, Action::Debit { .. }) => {
                Some("work in flight cannot be debited: acquire a lease")
            }
            (Self::Concurrency, _) => None,
            (_, Action::Renew | Action::Release) => Some("only concurrency limits have leases"),
            _ => None,
        }
    }
}

/// An algorithm over a state of its own. Everything is a pure function of state, time and ask.
pub(crate) trait Rules {
    type State: Clone + Default + PartialEq + core::fmt::Debug;

    fn capacity(&self) -> u32;
    /// Answers, and changes the state if the answer does. A denial changes nothing here.
    fn decide(&self, state: &mut Self::State, now: Time, ask: &Ask) -> Decision;
    /// A denial that this limit itself caused: remember it if denials count, and say what it is told then.
    fn denied(&self, _state: &mut Self::State, _now: Time, _ask: &Ask) -> Option<Decision> {
        None
    }
    /// From when on the state equals a fresh one.
    fn fresh_at(&self, state: &Self::State) -> Time;
    fn words(state: &Self::State) -> Vec<u64>;
    /// `None` if the words cannot have come from [`words`](Self::words).
    fn from_words(words: &[u64]) -> Option<Self::State>;
}

macro_rules! algorithms {
    ($($name:ident => $body:ident),* $(,)?) => {
        /// An algorithm with its numbers.
        #[derive(Clone, Debug)]
        pub(crate) enum Algorithm { $($name($name)),* }

        $(impl From<$name> for Algorithm {
            fn from(algorithm: $name) -> Self { Self::$name(algorithm) }
        })*

        impl Algorithm {
            pub(crate) const fn kind(&self) -> AlgorithmKind {
                match self { $(Self::$name(_) => AlgorithmKind::$name),* }
            }

            pub(crate) fn capacity(&self) -> u32 {
                match self { $(Self::$name(rules) => rules.capacity()),* }
            }

            #[inline]
            pub(crate) fn decide(&self, body: &mut Body, now: Time, ask: &Ask) -> Decision {
                match self { $(Self::$name(rules) => rules.decide(body.$body(), now, ask)),* }
            }

            pub(crate) fn denied(&self, body: &mut Body, now: Time, ask: &Ask) -> Option<Decision> {
                match self { $(Self::$name(rules) => rules.denied(body.$body(), now, ask)),* }
            }

            pub(crate) fn fresh_at(&self, body: &mut Body) -> Time {
                match self { $(Self::$name(rules) => rules.fresh_at(body.$body())),* }
            }

            pub(crate) fn words(&self, body: &mut Body) -> Vec<u64> {
                match self { $(Self::$name(_) => <$name as Rules>::words(body.$body())),* }
            }

            pub(crate) fn read(&self, words: &[u64]) -> Option<Body> {
                Some(match self { $(Self::$name(_) => <$name as Rules>::from_words(words)?.into()),* })
            }
        }
    };
}

algorithms! {
    TokenBucket => flow,
    IntervalBucket => tokens,
    LeakyMeter => flow,
    LeakyQueue => flow,
    FixedWindow => window,
    SlidingLog => log,
    SlidingCounter => counters,
    SlidingWindow => two_windows,
    Gcra => flow,
    SmoothBursty => flow,
    SmoothWarmingUp => warmth,
    Concurrency => leases,
}

impl Algorithm {
    #[inline]
    pub(crate) fn as_flow(&self) -> Option<&Flow> {
        match self {
            Self::TokenBucket(bucket) => Some(bucket.flow()),
            Self::LeakyMeter(meter) => Some(meter.flow()),
            Self::LeakyQueue(queue) => Some(queue.flow()),
            Self::Gcra(gcra) => Some(gcra.flow()),
            Self::SmoothBursty(smooth) => Some(smooth.flow()),
            _ => None,
        }
    }

    pub(crate) fn refusal(&self, action: Action) -> Option<&'static str> {
        self.kind().refusal(action)
    }
}

macro_rules! bodies {
    ($($variant:ident($state:ty) => $body:ident),* $(,)?) => {
        /// The state of whichever algorithm a limit has.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) enum Body {
            #[default]
            Fresh,
            $($variant($state)),*
        }

        impl Body {
            $(
                /// This state; whatever another algorithm left under the same name is as good as nothing.
                fn $body(&mut self) -> &mut $state {
                    if !matches!(self, Self::$variant(_)) {
                        *self = Self::$variant(<$state>::default());
                    }
                    match self {
                        Self::$variant(state) => state,
                        _ => unreachable!("the line above has seen to it"),
                    }
                }
            )*
        }

        $(impl From<$state> for Body {
            fn from(state: $state) -> Self { Self::$variant(state) }
        })*
    };
}

bodies! {
    Flow(Tat) => flow,
    Tokens(Tokens) => tokens,
    Window(Window) => window,
    Log(Log) => log,
    Counters(Counters) => counters,
    TwoWindows(TwoWindows) => two_windows,
    Warmth(Warmth) => warmth,
    Leases(Leases) => leases,
}

/// The numbers of a decision whose unit is a whole token.
struct Count {
    limit: u32,
    left: i64,
    /// Nanoseconds until the state is as good as new.
    reset: u64,
}

impl Count {
    fn answer(self, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let Self { limit, left, reset } = self;
        RawDecision { outcome, source: Source::Store, granted, limit, left, unit: 1, wait, reset }.into()
    }
}

/// How far `instant` lies ahead of `now`, in nanoseconds.
#[inline]
fn ahead(instant: u64, now: Time) -> u64 {
    instant.saturating_sub(now.nanos())
}

/// A signed word for differences and debts.
#[inline]
fn signed(word: u64) -> i64 {
    i64::try_from(word).unwrap_or(i64::MAX)
}
