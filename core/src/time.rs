//! Instants in nanoseconds since the Unix epoch.

use core::fmt;
use core::time::Duration;

/// An instant, in nanoseconds since the Unix epoch. Arithmetic saturates at [`EPOCH`](Self::EPOCH) and
/// [`MAX`](Self::MAX).
///
/// The two highest bits of the word are always zero (the latest instant is in the year 2116). A store can use them to
/// keep an instant and flags of its own in one atomic word.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::time::Duration;
/// use tollgate::Time;
///
/// let start = Time::from_secs(1_790_000_000);
/// let later = start + Duration::from_millis(200);
/// assert_eq!(later.since(start), Duration::from_millis(200));
/// assert_eq!(start.since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(u64);

impl Time {
    /// The Unix epoch. In a state it means "never".
    pub const EPOCH: Self = Self(0);
    /// The latest instant.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// Creates an instant from nanoseconds since the Unix epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos > Self::MAX.0 { Self::MAX } else { Self(nanos) }
    }

    /// Creates an instant from whole seconds since the Unix epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the nanoseconds since the Unix epoch.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is later than this instant.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `nanos` nanoseconds later.
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

/// Returns a span in nanoseconds, saturating.
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
