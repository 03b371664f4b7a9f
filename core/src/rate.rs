//! A rate of `count` per `period`, in integers, without drift.
//!
//! One token takes `period / count` nanoseconds, which is rarely a whole number. Rounding it would
//! drift, and keeping the fraction would not fit one word beside the instant. So the arithmetic
//! happens on a slightly coarser scale on which a token *is* a whole number of units:
//!
//! - a token is `S = floor(period / count)` units, so a unit is one nanosecond or a little more;
//! - [`Rate::units`] takes an instant to the scale, rounding down: `floor(t · count·S / period)`;
//! - [`Rate::instant`] takes it back, rounding up: the earliest instant at that unit.
//!
//! A unit is never shorter than a nanosecond, so every unit holds at least one instant and
//! `units(instant(v)) == v`: going back and forth loses nothing, and a state kept as an instant is
//! exact however long it runs. It also means the same thing under any other rate, which is what lets a
//! limit change while it is in use. Where the interval is whole, both scales are the same.

/// `count` per `period`; at most one per nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    count: u64,
    period: u64,
    /// Units per token.
    token: u64,
    /// Units per period: `count · token`.
    scale: u64,
    /// By how many nanoseconds a period exceeds its units; zero where the interval is whole.
    excess: u64,
}

impl Rate {
    /// `count` and `period` are at least 1 and `count <= period`: the builder has seen to it.
    pub(crate) const fn new(count: u64, period: u64) -> Self {
        let token = period / count;
        Self { count, period, token, scale: count * token, excess: period % count }
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) const fn period(&self) -> u64 {
        self.period
    }

    /// A unit is a nanosecond.
    pub(crate) const fn is_whole(&self) -> bool {
        self.excess == 0
    }

    /// Units of one token.
    #[inline]
    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// Units of `tokens` tokens.
    #[inline]
    pub(crate) const fn tokens(&self, tokens: u64) -> u64 {
        self.token.saturating_mul(tokens)
    }

    /// The unit that the instant `nanos` lies in.
    #[inline]
    pub(crate) const fn units(&self, nanos: u64) -> u64 {
        if self.excess == 0 { nanos } else { self.uneven_units(nanos) }
    }

    #[inline(never)]
    const fn uneven_units(&self, nanos: u64) -> u64 {
        let (periods, rest) = (nanos / self.period, nanos % self.period);
        nanos - periods * self.excess - scale_up(rest, self.excess, self.period)
    }

    /// The earliest instant in `unit`.
    #[inline]
    pub(crate) const fn instant(&self, unit: u64) -> u64 {
        if self.excess == 0 { unit } else { self.uneven_instant(unit) }
    }

    #[inline(never)]
    const fn uneven_instant(&self, unit: u64) -> u64 {
        let (periods, rest) = (unit / self.scale, unit % self.scale);
        unit.saturating_add(periods.saturating_mul(self.excess)).saturating_add(scale_up(
            rest,
            self.excess,
            self.scale,
        ))
    }
}

/// `ceil(a · b / c)`, for results that fit a word.
#[inline]
pub(crate) const fn scale_up(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => clamp_word((a as u128 * b as u128).div_ceil(c as u128)),
    }
}

/// `floor(a · b / c)`, for results that fit a word.
#[inline]
pub(crate) const fn scale_down(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => clamp_word(a as u128 * b as u128 / c as u128),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "compared with the largest word first")]
const fn clamp_word(wide: u128) -> u64 {
    if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paces() -> impl Strategy<Value = Rate> {
        (1..=1_000_000_000_u64, 1..=31_622_400_000_000_000_u64)
            .prop_map(|(count, period)| Rate::new(count.min(period), period))
    }

    proptest! {
        #[test]
        fn scales_match_the_rational_definition(pace in paces(), t in 0..(1_u64 << 62)) {
            let exact = u128::from(t) * u128::from(pace.scale) / u128::from(pace.period);
            prop_assert_eq!(u128::from(pace.units(t)), exact);
        }

        #[test]
        fn going_back_and_forth_loses_nothing(pace in paces(), t in 0..(1_u64 << 61)) {
            let unit = pace.units(t);
            let instant = pace.instant(unit);
            prop_assert!(instant <= t);
            prop_assert_eq!(pace.units(instant), unit);
            prop_assert!(instant == 0 || pace.units(instant - 1) < unit);
        }

        #[test]
        fn a_period_is_worth_its_count_exactly(pace in paces(), periods in 1..=30_u64, t in 0..(1_u64 << 60)) {
            let start = pace.instant(pace.units(t));
            let tokens = pace.count * periods;
            prop_assert_eq!(pace.instant(pace.units(start) + pace.tokens(tokens)), start + periods * pace.period);
        }
    }

    #[test]
    fn whole_intervals_need_no_scale() {
        let pace = Rate::new(50, 1_000_000_000);
        assert_eq!(
            (pace.token(), pace.units(123_456_789), pace.instant(987)),
            (20_000_000, 123_456_789, 987)
        );
    }
}
