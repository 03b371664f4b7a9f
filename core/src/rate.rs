//! Rates of `count` per `period`, in integers and without drift.
//!
//! One token takes `period / count` nanoseconds, which is rarely a whole number. Rounding it would drift, and a
//! fraction does not fit into one word beside the instant. So the arithmetic uses a slightly coarser scale, on which a
//! token is a whole number of units:
//!
//! - A token is `S = floor(period / count)` units, so a unit is one nanosecond or a little longer.
//! - [`Rate::units`] converts an instant to the scale, rounding down: `floor(t · count·S / period)`.
//! - [`Rate::instant`] converts it back, rounding up: the earliest instant in that unit.
//!
//! A unit is never shorter than a nanosecond. So every unit contains at least one instant, and
//! `units(instant(v)) == v`: conversions in both directions lose nothing, and a state that is kept as an instant
//! remains exact. Its meaning does not depend on the rate either, which is what allows a limit to change while it is in
//! use. Where a token takes a whole number of nanoseconds, both scales are the same.

/// A rate of `count` per `period`; at most one per nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    count: u64,
    period: u64,
    /// Units per token.
    token: u64,
    /// Units per period: `count · token`.
    scale: u64,
    /// By how many nanoseconds a period exceeds its units; zero if a token takes whole nanoseconds.
    excess: u64,
}

impl Rate {
    /// Creates a rate. `count` and `period` are at least 1, and `count <= period`: the limit's builder checks that.
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

    /// Returns whether a unit is a nanosecond.
    pub(crate) const fn is_whole(&self) -> bool {
        self.excess == 0
    }

    /// Returns the units of one token.
    #[inline]
    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// Returns the units of `tokens` tokens.
    #[inline]
    pub(crate) const fn tokens(&self, tokens: u64) -> u64 {
        self.token.saturating_mul(tokens)
    }

    /// Returns the unit that contains the instant `nanos`.
    #[inline]
    pub(crate) const fn units(&self, nanos: u64) -> u64 {
        if self.excess == 0 { nanos } else { self.uneven_units(nanos) }
    }

    #[inline(never)]
    const fn uneven_units(&self, nanos: u64) -> u64 {
        let (periods, rest) = (nanos / self.period, nanos % self.period);
        nanos - periods * self.excess - scale_up(rest, self.excess, self.period)
    }

    /// Returns the earliest instant in `unit`.
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

/// Returns `ceil(a · b / c)`. A result that does not fit into a word saturates.
#[inline]
pub(crate) const fn scale_up(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product.div_ceil(c),
        None => saturate_word((a as u128 * b as u128).div_ceil(c as u128)),
    }
}

/// Returns `floor(a · b / c)`. A result that does not fit into a word saturates.
#[inline]
pub(crate) const fn scale_down(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => saturate_word(a as u128 * b as u128 / c as u128),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "compared with the largest word first")]
const fn saturate_word(wide: u128) -> u64 {
    if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = Rate> {
        (1..=1_000_000_000_u64, 1..=31_622_400_000_000_000_u64)
            .prop_map(|(count, period)| Rate::new(count.min(period), period))
    }

    proptest! {
        #[test]
        fn scales_match_the_rational_definition(rate in rates(), t in 0..(1_u64 << 62)) {
            let exact = u128::from(t) * u128::from(rate.scale) / u128::from(rate.period);
            prop_assert_eq!(u128::from(rate.units(t)), exact);
        }

        #[test]
        fn converting_in_both_directions_loses_nothing(rate in rates(), t in 0..(1_u64 << 61)) {
            let unit = rate.units(t);
            let instant = rate.instant(unit);
            prop_assert!(instant <= t);
            prop_assert_eq!(rate.units(instant), unit);
            prop_assert!(instant == 0 || rate.units(instant - 1) < unit);
        }

        #[test]
        fn a_period_has_exactly_its_count_of_tokens(rate in rates(), periods in 1..=30_u64, t in 0..(1_u64 << 60)) {
            let start = rate.instant(rate.units(t));
            let tokens = rate.count * periods;
            prop_assert_eq!(rate.instant(rate.units(start) + rate.tokens(tokens)), start + periods * rate.period);
        }
    }

    #[test]
    fn rates_with_whole_nanoseconds_need_no_scale() {
        let rate = Rate::new(50, 1_000_000_000);
        assert_eq!(
            (rate.token(), rate.units(123_456_789), rate.instant(987)),
            (20_000_000, 123_456_789, 987)
        );
    }
}
