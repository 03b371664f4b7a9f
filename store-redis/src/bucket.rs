//! Buckets whose parameters fit Lua's numbers, and their encoding for the `bucket_*.lua` scripts.

use tollgate_core::{AlgorithmKind, Limit, Time};

use crate::flow_value::{double, parameters_mark};
use crate::timing::Timing;

/// Spans below this are exact in a Lua number, and so is any sum of a few of them.
pub(crate) const EXACT: u64 = 1 << 51;

/// The parameters of a bucket. Core's `Rate` defines units and excess.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The units of one token.
    pub(crate) token: u64,
    /// The capacity in units.
    pub(crate) room: u64,
    pub(crate) period: u64,
    /// The nanoseconds of a period beyond its units. Zero if a unit is a nanosecond.
    pub(crate) excess: u64,
    mark: u64,
}

impl Bucket {
    /// Returns the parameters of a limit. `None` if the `bucket_*.lua` scripts cannot decide it.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let fits = matches!(
            limit.kind(),
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra
        );
        // `as_flow` returns `None` if the limit blocks.
        let flow = limit.as_flow().filter(|_| fits)?;
        let (count, period) = (flow.count(), flow.period());
        let (token, excess) = (period / count, period % count);
        let room = token.checked_mul(limit.capacity().into()).filter(|room| *room < EXACT)?;
        // With an excess, the scripts count from the start of the period, and multiply spans by the excess.
        let is_exact = excess == 0
            || (period < EXACT
                && period.is_multiple_of(1_000_000_000)
                && period.checked_mul(excess).is_some_and(|product| product < EXACT));
        is_exact.then_some(Self { token, room, period, excess, mark: parameters_mark(flow.digest()) })
    }

    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// Appends the parameters: the room and the mark; with an excess, a negative mark, and the period and the excess.
    pub(crate) fn write(&self, input: &mut Vec<u8>) {
        let mut mark = double(self.mark);
        if self.excess > 0 {
            // The sign is the highest bit.
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

/// Encodes an instant: microseconds, and the nanoseconds beyond them.
pub(crate) fn instant(time: Time) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&double(time.nanos() / 1_000));
    bytes[8..].copy_from_slice(&double(time.nanos() % 1_000));
    bytes
}

/// Returns whether the time is far enough from [`Time::MAX`], which the `bucket_*.lua` scripts do not handle.
pub(crate) fn is_time_in_range(timing: &Timing, now: Time) -> bool {
    timing.caller_time(now).is_none_or(|now| now.nanos() < Time::MAX.nanos() - 2 * EXACT)
}

/// Returns the arguments of a script: its input, and the time if the caller's clock decides.
pub(crate) fn arguments(input: Vec<u8>, timing: &Timing, now: Time) -> Vec<Vec<u8>> {
    let mut arguments = vec![input];
    arguments.extend(timing.caller_time(now).map(|now| instant(now).to_vec()));
    arguments
}
