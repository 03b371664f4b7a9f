//! Random limits with every algorithm, with parameters for which rounding matters.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{AlgorithmKind, Limit, LimitBuilder};

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 366 * 86_400 * SECOND;

/// `count` per `period` nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) count: u32,
    pub(crate) period: u64,
}

impl Rate {
    pub(crate) fn limit(self) -> LimitBuilder {
        Limit::per(self.count, Duration::from_nanos(self.period))
    }
}

/// Returns rates from one per year to one per nanosecond, with and without whole nanoseconds per token.
pub(crate) fn rates() -> impl Strategy<Value = Rate> {
    let known = [
        (1, SECOND),
        (7, SECOND),
        (10, SECOND),
        (60, 60 * SECOND),
        (3, 10 * SECOND),
        (700_000_000, SECOND),
        (999_999_999, SECOND),
        (1_000_000_000, SECOND),
        (600_000_000, SECOND),
        (2, 3),
        (3, 7),
        (1, 1),
        (1, 2),
        (1, YEAR),
        (11, YEAR),
        (1_000_000_000, YEAR),
        (999_999_937, YEAR - 1),
    ];
    let any = (0..30_u32, 0..55_u32, any::<u64>()).prop_map(|(count_bits, period_bits, noise)| {
        let count = (1 << count_bits) + (noise >> 32) % (1 << count_bits);
        let period = (1 << period_bits) + (noise << 8 >> 8) % (1 << period_bits);
        let count = count.min(1_000_000_000);
        let period = period.clamp(count, YEAR);
        Rate { count: u32::try_from(count).expect("a billion at most"), period }
    });
    prop_oneof![
        3 => proptest::sample::select(known.to_vec()).prop_map(|(count, period)| Rate { count, period }),
        1 => any,
    ]
}

/// Returns the capacity closest to `wish` that takes less than five years to fill.
pub(crate) fn capacity(rate: Rate, wish: u32) -> u32 {
    let most = u128::from(5 * YEAR) * u128::from(rate.count) / u128::from(rate.period);
    u32::try_from(most).unwrap_or(u32::MAX).min(wish).clamp(1, 1_000_000_000)
}

pub(crate) fn bursts() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), 1..=20_u32, 1..=1_000_000_000_u32]
}

/// Returns a rate and a capacity.
pub(crate) fn flows() -> impl Strategy<Value = (Rate, u32)> {
    (rates(), bursts()).prop_map(|(rate, burst)| (rate, capacity(rate, burst)))
}

/// Returns small counts, so that traces reach the limit, and periods from a few nanoseconds to a year.
pub(crate) fn windows() -> impl Strategy<Value = Rate> {
    let period = prop_oneof![
        Just(SECOND),
        Just(3600 * SECOND),
        Just(YEAR),
        Just(7),
        7..1_000_000_u64,
        SECOND..100 * SECOND,
    ];
    let count = prop_oneof![4 => 1..=12_u32, 1 => 1..=100_000_u32];
    (count, period).prop_map(|(count, period)| Rate { count, period })
}

/// Returns a limit with this algorithm. `amount` and `option` determine the parameters that only some algorithms have.
fn limit_with(kind: AlgorithmKind, rate: Rate, amount: u32, option: bool) -> LimitBuilder {
    let burst = capacity(rate, amount);
    let limit = rate.limit();
    match kind {
        AlgorithmKind::TokenBucket => limit.burst(burst),
        AlgorithmKind::IntervalBucket => limit.burst(burst).refill_by_interval(),
        AlgorithmKind::LeakyMeter => limit.burst(burst).leaky_bucket(),
        AlgorithmKind::LeakyQueue => limit.queue(burst),
        AlgorithmKind::FixedWindow if option => limit.fixed_window().anchored(),
        AlgorithmKind::FixedWindow => limit.fixed_window(),
        AlgorithmKind::SlidingLog if option => limit.sliding_log().count_denied(),
        AlgorithmKind::SlidingLog if amount.is_multiple_of(3) => {
            let gap = rate.period / 2 * u64::from(1 + amount % 5) + 1;
            limit.sliding_log().min_gap(Duration::from_nanos(gap.min(YEAR)))
        }
        AlgorithmKind::SlidingLog => limit.sliding_log(),
        AlgorithmKind::SlidingCounter => limit.sliding_counter(1 + amount % 7),
        AlgorithmKind::SlidingWindow => limit.sliding_window(),
        AlgorithmKind::Gcra => limit.burst(burst).gcra(),
        AlgorithmKind::SmoothBursty => limit.burst(burst).smooth(),
        AlgorithmKind::SmoothWarmingUp => {
            limit.warm_up(Duration::from_nanos(rate.period)).cold_factor(1 + amount % 5)
        }
        AlgorithmKind::Concurrency => Limit::concurrent(rate.count).lease(Duration::from_nanos(rate.period)),
        new => unreachable!("no limit is generated for {new:?}"),
    }
}

pub(crate) fn build(limit: LimitBuilder) -> Limit {
    limit.build("limit").expect("valid parameters")
}

/// Returns limits with any algorithm and small parameters, as builders.
pub(crate) fn builders() -> impl Strategy<Value = LimitBuilder> {
    proptest::sample::select(AlgorithmKind::ALL.to_vec()).prop_flat_map(builders_of)
}

/// Returns limits with this algorithm and small parameters, as builders.
pub(crate) fn builders_of(kind: AlgorithmKind) -> impl Strategy<Value = LimitBuilder> {
    (windows(), 1..=12_u32, any::<bool>()).prop_map(move |(rate, amount, option)| {
        // At most one per nanosecond. Windows allow more, but one rule is simpler than two.
        let count = rate.count.min(u32::try_from(rate.period).unwrap_or(u32::MAX));
        limit_with(kind, Rate { count, ..rate }, amount, option)
    })
}
