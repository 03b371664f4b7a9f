//! The algorithms, one file each, as pure functions over their own small state.
//!
//! - `kind`: [`AlgorithmKind`], a table of all algorithms and their properties.
//! - `flow`: the algorithms whose whole state is one theoretical arrival time ([`Flow`]).
//! - `interval_bucket`, `fixed_window`, `sliding_log`, `sliding_counter`, `sliding_window`, `smooth_warming_up`,
//!   `concurrency`: the algorithms with a state of their own; each implements [`Decide`].
//! - `windows`: the states of both window algorithms as plain numbers ([`Windows`]); `window_take`: the fast path for the
//!   most frequent operation on them.
//! - `balance`: arithmetic that they share; `sum_tree`: a sorted sequence with sums, for states of many entries.
//!
//! The validation of parameters is in the limit's builder.

mod balance;
mod concurrency;
mod fixed_window;
mod flow;
mod interval_bucket;
mod kind;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod smooth_warming_up;
mod sum_tree;
mod window_take;
mod windows;

use alloc::vec::Vec;

use balance::{Balance, nanos_until, saturate, signed, take_up_to_cost};
pub(crate) use concurrency::Concurrency;
pub(crate) use fixed_window::FixedWindow;
pub use flow::{Flow, PlainTake, RedisCellReply, Tat};
pub(crate) use interval_bucket::IntervalBucket;
pub use kind::AlgorithmKind;
pub(crate) use sliding_counter::SlidingCounter;
pub(crate) use sliding_log::SlidingLog;
pub(crate) use sliding_window::SlidingWindow;
pub(crate) use smooth_warming_up::SmoothWarmingUp;
#[cfg(test)]
pub(crate) use sum_tree::visits;
pub use window_take::{WindowLimit, WindowTake};
pub use windows::Windows;

use crate::charge::Operation;
use crate::decision::Decision;
use crate::time::Time;

/// An algorithm with its parameters: decides operations on a state of its own.
///
/// All methods are pure functions of the parameters, the state, the time and the operation.
pub(crate) trait Decide {
    /// What a key's state consists of. The default is a fresh state.
    type State: StateVariant;

    fn kind(&self) -> AlgorithmKind;

    /// Returns the most that can pass at once.
    fn capacity(&self) -> u32;

    /// Decides an operation, and updates the state accordingly. A denied operation debits nothing.
    fn decide(&self, state: &mut Self::State, now: Time, operation: &Operation) -> Decision;

    /// Counts a denied take, if denied takes count. Returns the decision that replaces the denial then.
    fn count_denial(&self, _state: &mut Self::State, _now: Time, _operation: &Operation) -> Option<Decision> {
        None
    }

    /// Returns the instant from which on the state equals a fresh one.
    fn fresh_at(&self, state: &Self::State) -> Time;

    /// Returns the state as words. Their order and meaning are part of the snapshot format.
    fn to_words(state: &Self::State) -> Vec<u64>;

    /// Returns the state that the words stand for. `None` if they cannot have come from
    /// [`to_words`](Self::to_words).
    fn from_words(words: &[u64]) -> Option<Self::State>;
}

/// The state of one algorithm: a variant of [`AlgorithmState`].
pub(crate) trait StateVariant: Clone + Default + PartialEq + core::fmt::Debug {
    /// Returns this variant. A state of another algorithm is replaced by a fresh one first.
    fn of(state: &mut AlgorithmState) -> &mut Self;
}

/// Generates the enums over all implementations of [`Decide`] and over their states, and the dispatch between them.
macro_rules! algorithms {
    ($($algorithm:ident),* $(,)?) => {
        /// The algorithm of a limit, with its parameters.
        #[derive(Clone, Debug)]
        pub(crate) enum Algorithm {
            $($algorithm($algorithm)),*
        }

        /// The state of one key, under whichever algorithm its limit has.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) enum AlgorithmState {
            /// The state of a key that no algorithm has used yet.
            #[default]
            Fresh,
            $($algorithm(<$algorithm as Decide>::State)),*
        }

        $(
            impl From<$algorithm> for Algorithm {
                fn from(algorithm: $algorithm) -> Self {
                    Self::$algorithm(algorithm)
                }
            }

            impl StateVariant for <$algorithm as Decide>::State {
                #[inline]
                fn of(state: &mut AlgorithmState) -> &mut Self {
                    if !matches!(state, AlgorithmState::$algorithm(_)) {
                        *state = AlgorithmState::$algorithm(Self::default());
                    }
                    let AlgorithmState::$algorithm(state) = state else {
                        unreachable!("assigned above");
                    };
                    state
                }
            }
        )*

        impl Algorithm {
            pub(crate) fn kind(&self) -> AlgorithmKind {
                match self { $(Self::$algorithm(algorithm) => algorithm.kind()),* }
            }

            pub(crate) fn capacity(&self) -> u32 {
                match self { $(Self::$algorithm(algorithm) => algorithm.capacity()),* }
            }

            #[inline]
            pub(crate) fn decide(
                &self,
                state: &mut AlgorithmState,
                now: Time,
                operation: &Operation,
            ) -> Decision {
                match self {
                    $(Self::$algorithm(algorithm) => {
                        algorithm.decide(StateVariant::of(state), now, operation)
                    })*
                }
            }

            pub(crate) fn count_denial(
                &self,
                state: &mut AlgorithmState,
                now: Time,
                operation: &Operation,
            ) -> Option<Decision> {
                match self {
                    $(Self::$algorithm(algorithm) => {
                        algorithm.count_denial(StateVariant::of(state), now, operation)
                    })*
                }
            }

            pub(crate) fn fresh_at(&self, state: &mut AlgorithmState) -> Time {
                match self {
                    $(Self::$algorithm(algorithm) => algorithm.fresh_at(StateVariant::of(state))),*
                }
            }

            pub(crate) fn to_words(&self, state: &mut AlgorithmState) -> Vec<u64> {
                match self {
                    $(Self::$algorithm(_) => <$algorithm as Decide>::to_words(StateVariant::of(state))),*
                }
            }

            pub(crate) fn state_from_words(&self, words: &[u64]) -> Option<AlgorithmState> {
                match self {
                    $(Self::$algorithm(_) => {
                        <$algorithm as Decide>::from_words(words).map(AlgorithmState::$algorithm)
                    })*
                }
            }
        }
    };
}

algorithms! {
    Flow,
    IntervalBucket,
    FixedWindow,
    SlidingLog,
    SlidingCounter,
    SlidingWindow,
    SmoothWarmingUp,
    Concurrency,
}

impl Algorithm {
    #[inline]
    pub(crate) fn as_window(&self) -> Option<WindowLimit<'_>> {
        match self {
            Self::FixedWindow(window) => Some(window.into()),
            Self::SlidingWindow(window) => Some(window.into()),
            Self::Flow(_)
            | Self::IntervalBucket(_)
            | Self::SlidingLog(_)
            | Self::SlidingCounter(_)
            | Self::SmoothWarmingUp(_)
            | Self::Concurrency(_) => None,
        }
    }

    #[inline]
    pub(crate) fn as_flow(&self) -> Option<&Flow> {
        if let Self::Flow(flow) = self { Some(flow) } else { None }
    }
}
