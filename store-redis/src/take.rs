//! Plain takes that the short scripts decide: which file in `scripts/take` decides a take, and its numbers.

use tollgate_core::{Action, AlgorithmKind, Charge, LeaseId, Time};

use crate::flow_value::double;
use crate::script_limit::ScriptLimit;
use crate::timing::Timing;

/// Spans below this are exact in a Lua number, and so is any sum of a few of them.
pub(crate) const EXACT: u64 = 1 << 51;
/// Products below this are exact in a Lua number.
const EXACT_PRODUCT: u64 = 1 << 53;

/// What a take is from. The short scripts know it by its discriminant.
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
        if !charge.action().is_plain_take() || charge.cost() == 0 {
            return None;
        }
        if charge.cost() > parameters.capacity && parameters.kind != AlgorithmKind::SmoothBursty {
            return None;
        }
        let ScriptLimit { form, token, block, numbers } = ScriptLimit::of(charge.limit())?;
        if form == TakeForm::SlidingWindow {
            // The count is weighted by a time in microseconds, or nanoseconds if the caller's clock decides.
            let units = if timing.caller_clock { parameters.period } else { parameters.period / 1_000 };
            let product = u64::from(parameters.count).checked_mul(units);
            product.filter(|product| *product < EXACT_PRODUCT)?;
        }
        let cost = token.checked_mul(charge.cost().into()).filter(|cost| *cost < EXACT)?;
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

    /// Returns the numbers of a flow with an even rate and without a block time.
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
