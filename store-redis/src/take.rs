//! Plain takes that the short scripts decide: which file in `scripts/take` decides a take, and its numbers.

use tollgate_core::{Action, AlgorithmKind, Charge, LeaseId, Time};

use crate::flow_value::{double, parameters_mark};
use crate::timing::Timing;

/// Spans below this are exact in a Lua number, and so is any sum of a few of them.
pub(crate) const EXACT: u64 = 1 << 51;
/// Products below this are exact in a Lua number.
const EXACT_PRODUCT: u64 = 1 << 53;

/// What a take is from. `takes.lua` knows it by its discriminant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeForm {
    Flow = 1,
    BlockingFlow = 2,
    IntervalBucket = 3,
    FixedWindow = 4,
    SlidingWindow = 5,
    SlidingCounter = 6,
    SlidingLog = 7,
    /// Decided by `check.lua` only.
    Lease = 8,
}

impl TakeForm {
    pub(crate) const ALL: [Self; 8] = [
        Self::Flow,
        Self::BlockingFlow,
        Self::IntervalBucket,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
        Self::SlidingLog,
        Self::Lease,
    ];
}

/// A plain take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) form: TakeForm,
    /// The cost, the block time, and the parameters that the form has.
    numbers: [u64; 7],
}

impl Take {
    /// The bytes of an encoded take.
    pub(crate) const SIZE: usize = 1 + 7 * 8;

    /// Returns the take of a charge. `None` if no short script can decide it.
    pub(crate) fn of(charge: &Charge<'_>, timing: &Timing) -> Option<Self> {
        let parameters = charge.limit().parameters();
        let (cost, block, period) = (u64::from(charge.cost()), parameters.block, parameters.period);
        let (count, capacity) = (u64::from(parameters.count), u64::from(parameters.capacity));
        if !charge.action().is_plain_take() || cost == 0 || block >= EXACT {
            return None;
        }
        let is_smooth = parameters.kind == AlgorithmKind::SmoothBursty;
        if cost > capacity && !is_smooth {
            return None;
        }
        // Scripts know the time in microseconds, and nanoseconds separately.
        let is_aligned = period.is_multiple_of(1_000);
        let (form, cost, numbers) = match parameters.kind {
            AlgorithmKind::TokenBucket
            | AlgorithmKind::LeakyMeter
            | AlgorithmKind::LeakyQueue
            | AlgorithmKind::Gcra
            | AlgorithmKind::SmoothBursty => {
                let rate = FlowRate::of(count, period)?;
                let room = rate.units(capacity)?;
                let form = if block > 0 { TakeForm::BlockingFlow } else { TakeForm::Flow };
                let mark = parameters_mark(parameters.digest);
                (form, rate.units(cost)?, [room, mark, is_smooth.into(), rate.period, rate.excess])
            }
            AlgorithmKind::IntervalBucket => {
                let refill = count.min(capacity);
                capacity.div_ceil(refill).checked_mul(period).filter(|span| *span < EXACT)?;
                (TakeForm::IntervalBucket, cost, [capacity, refill, period, 0, 0])
            }
            AlgorithmKind::FixedWindow if period < EXACT && (is_aligned || parameters.anchored) => {
                (TakeForm::FixedWindow, cost, [count, period, parameters.anchored.into(), 0, 0])
            }
            AlgorithmKind::SlidingWindow if period < EXACT / 2 && is_aligned => {
                // The count is weighted by a time in microseconds, or nanoseconds if the caller's clock decides.
                let units = if timing.caller_clock { period } else { period / 1_000 };
                count.checked_mul(units).filter(|product| *product < EXACT_PRODUCT)?;
                (TakeForm::SlidingWindow, cost, [count, period, 0, 0, 0])
            }
            AlgorithmKind::SlidingCounter if (1_000_000..EXACT / 2).contains(&period) && is_aligned => {
                let parts = u64::from(parameters.sub_buckets);
                (TakeForm::SlidingCounter, cost, [count, period, parts, 0, 0])
            }
            AlgorithmKind::SlidingLog
                if period < EXACT && parameters.min_gap == 0 && !parameters.count_denied =>
            {
                (TakeForm::SlidingLog, cost, [count, period, 0, 0, 0])
            }
            _ => return None,
        };
        let mut all = [cost, block, 0, 0, 0, 0, 0];
        all[2..].copy_from_slice(&numbers);
        Some(Self { form, numbers: all })
    }

    /// Returns what a charge does with a lease. `None` if `check.lua` cannot decide it.
    pub(crate) fn of_lease(charge: &Charge<'_>) -> Option<Self> {
        let (parameters, action) = (charge.limit().parameters(), charge.action());
        let is_supported = match action {
            Action::Take { .. } => action.is_plain_take() && (1..=parameters.count).contains(&charge.cost()),
            Action::Renew | Action::Release => true,
            _ => false,
        };
        let fits = parameters.kind == AlgorithmKind::Concurrency
            && parameters.block == 0
            && parameters.lease < EXACT
            && charge.lease() != LeaseId::ANONYMOUS;
        (is_supported && fits).then(|| {
            let (cost, count) = (charge.cost().into(), parameters.count.into());
            let numbers = [cost, 0, count, parameters.lease, action.code().into(), 0, 0];
            Self { form: TakeForm::Lease, numbers }
        })
    }

    pub(crate) fn write(&self, input: &mut Vec<u8>) {
        input.push(self.form as u8);
        self.write_numbers(input);
    }

    /// Returns the numbers of a flow whose block time, period and excess are zero.
    pub(crate) fn even_flow(&self) -> Option<[u64; 4]> {
        match (self.form, self.numbers) {
            (TakeForm::Flow, [cost, 0, room, mark, is_smooth, 0, 0]) => Some([cost, room, mark, is_smooth]),
            _ => None,
        }
    }

    pub(crate) fn write_numbers(&self, input: &mut Vec<u8>) {
        for number in self.numbers {
            input.extend_from_slice(&double(number));
        }
    }
}

/// The rate of a flow, as core's `Rate` has it, if Lua's numbers hold it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowRate {
    /// The units of one token.
    pub(crate) token: u64,
    pub(crate) period: u64,
    /// The nanoseconds of a period beyond its units. Zero if a unit is a nanosecond.
    pub(crate) excess: u64,
}

impl FlowRate {
    pub(crate) fn of(count: u64, period: u64) -> Option<Self> {
        let (token, excess) = (period / count, period % count);
        // With an excess, the scripts count from the start of the period, and multiply spans by the excess.
        let is_exact = excess == 0
            || (period < EXACT
                && period.is_multiple_of(1_000)
                && period.checked_mul(excess).is_some_and(|product| product < EXACT));
        is_exact.then_some(Self { token, period, excess })
    }

    /// Returns the units of so many tokens, if they are exact.
    pub(crate) fn units(&self, tokens: u64) -> Option<u64> {
        self.token.checked_mul(tokens).filter(|units| *units < EXACT)
    }
}

/// Encodes an instant: microseconds, and the nanoseconds beyond them.
pub(crate) fn instant(time: Time) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&double(time.nanos() / 1_000));
    bytes[8..].copy_from_slice(&double(time.nanos() % 1_000));
    bytes
}

/// Returns whether the time is far enough from both ends of time, which the short scripts do not handle.
pub(crate) fn is_time_in_range(timing: &Timing, now: Time) -> bool {
    let range = 2 * EXACT..Time::MAX.nanos() - 2 * EXACT;
    timing.caller_time(now).is_none_or(|now| range.contains(&now.nanos()))
}

/// Returns the arguments of a script: its input, and the time if the caller's clock decides.
pub(crate) fn arguments(input: Vec<u8>, timing: &Timing, now: Time) -> Vec<Vec<u8>> {
    let mut arguments = vec![input];
    arguments.extend(timing.caller_time(now).map(|now| instant(now).to_vec()));
    arguments
}
