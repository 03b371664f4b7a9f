//! Smooth limiter that warms up: like the smooth bursty limiter, but stored permits mean that the limiter is cold, and
//! taking them is slow. From cold, the rate rises to its configured value over the warm-up time.
//!
//! With the stable interval T, the cold factor k and the warm-up time W, the classic definition is: a permit costs T up
//! to a threshold of W/2T stored permits. Above it, the cost rises linearly to k·T at the maximum of W/2T + 2W/(1+k)T.
//! An idle limiter goes from empty to the maximum in W.
//!
//! This implementation keeps stored permits as the idle time that stored them, from 0 to W. One permit is then worth
//! T·2(1+k)/(5+k) of idle time, and the threshold is W·(1+k)/(5+k). The time that taking permits costs is the
//! difference of a function of the stored time before and after. So no sequence of takes can drift from the area under
//! the curve.

use alloc::vec;
use alloc::vec::Vec;

use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::rate::{Rate, scale_down};
use crate::time::{Time, nanos};

/// The parameters of a smooth limiter that warms up.
#[derive(Clone, Debug)]
pub(crate) struct SmoothWarmingUp {
    rate: Rate,
    warm_up: u64,
    cold_factor: u64,
}

/// How warm the limiter is, and when its next ticket is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warmth {
    /// The idle time after which the limiter is cold, as of `free_at`. Zero is cold, the warm-up time is fully warm.
    warmed: u64,
    /// When the next ticket is free.
    free_at: u64,
    /// The warm-up time under which `warmed` was written.
    warm_up: u64,
}

impl SmoothWarmingUp {
    pub(crate) fn new(rate: Rate, warm_up: u64, cold_factor: u32) -> Self {
        Self { rate, warm_up, cold_factor: cold_factor.into() }
    }

    /// Returns the state at `now`: idle time has cooled it.
    fn cooled(&self, state: &Warmth, now: Time) -> Warmth {
        // After a change of the warm-up time, the stored time scales with it.
        let warmed = match state.warm_up {
            0 => 0,
            before if before == self.warm_up => state.warmed,
            before => scale_down(state.warmed.min(before), self.warm_up, before),
        };
        let idle = now.nanos().saturating_sub(state.free_at);
        Warmth {
            warmed: warmed.saturating_sub(idle),
            free_at: state.free_at.max(now.nanos()),
            warm_up: self.warm_up,
        }
    }

    /// Returns the idle time that `permits` are worth.
    fn stored_time(&self, permits: u32) -> u64 {
        let numerator =
            u128::from(permits) * u128::from(self.rate.period()) * u128::from(2 * (1 + self.cold_factor));
        let denominator = u128::from(self.rate.count()) * u128::from(5 + self.cold_factor);
        u64::try_from(numerator.div_ceil(denominator)).unwrap_or(u64::MAX)
    }

    /// Returns the permits that `time` of idleness is worth.
    fn permits(&self, time: u64) -> u64 {
        let numerator = u128::from(time) * u128::from(self.rate.count()) * u128::from(5 + self.cold_factor);
        let denominator = u128::from(self.rate.period()) * u128::from(2 * (1 + self.cold_factor));
        u64::try_from(numerator / denominator).unwrap_or(u64::MAX)
    }

    /// Returns the time that taking all of the stored time costs: the area under the curve.
    fn price(&self, stored: u64) -> u64 {
        let (k, stored) = (u128::from(self.cold_factor), u128::from(stored));
        let threshold = u128::from(self.warm_up) * (1 + k) / (5 + k);
        let below = stored.min(threshold);
        let above = stored - below;
        let flat = (below + above) * (5 + k) / (2 * (1 + k));
        let slope = (u128::from(self.warm_up) - threshold).max(1);
        let rise = above * above * (k - 1) * (5 + k) / (4 * (1 + k) * slope);
        u64::try_from(flat + rise).unwrap_or(u64::MAX)
    }

    /// Returns when a ticket that starts at `from` ends at the stable rate, on the scale of the rate, which does not
    /// drift.
    fn stable_end(&self, from: u64, cost: u32) -> u64 {
        let unit = self.rate.units(from);
        // The previous ticket may have ended between two units; rounding down would lose that part.
        let unit = unit + u64::from(self.rate.instant(unit) < from);
        self.rate.instant(unit.saturating_add(self.rate.tokens(cost.into())))
    }

    /// Returns whether others wait behind a reservation of `cost` that starts at `start`: the next ticket is free later
    /// than this one alone would end.
    fn is_behind(&self, warmth: &Warmth, cost: u32, start: u64) -> bool {
        let stored = self.warm_up - warmth.warmed.min(self.warm_up);
        let end = if stored == 0 {
            self.stable_end(start, cost)
        } else {
            // The reservation took stored permits only, and these are the cheapest that it can have taken.
            let before = stored.saturating_add(self.stored_time(cost)).min(self.warm_up);
            start.saturating_add(self.price(before) - self.price(stored))
        };
        warmth.free_at > end
    }

    /// Debits `cost` permits: stored ones first, the rest at the stable rate.
    fn spend(&self, warmth: &mut Warmth, cost: u32) {
        let stored = self.warm_up - warmth.warmed.min(self.warm_up);
        let needed = self.stored_time(cost);
        if stored == 0 {
            warmth.free_at = self.stable_end(warmth.free_at, cost);
        } else {
            let taken = needed.min(stored);
            let from_stored = self.price(stored) - self.price(stored - taken);
            let at_stable_rate = (u128::from(needed - taken) * u128::from(5 + self.cold_factor))
                .div_ceil(u128::from(2 * (1 + self.cold_factor)));
            let at_stable_rate = u64::try_from(at_stable_rate).unwrap_or(u64::MAX);
            warmth.warmed += taken;
            warmth.free_at = warmth.free_at.saturating_add(from_stored).saturating_add(at_stable_rate);
        }
        warmth.free_at = warmth.free_at.min(Time::MAX.nanos());
    }

    fn decision(&self, warmth: &Warmth, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let stored = self.permits(self.warm_up - warmth.warmed.min(self.warm_up));
        let reset = nanos_until(self.fresh_at(warmth).nanos(), now);
        Balance::left(self.capacity(), stored, reset).decision(outcome, granted, wait)
    }

    fn take(&self, warmth: &mut Warmth, now: Time, cost: u32, max_wait: u64) -> Decision {
        let start = nanos_until(warmth.free_at, now);
        if start > max_wait {
            return self.decision(warmth, now, Outcome::Denied, 0, start - max_wait);
        }
        if cost > 0 {
            self.spend(warmth, cost);
        }
        self.decision(warmth, now, Outcome::Allowed, cost, start)
    }
}

impl Decide for SmoothWarmingUp {
    type State = Warmth;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::SmoothWarmingUp
    }

    fn capacity(&self) -> u32 {
        // A short warm-up time stores less than one permit, but one can always pass.
        saturate(self.permits(self.warm_up)).max(1)
    }

    fn decide(&self, state: &mut Warmth, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        let mut warmth = self.cooled(state, now);
        let decision = match operation.action {
            Action::Take { max_wait } => self.take(&mut warmth, now, cost, max_wait.map_or(0, nanos)),
            // Any cost passes once the ticket is free.
            Action::TakeUpTo => self.take(&mut warmth, now, cost, 0),
            Action::Debit { .. } => {
                self.spend(&mut warmth, cost);
                self.decision(&warmth, now, Outcome::Allowed, cost, 0)
            }
            Action::Refund { at: Some(at) } if at > now && self.is_behind(&warmth, cost, at.nanos()) => {
                // A reservation that has not started: later ones keep their start.
                self.decision(&warmth, now, Outcome::Allowed, 0, 0)
            }
            Action::Refund { .. } => {
                // Only debt can be refunded: time that a caller has waited is over.
                let unit = self.rate.units(warmth.free_at);
                let now_unit = self.rate.units(now.nanos());
                let next_unit = unit.saturating_sub(self.rate.tokens(cost.into())).max(now_unit);
                let refunded = saturate((unit - next_unit) / self.rate.token());
                warmth.free_at = self.rate.instant(next_unit).max(now.nanos());
                self.decision(&warmth, now, Outcome::Allowed, refunded, 0)
            }
            Action::Reset => {
                warmth = Warmth { warmed: 0, free_at: now.nanos(), warm_up: self.warm_up };
                self.decision(&warmth, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(&mut warmth, now, 0, 0),
        };
        let fresh = warmth.warmed == 0 && warmth.free_at <= now.nanos();
        *state = if fresh { Warmth::default() } else { warmth };
        decision
    }

    fn fresh_at(&self, state: &Warmth) -> Time {
        Time::from_nanos(state.free_at.saturating_add(state.warmed))
    }

    fn to_words(state: &Warmth) -> Vec<u64> {
        vec![state.warmed, state.free_at, state.warm_up]
    }

    fn from_words(words: &[u64]) -> Option<Warmth> {
        match *words {
            [warmed, free_at, warm_up] if free_at <= Time::MAX.nanos() && warmed <= warm_up => {
                Some(Warmth { warmed, free_at, warm_up })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    fn acquire(smooth: &mut Example) -> u128 {
        let wait = smooth.reserve(1, Duration::from_secs(3600)).start_after();
        smooth.advance(wait);
        wait.as_millis()
    }

    /// The classic schedule of two per second with a warm-up time of four seconds.
    const COLD: [u128; 8] = [0, 1_375, 1_125, 875, 625, 500, 500, 500];

    #[test]
    fn warms_up_along_the_classic_schedule() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        let waits: Vec<_> = (0..8).map(|_| acquire(&mut smooth)).collect();
        assert_eq!(waits, COLD);
    }

    #[test]
    fn cools_down_again_when_idle() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        for _ in 0..8 {
            acquire(&mut smooth);
        }
        // Half a second until the ticket is free, then four seconds until the limiter is cold.
        smooth.advance(millis(500) + Duration::from_secs(4));
        let waits: Vec<_> = (0..8).map(|_| acquire(&mut smooth)).collect();
        assert_eq!(waits, COLD);
    }

    #[test]
    fn remains_warm_under_load_without_idle_time() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        for _ in 0..8 {
            acquire(&mut smooth);
        }
        smooth.advance(millis(500));
        let waits: Vec<_> = (0..3).map(|_| acquire(&mut smooth)).collect();
        assert_eq!(waits, [0, 500, 500]);
    }

    #[test]
    fn a_cancelled_reservation_does_not_start_others_together() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        for _ in 0..8 {
            acquire(&mut smooth);
        }
        let now = smooth.now();
        let reserve = |smooth: &mut Example| now + smooth.reserve(1, Duration::from_secs(3600)).start_after();
        let [first, second] = [reserve(&mut smooth), reserve(&mut smooth)];
        assert_eq!(second.since(first), millis(500));
        assert_eq!(smooth.refund_at(1, first).granted(), 0, "the second one waits behind it");
        let third = reserve(&mut smooth);
        assert_eq!(third.since(second), millis(500));
        assert_eq!(smooth.refund_at(1, third).granted(), 1, "nobody waits behind the last one");
        assert_eq!(reserve(&mut smooth), third);
    }

    #[test]
    fn a_short_warm_up_time_has_a_limit_of_one() {
        let mut smooth = Example::new(Limit::per_second(5).warm_up(millis(100)));
        let first = smooth.take(1);
        assert_eq!((first.is_allowed(), first.limit()), (true, 1));
    }

    #[test]
    fn a_rate_change_keeps_the_debt() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        assert!(smooth.take(1).is_allowed());
        let wait = smooth.take(1).retry_after();
        smooth.change(Limit::per_second(4).warm_up(Duration::from_secs(4)));
        assert_eq!(smooth.take(1).retry_after(), wait);
    }
}
