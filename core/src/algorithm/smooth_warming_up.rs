//! Smooth warming up: like the bursty limiter, but stored permits mean a cold limiter, and taking them is
//! slow. From cold, the rate rises to its full height over the warm-up time.
//!
//! With the stable interval T, the cold factor k and the warm-up time W, the classic definition is: a
//! permit costs T up to a threshold of W/2T stored permits and rises linearly from there to k·T at the
//! maximum of W/2T + 2W/(1+k)T; an idle limiter goes from empty to the maximum in W.
//!
//! Here what is stored is kept as the idle time that stored it, 0 to W, which makes one permit worth
//! T·2(1+k)/(5+k) of it and the threshold W·(1+k)/(5+k). The time that taking permits costs is the
//! difference of a function of what is stored before and after, so no sequence of takes can drift from
//! the area under the curve.

use alloc::vec;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::rate::{Rate, scale_down};
use crate::time::{Time, nanos};

/// Stored permits and a next free ticket; slow when cold.
#[derive(Clone, Debug)]
pub(crate) struct SmoothWarmingUp {
    pace: Rate,
    warm_up: u64,
    cold: u64,
}

/// What was missing from a cold limiter when the next ticket was to be free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Warmth {
    /// Idle time that is missing from a cold limiter; zero is cold, the warm-up time is fully warm.
    warmed: u64,
    /// When the next ticket is free.
    free_at: u64,
    /// The warm-up time that `warmed` was measured against.
    warm_up: u64,
}

impl SmoothWarmingUp {
    pub(crate) fn new(pace: Rate, warm_up: u64, cold: u32) -> Self {
        Self { pace, warm_up, cold: cold.into() }
    }

    /// The limiter as of now: idle time has cooled it.
    fn cooled(&self, state: &Warmth, now: Time) -> Warmth {
        // Another warm-up time scales what is stored.
        let warmed = match state.warm_up {
            0 => 0,
            before if before == self.warm_up => state.warmed,
            before => scale_down(state.warmed.min(before), self.warm_up, before),
        };
        let idle = ahead(now.nanos(), Time::from_nanos(state.free_at));
        Warmth {
            warmed: warmed.saturating_sub(idle),
            free_at: state.free_at.max(now.nanos()),
            warm_up: self.warm_up,
        }
    }

    /// Idle time that `permits` are worth.
    fn stored_time(&self, permits: u32) -> u64 {
        let numerator =
            u128::from(permits) * u128::from(self.pace.period()) * u128::from(2 * (1 + self.cold));
        let denominator = u128::from(self.pace.count()) * u128::from(5 + self.cold);
        u64::try_from(numerator.div_ceil(denominator)).unwrap_or(u64::MAX)
    }

    /// Permits that `time` of idleness is worth.
    fn permits(&self, time: u64) -> u64 {
        let numerator = u128::from(time) * u128::from(self.pace.count()) * u128::from(5 + self.cold);
        let denominator = u128::from(self.pace.period()) * u128::from(2 * (1 + self.cold));
        u64::try_from(numerator / denominator).unwrap_or(u64::MAX)
    }

    /// The time that taking all of what is stored costs: the area under the curve.
    fn price(&self, stored: u64) -> u64 {
        let (k, stored) = (u128::from(self.cold), u128::from(stored));
        let threshold = u128::from(self.warm_up) * (1 + k) / (5 + k);
        let below = stored.min(threshold);
        let above = stored - below;
        let flat = (below + above) * (5 + k) / (2 * (1 + k));
        let slope = (u128::from(self.warm_up) - threshold).max(1);
        let rise = above * above * (k - 1) * (5 + k) / (4 * (1 + k) * slope);
        u64::try_from(flat + rise).unwrap_or(u64::MAX)
    }

    /// Debits `cost` permits: from what is stored first, the rest at the stable rate.
    fn spend(&self, warmth: &mut Warmth, cost: u32) {
        let stored = self.warm_up - warmth.warmed.min(self.warm_up);
        let wanted = self.stored_time(cost);
        if stored == 0 {
            // Without stored permits the ticket moves on the pace's own scale, which does not drift.
            let unit = self.pace.units(warmth.free_at);
            // The last ticket may have ended off the scale; rounding it down would give that away.
            let unit = unit + u64::from(self.pace.instant(unit) < warmth.free_at);
            warmth.free_at = self.pace.instant(unit.saturating_add(self.pace.tokens(cost.into())));
        } else {
            let taken = wanted.min(stored);
            let slow = self.price(stored) - self.price(stored - taken);
            let stable = (u128::from(wanted - taken) * u128::from(5 + self.cold))
                .div_ceil(u128::from(2 * (1 + self.cold)));
            let stable = u64::try_from(stable).unwrap_or(u64::MAX);
            warmth.warmed += taken;
            warmth.free_at = warmth.free_at.saturating_add(slow).saturating_add(stable);
        }
        warmth.free_at = warmth.free_at.min(Time::MAX.nanos());
    }

    fn answer(&self, warmth: &Warmth, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let stored = self.permits(self.warm_up - warmth.warmed.min(self.warm_up));
        let left = i64::try_from(stored).unwrap_or(i64::MAX);
        let reset = ahead(self.fresh_at(warmth).nanos(), now);
        Count { limit: self.capacity(), left, reset }.answer(outcome, granted, wait)
    }

    fn take(&self, warmth: &mut Warmth, now: Time, cost: u32, max_wait: u64) -> Decision {
        let start = ahead(warmth.free_at, now);
        if start > max_wait {
            return self.answer(warmth, now, Outcome::Denied, 0, start - max_wait);
        }
        if cost > 0 {
            self.spend(warmth, cost);
        }
        self.answer(warmth, now, Outcome::Allowed, cost, start)
    }
}

impl Rules for SmoothWarmingUp {
    type State = Warmth;

    fn capacity(&self) -> u32 {
        u32::try_from(self.permits(self.warm_up)).unwrap_or(u32::MAX)
    }

    fn decide(&self, state: &mut Warmth, now: Time, ask: &Ask) -> Decision {
        let mut warmth = self.cooled(state, now);
        let decision = match ask.action {
            Action::Take { max_wait } => self.take(&mut warmth, now, ask.cost, max_wait.map_or(0, nanos)),
            // Any cost passes once the ticket is free.
            Action::TakeUpTo => self.take(&mut warmth, now, ask.cost, 0),
            Action::Debit { .. } => {
                self.spend(&mut warmth, ask.cost);
                self.answer(&warmth, now, Outcome::Allowed, ask.cost, 0)
            }
            Action::Refund { .. } => {
                // Only debt can be given back: time that has been waited for is gone.
                let unit = self.pace.units(warmth.free_at);
                let floor = self.pace.units(now.nanos());
                let end = unit.saturating_sub(self.pace.tokens(ask.cost.into())).max(floor);
                let given = u32::try_from((unit - end) / self.pace.token()).unwrap_or(u32::MAX);
                warmth.free_at = self.pace.instant(end).max(now.nanos());
                self.answer(&warmth, now, Outcome::Allowed, given, 0)
            }
            Action::Reset => {
                warmth = Warmth { warmed: 0, free_at: now.nanos(), warm_up: self.warm_up };
                self.answer(&warmth, now, Outcome::Allowed, 0, 0)
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

    fn words(state: &Warmth) -> Vec<u64> {
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

    /// The classic schedule of two a second that warms up over four seconds.
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
        // Half a second until the last one is paid for, then four to be cold again.
        smooth.advance(millis(500) + Duration::from_secs(4));
        let waits: Vec<_> = (0..8).map(|_| acquire(&mut smooth)).collect();
        assert_eq!(waits, COLD);
    }

    #[test]
    fn stays_warm_under_load_that_leaves_no_idle_time() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        for _ in 0..8 {
            acquire(&mut smooth);
        }
        smooth.advance(millis(500));
        let waits: Vec<_> = (0..3).map(|_| acquire(&mut smooth)).collect();
        assert_eq!(waits, [0, 500, 500]);
    }

    #[test]
    fn a_rate_change_keeps_the_debt() {
        let mut smooth = Example::new(Limit::per_second(2).warm_up(Duration::from_secs(4)));
        assert!(smooth.take(1).is_allowed());
        let owed = smooth.take(1).retry_after();
        smooth.change(Limit::per_second(4).warm_up(Duration::from_secs(4)));
        assert_eq!(smooth.take(1).retry_after(), owed);
    }
}
