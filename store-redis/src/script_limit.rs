//! Limits whose parameters fit the numbers of the short scripts, and these numbers.

use tollgate_core::{AlgorithmKind, Limit};

use crate::flow_value::parameters_mark;
use crate::take::{EXACT, TakeForm};

/// A limit whose parameters fit the numbers of the short scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptLimit {
    pub(crate) form: TakeForm,
    /// The units of a token.
    pub(crate) token: u64,
    /// The block time.
    pub(crate) block: u64,
    /// The other parameters that the form has.
    pub(crate) numbers: [u64; 5],
}

impl ScriptLimit {
    /// Returns `None` if no short script can decide charges on this limit, except on leases.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let parameters = limit.parameters();
        let (block, period) = (parameters.block, parameters.period);
        let (count, capacity) = (u64::from(parameters.count), u64::from(parameters.capacity));
        // Scripts know the time in microseconds, and nanoseconds separately.
        let is_aligned = period.is_multiple_of(1_000);
        let (form, token, numbers) = match parameters.kind {
            AlgorithmKind::TokenBucket
            | AlgorithmKind::LeakyMeter
            | AlgorithmKind::LeakyQueue
            | AlgorithmKind::Gcra
            | AlgorithmKind::SmoothBursty => {
                let (token, excess) = flow_rate(count, period)?;
                let room = token.checked_mul(capacity).filter(|units| *units < EXACT)?;
                let form = if block > 0 { TakeForm::BlockingFlow } else { TakeForm::Flow };
                let mark = parameters_mark(parameters.digest);
                let is_smooth = parameters.kind == AlgorithmKind::SmoothBursty;
                // The scripts need the period only for an excess.
                let period = if excess > 0 { period } else { 0 };
                (form, token, [room, mark, is_smooth.into(), period, excess])
            }
            AlgorithmKind::IntervalBucket => {
                let refill = count.min(capacity);
                capacity.div_ceil(refill).checked_mul(period).filter(|span| *span < EXACT)?;
                (TakeForm::IntervalBucket, 1, [capacity, refill, period, 0, 0])
            }
            AlgorithmKind::FixedWindow if period < EXACT && (is_aligned || parameters.anchored) => {
                (TakeForm::FixedWindow, 1, [count, period, parameters.anchored.into(), 0, 0])
            }
            AlgorithmKind::SlidingWindow if period < EXACT / 2 && is_aligned => {
                (TakeForm::SlidingWindow, 1, [count, period, 0, 0, 0])
            }
            AlgorithmKind::SlidingCounter if (1_000_000..EXACT / 2).contains(&period) && is_aligned => {
                (TakeForm::SlidingCounter, 1, [count, period, parameters.sub_buckets.into(), 0, 0])
            }
            AlgorithmKind::SlidingLog
                if period < EXACT && parameters.min_gap == 0 && !parameters.count_denied =>
            {
                (TakeForm::SlidingLog, 1, [count, period, 0, 0, 0])
            }
            _ => return None,
        };
        (block < EXACT).then_some(Self { form, token, block, numbers })
    }
}

/// Returns the rate of a flow, as core's `Rate` has it, if Lua's numbers hold it exactly: the units of one token, and the
/// nanoseconds of a period beyond its units. These are zero if a unit is a nanosecond.
fn flow_rate(count: u64, period: u64) -> Option<(u64, u64)> {
    let (token, excess) = (period / count, period % count);
    // With an excess, the scripts count from the start of the period, and multiply spans by the excess.
    let is_exact = excess == 0
        || (period < EXACT
            && period.is_multiple_of(1_000)
            && period.checked_mul(excess).is_some_and(|product| product < EXACT));
    is_exact.then_some((token, excess))
}
