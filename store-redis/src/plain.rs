//! Buckets whose numbers are small enough for Lua's, and how the short scripts are told of them.

use tollgate_core::{AlgorithmKind, Limit, Time};

use crate::flow_value::{double, numbers_mark};
use crate::settings::Settings;

/// Spans below this are exact in a Lua number, and so is any sum of a few of them.
pub(crate) const EXACT: u64 = 1 << 51;

/// The numbers of a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The units of a token, and how many of them fit.
    pub(crate) token: u64,
    pub(crate) room: u64,
    pub(crate) period: u64,
    /// Nanoseconds of a period beyond its units; none at an even rate.
    pub(crate) excess: u64,
    mark: u64,
}

impl Bucket {
    /// `None` if the limit is not one for the short scripts.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let fits = matches!(
            limit.kind(),
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra
        );
        // None if the limit blocks.
        let flow = limit.as_flow().filter(|_| fits)?;
        let (count, period) = (flow.count(), flow.period());
        let (token, excess) = (period / count, period % count);
        let room = token.checked_mul(limit.capacity().into()).filter(|room| *room < EXACT)?;
        // An uneven rate counts from the begin of the period, and multiplies by what a period is too long.
        let narrow = excess == 0
            || (period < EXACT
                && period.is_multiple_of(1_000_000_000)
                && period.checked_mul(excess).is_some_and(|product| product < EXACT));
        narrow.then_some(Self { token, room, period, excess, mark: numbers_mark(flow.digest()) })
    }

    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// What the scripts are told, after the units of what is asked for: the room, the mark, and of an uneven rate the rest.
    pub(crate) fn write(&self, input: &mut Vec<u8>) {
        let mut mark = double(self.mark);
        if self.excess > 0 {
            // Negative: the sign is the highest bit.
            mark[7] |= 0x80;
        }
        input.extend_from_slice(&double(self.room));
        input.extend_from_slice(&mark);
        if self.excess > 0 {
            input.extend_from_slice(&double(self.period));
            input.extend_from_slice(&double(self.excess));
        }
    }
}

/// An instant as the scripts take it: microseconds and nanoseconds.
pub(crate) fn instant(time: Time) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&double(time.nanos() / 1_000));
    bytes[8..].copy_from_slice(&double(time.nanos() % 1_000));
    bytes
}

/// The short scripts do not look at the end of time.
pub(crate) fn ends_in_time(settings: &Settings, now: Time) -> bool {
    settings.counts(now).is_none_or(|now| now.nanos() < Time::MAX.nanos() - 2 * EXACT)
}

/// What a short script is told, and the time if it is the caller's that counts.
pub(crate) fn with_time(input: Vec<u8>, settings: &Settings, now: Time) -> Vec<Vec<u8>> {
    let mut arguments = vec![input];
    arguments.extend(settings.counts(now).map(|now| instant(now).to_vec()));
    arguments
}
