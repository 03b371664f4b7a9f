//! Time as the algorithms see it: nanoseconds since the Unix epoch.

use core::fmt;
use core::time::Duration;

/// An instant: nanoseconds since the Unix epoch, saturating at both ends.
///
/// Two bits of the word stay free (the latest instant is in the year 2116), so that a store can keep
/// an instant and its own marks in one atomic word.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Time;
///
/// let noon = Time::from_secs(1_790_000_000);
/// let later = noon + Duration::from_millis(200);
/// assert_eq!(later.since(noon), Duration::from_millis(200));
/// assert_eq!(noon.since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(u64);

impl Time {
    /// The Unix epoch. Also what "never happened" looks like in a state.
    pub const EPOCH: Self = Self(0);
    /// The latest instant; arithmetic stops here.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// An instant from nanoseconds since the Unix epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos > Self::MAX.0 { Self::MAX } else { Self(nanos) }
    }

    /// An instant from whole seconds since the Unix epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `nanos` nanoseconds later.
    #[inline]
    pub(crate) const fn after(self, nanos: u64) -> Self {
        Self::from_nanos(self.0.saturating_add(nanos))
    }
}

impl core::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        self.after(nanos(span))
    }
}

impl core::ops::Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A span in nanoseconds, saturating.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturates_instead_of_wrapping() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::EPOCH - Duration::from_secs(1), Time::EPOCH);
        assert_eq!(Time::from_nanos(u64::MAX), Time::MAX);
        assert_eq!(Time::EPOCH + Duration::MAX, Time::MAX);
    }
}
