//! Compares the smooth limiter that warms up with the classic definition in floating point: a permit costs the stable
//! interval up to a threshold of stored permits, and its cost rises linearly above it.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Time};

use super::limits::{Rate, build, rates};
use super::trace::{Model, Operation, START, cases, nanos, run, steps};

/// How far one take may be rounded, in nanoseconds: one nanosecond of idle time at the price of a cold limiter, and one
/// for each of the few divisions.
const PER_TAKE: f64 = 10.0;

struct Warming {
    stable: f64,
    warm_up: f64,
    threshold: f64,
    most: f64,
    slope: f64,
    stored: f64,
    /// When the next ticket is free, since the start of the trace.
    free: f64,
    /// The largest possible sum of rounding errors.
    slack: f64,
}

#[expect(clippy::cast_precision_loss, reason = "spans of days, which doubles hold exactly")]
fn since_start(now: u64) -> f64 {
    (now - START) as f64
}

#[expect(clippy::cast_precision_loss, reason = "spans of days, which doubles hold exactly")]
fn span(span: Duration) -> f64 {
    nanos(span) as f64
}

impl Warming {
    fn cold(rate: Rate, warm_up: Duration, cold: u32) -> Self {
        let stable = span(Duration::from_nanos(rate.period)) / f64::from(rate.count);
        let (warm_up, cold) = (span(warm_up), f64::from(cold));
        let threshold = 0.5 * warm_up / stable;
        let most = threshold + 2.0 * warm_up / (stable + cold * stable);
        let slope = (cold * stable - stable) / (most - threshold);
        Self { stable, warm_up, threshold, most, slope, stored: most, free: 0.0, slack: PER_TAKE }
    }

    fn resync(&mut self, now: f64) {
        if now > self.free {
            let per_permit = self.warm_up / self.most;
            self.stored = (self.stored + (now - self.free) / per_permit).min(self.most);
            self.free = now;
        }
    }

    /// Returns what `taken` of the stored permits cost: the area under the curve.
    fn price(&self, taken: f64) -> f64 {
        let height = |above: f64| self.stable + above * self.slope;
        let above = (self.stored - self.threshold).max(0.0);
        let from_above = above.min(taken);
        from_above * (height(above) + height(above - from_above)) / 2.0 + (taken - from_above) * self.stable
    }

    fn spend(&mut self, permits: f64) {
        let taken = permits.min(self.stored);
        self.free += self.price(taken) + (permits - taken) * self.stable;
        self.stored -= taken;
        self.slack += PER_TAKE;
    }
}

impl Model for Warming {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        let present = since_start(now);
        self.resync(present);
        if let Some((cost, max_wait)) = operation.as_take() {
            let max_wait = Duration::from_nanos(max_wait);
            let start = if decision.is_allowed() {
                prop_assert_eq!(decision.granted(), cost, "any cost passes once the ticket is free");
                prop_assert!(decision.start_after() <= max_wait);
                decision.start_after()
            } else {
                max_wait + decision.retry_after().expect("a retry can succeed")
            };
            let off = (span(start) - (self.free - present)).abs();
            prop_assert!(off <= self.slack, "starts {} ns off", off);
        } else {
            prop_assert!(decision.is_allowed());
        }
        match operation {
            Operation::Refund(cost) => {
                // Only debt can be refunded.
                self.free = (self.free - f64::from(cost) * self.stable).max(present);
                self.slack += PER_TAKE;
            }
            Operation::Reset => (self.stored, self.free) = (self.most, present),
            Operation::Take(_) | Operation::Reserve(..) | Operation::TakeUpTo(_) | Operation::Debit(_) => {
                if decision.granted() > 0 {
                    self.spend(decision.granted().into());
                }
            }
        }
        let rounded = self.slack * self.most / self.warm_up;
        let remaining = f64::from(decision.remaining());
        prop_assert!(remaining <= self.stored + rounded, "{} of {}", remaining, self.stored);
        prop_assert!(remaining + 1.0 >= self.stored - rounded, "{} of {}", remaining, self.stored);
        let reset = self.free - present + (self.most - self.stored) * self.warm_up / self.most;
        let off = (span(decision.reset_after()) - reset).abs();
        prop_assert!(off <= 2.0 * self.slack, "reset {} ns off", off);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn warms_up_like_the_classic_limiter(
        count in 1..=1000_u32,
        period in 1_000_000..60_000_000_000_u64,
        permits in 1..50_u32,
        cold in 1..=5_u32,
        steps in steps(40),
    ) {
        let rate = Rate { count, period };
        // A warm-up time in which about this many permits are stored.
        let warm_up = Duration::from_nanos(period / u64::from(count) * u64::from(permits));
        let limit = build(rate.limit().warm_up(warm_up).cold_factor(cold));
        run(&limit, &steps, Warming::cold(rate, warm_up, cold))?;
    }

    /// A permit costs at least the stable interval, cold or warm. So the n-th take starts n - 1 intervals after the
    /// first at the earliest, for any rate and at any times.
    #[test]
    fn is_never_faster_than_its_rate(
        rate in rates(),
        cold in 1..=5_u32,
        pauses in proptest::collection::vec(0..4_u64, 1..200),
    ) {
        let interval = rate.period / u64::from(rate.count);
        let warm_up = Duration::from_nanos((interval * 20).clamp(1, 366 * 86_400 * 1_000_000_000));
        let limit = build(rate.limit().warm_up(warm_up).cold_factor(cold));
        let (mut state, mut now, mut granted) = (State::default(), START, 0_u32);
        for pause in pauses {
            now += pause * interval / 3;
            granted += state.apply(&limit.charge("k"), Time::from_nanos(now)).granted();
            let (taken, elapsed) = (u128::from(granted.max(1) - 1), u128::from(now - START));
            // The last take may be early, by less than one token of the rational rate.
            let earned = elapsed * u128::from(rate.count) + u128::from(rate.period);
            prop_assert!(taken * u128::from(rate.period) < earned, "{} granted in {} ns", granted, elapsed);
        }
    }
}

/// At a billion per second, warm from the start (cold factor 1), takes without a pause are denied.
#[test]
fn a_permit_of_less_than_a_nanosecond_of_idle_time_still_costs() {
    let limit = build(Limit::per_second(1_000_000_000).warm_up(Duration::from_secs(1)).cold_factor(1));
    let mut state = State::default();
    let allowed = (0..100).filter(|_| state.apply(&limit.charge("k"), Time::from_nanos(START)).is_allowed());
    assert_eq!(allowed.count(), 1, "the second take waits for its ticket");
}
