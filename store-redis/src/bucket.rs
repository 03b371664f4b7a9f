//! Buckets whose parameters fit Lua's numbers, and their encoding for `bucket_debits.lua`.

use tollgate_core::{AlgorithmKind, Limit};

use crate::flow_value::{double, parameters_mark};
use crate::take::FlowRate;

/// The parameters of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) rate: FlowRate,
    /// The capacity in units.
    room: u64,
    mark: u64,
}

impl Bucket {
    /// Returns the parameters of a limit. `None` if `bucket_debits.lua` cannot apply its debits.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let fits = matches!(
            limit.kind(),
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra
        );
        // `as_flow` returns `None` if the limit blocks.
        let flow = limit.as_flow().filter(|_| fits)?;
        let rate = FlowRate::of(flow.count(), flow.period())?;
        Some(Self { rate, room: rate.units(limit.capacity().into())?, mark: parameters_mark(flow.digest()) })
    }

    /// Appends the parameters: the room and the mark; with an excess, a negative mark, and the period and the excess.
    pub(crate) fn write(&self, input: &mut Vec<u8>) {
        let (mut mark, FlowRate { period, excess, .. }) = (double(self.mark), self.rate);
        if excess > 0 {
            // The sign is the highest bit.
            mark[7] |= 0x80;
        }
        input.extend_from_slice(&double(self.room));
        input.extend_from_slice(&mark);
        if excess > 0 {
            input.extend_from_slice(&double(period));
            input.extend_from_slice(&double(excess));
        }
    }
}
