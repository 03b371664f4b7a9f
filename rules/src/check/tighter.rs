//! Whether a limit can never deny anything, because another one denies it before.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Limit};

/// Returns whether `loose` can never deny a request that passes `tight`, if each request costs both the same and both
/// count the same requests. It may say no although it cannot: warnings are about what is certain.
pub(super) fn never_binds(loose: &Limit, tight: &Limit) -> bool {
    let Some(allowed) = Most::of(tight) else { return false };
    if loose.parameters().count_denied || loose.parameters().min_gap > 0 {
        return false;
    }
    let (count, period) = (f64::from(loose.count()), loose.period().as_secs_f64());
    if BUCKETS.contains(&loose.kind()) {
        allowed.at_once <= f64::from(loose.capacity()) && allowed.per_second <= count / period
    } else {
        EXACT_WINDOWS.contains(&loose.kind()) && allowed.within(loose.period()) <= count
    }
}

const BUCKETS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::Gcra, AlgorithmKind::LeakyMeter];
/// Windows that deny only what exceeds their count.
const EXACT_WINDOWS: [AlgorithmKind; 2] = [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog];
/// Windows that estimate what has passed.
const ESTIMATES: [AlgorithmKind; 2] = [AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingCounter];

/// The most that a limit lets pass: `at_once`, and then `per_second`.
struct Most {
    at_once: f64,
    per_second: f64,
}

impl Most {
    fn of(limit: &Limit) -> Option<Self> {
        let (count, capacity) = (f64::from(limit.count()), f64::from(limit.capacity()));
        let per_second = count / limit.period().as_secs_f64();
        let kind = limit.kind();
        if BUCKETS.contains(&kind) {
            Some(Self { at_once: capacity, per_second })
        } else if kind == AlgorithmKind::IntervalBucket {
            // A full bucket just before it is refilled.
            Some(Self { at_once: capacity + count, per_second })
        } else if EXACT_WINDOWS.contains(&kind) || ESTIMATES.contains(&kind) {
            // Around a boundary between two windows.
            Some(Self { at_once: 2.0 * count, per_second })
        } else {
            None
        }
    }

    fn within(&self, period: Duration) -> f64 {
        self.at_once + self.per_second * period.as_secs_f64()
    }
}
