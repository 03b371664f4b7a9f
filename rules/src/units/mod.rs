//! Short forms of values: durations (`15m`), rates (`50/s`), limits (`50/s burst 100`), sizes (`10MB`), counts (`10k`)
//! and failure policies (`allow for 30s, then deny`). Their errors say what would be right.

mod duration;
mod number;
mod policy;
mod rate;

pub(crate) use duration::{describe_duration, describe_period, duration, short_duration};
pub(crate) use number::{count, size};
pub(crate) use policy::failure_policy;
pub(crate) use rate::{Rate, ShortLimit, rate, short_limit};

/// What is wrong with a text, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) message: String,
    pub(crate) advice: String,
}

impl Advice {
    fn new(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { message: message.into(), advice: advice.into() }
    }
}

#[cfg(test)]
mod tests;
