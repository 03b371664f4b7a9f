//! The limiter that warms up beside the classic definition in floating point: a permit costs the stable
//! interval up to a threshold of stored permits, and rises linearly from there.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Time};

use super::limits::{Rate, build, rates};
use super::token_bucket::nanos;
use super::trace::{Ask, BEGIN, Model, cases, run, steps};

/// How far one take may be rounded, in nanoseconds: one of idle time, priced at most at the cold end of the
/// curve, and one for each of the few divisions.
const PER_TAKE: f64 = 10.0;

struct Warming {
    stable: f64,
    warm_up: f64,
    threshold: f64,
    most: f64,
    slope: f64,
    stored: f64,
    /// When the next ticket is free, since the begin.
    free: f64,
    /// How far roundings may have added up.
    slack: f64,
}

#[expect(clippy::cast_precision_loss, reason = "spans of days, which doubles hold exactly")]
fn since_begin(now: u64) -> f64 {
    (now - BEGIN) as f64
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

    /// What `taken` of the stored permits cost: the area under the curve.
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
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        let present = since_begin(now);
        self.resync(present);
        if ask.takes() {
            let (cost, patience) = match ask {
                Ask::Take(cost) | Ask::TakeUpTo(cost) => (cost, Duration::ZERO),
                Ask::Reserve(cost, patience) => (cost, patience),
                _ => unreachable!("those are the takes"),
            };
            let start = if seen.is_allowed() {
                prop_assert_eq!(seen.granted(), cost, "any cost passes once the ticket is free");
                prop_assert!(seen.start_after() <= patience);
                seen.start_after()
            } else {
                patience + seen.retry_after().expect("a wait cures it")
            };
            let off = (span(start) - (self.free - present)).abs();
            prop_assert!(off <= self.slack, "starts {} ns off", off);
        } else {
            prop_assert!(seen.is_allowed());
        }
        match ask {
            Ask::Refund(cost) => {
                // Only debt can be given back.
                self.free = (self.free - f64::from(cost) * self.stable).max(present);
                self.slack += PER_TAKE;
            }
            Ask::Forget => (self.stored, self.free) = (self.most, present),
            _ if seen.granted() > 0 => self.spend(seen.granted().into()),
            _ => {}
        }
        let rounded = self.slack * self.most / self.warm_up;
        let remaining = f64::from(seen.remaining());
        prop_assert!(remaining <= self.stored + rounded, "{} of {}", remaining, self.stored);
        prop_assert!(remaining + 1.0 >= self.stored - rounded, "{} of {}", remaining, self.stored);
        let reset = self.free - present + (self.most - self.stored) * self.warm_up / self.most;
        let off = (span(seen.reset_after()) - reset).abs();
        prop_assert!(off <= 2.0 * self.slack, "reset {} ns off", off);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn warms_up_as_the_classic_limiter(
        count in 1..=1000_u32,
        period in 1_000_000..60_000_000_000_u64,
        permits in 1..50_u32,
        cold in 1..=5_u32,
        steps in steps(40),
    ) {
        let rate = Rate { count, period };
        // So long that about so many permits are stored.
        let warm_up = Duration::from_nanos(period / u64::from(count) * u64::from(permits));
        let limit = build(rate.limit().warm_up(warm_up).cold_factor(cold));
        run(&limit, &steps, Warming::cold(rate, warm_up, cold))?;
    }

    /// A permit costs at least the stable interval, cold or warm, so the n-th cannot start earlier than
    /// n - 1 intervals after the first: at any rate, and asked at any time.
    #[test]
    fn is_never_faster_than_its_rate(
        rate in rates(),
        cold in 1..=5_u32,
        pauses in proptest::collection::vec(0..4_u64, 1..200),
    ) {
        let interval = rate.period / u64::from(rate.count);
        let warm_up = Duration::from_nanos((interval * 20).clamp(1, 366 * 86_400 * 1_000_000_000));
        let limit = build(rate.limit().warm_up(warm_up).cold_factor(cold));
        let (mut state, mut now, mut passed) = (State::default(), BEGIN, 0_u32);
        for pause in pauses {
            now += pause * interval / 3;
            passed += state.apply(&limit.charge("k"), Time::from_nanos(now)).granted();
            let (taken, elapsed) = (u128::from(passed.max(1) - 1), u128::from(now - BEGIN));
            // The last one may be up to a token early: less than one from the rational rate.
            let earned = elapsed * u128::from(rate.count) + u128::from(rate.period);
            prop_assert!(taken * u128::from(rate.period) < earned, "{} passed in {} ns", passed, elapsed);
        }
    }
}

/// A billion a second, warm from the start (cold factor 1): whoever takes without a pause is stopped.
#[test]
fn a_permit_of_less_than_a_nanosecond_of_idle_time_still_costs() {
    let limit = build(Limit::per_second(1_000_000_000).warm_up(Duration::from_secs(1)).cold_factor(1));
    let mut state = State::default();
    let passed = (0..100).filter(|_| state.apply(&limit.charge("k"), Time::from_nanos(BEGIN)).is_allowed());
    assert_eq!(passed.count(), 1, "one passes, and the next waits for its ticket");
}
