//! How limits are synchronised: what a program says, and what follows for a limit.

use std::collections::HashMap;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tollgate_core::{Limit, Time};

use crate::owed::Booking;
use crate::share::Rate;

/// The shortest and the longest time between two exchanges.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3_600);
/// Limits that are remembered with what follows for them; more than a program has, unless it makes them from requests.
const MOST_LIMITS: u64 = 1_024;

/// About 8.6 seconds.
const SHORTEST_STRETCH: u32 = 33;

/// How decisions are made without asking the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// By a copy of the state. What was granted is booked at the centre with the next exchange, which brings back
    /// what everybody granted: more than the limit may pass in between, and is repaid.
    Deltas,
    /// By tokens that were taken from the centre ahead of need: never more than the limit passes, all in all.
    Lease,
}

/// What becomes of checks when the centre has been silent for too long. Only of [`Mode::Deltas`]: what is not leased
/// does not pass in the first place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenStale {
    /// They are decided as before, by what is known here.
    GoOn,
    /// They are decided by a part of the limit. A part that is no whole token, or more than all, lets nothing pass.
    Shrink {
        /// So many parts
        part: u32,
        /// of so many.
        of: u32,
    },
    /// They don't pass.
    Deny,
}

impl WhenStale {
    /// With what one of `nodes` may spend.
    pub const fn one_of(nodes: u32) -> Self {
        Self::Shrink { part: 1, of: if nodes == 0 { 1 } else { nodes } }
    }
}

/// What happens to the first check of a key that nothing is known of here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColdKeys {
    /// It is decided as if nobody had used the key; the next exchange tells.
    Optimistic,
    /// The centre is asked what there is, once. If it does not answer, the check is decided as if nobody had used the key; with
    /// [`WhenStale::Deny`] its caller gets the error.
    AskFirst,
}

/// How a limit is synchronised.
///
/// ```
/// use std::time::Duration;
/// use tollgate_limiter_sync::{ColdKeys, Synced, WhenStale};
/// # let redis = tollgate_store_memory::MemoryStore::new();
///
/// let synced = Synced::new(redis)
///     .every(Duration::from_millis(100))
///     .terms_of("login", |usual| {
///         usual.every(Duration::from_millis(20)).when_stale(WhenStale::Deny).cold_keys(ColdKeys::AskFirst)
///     });
/// # let _ = synced;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "terms do nothing until they are given to a `Synced`"]
pub struct Terms {
    pub(crate) every: Duration,
    pub(crate) mode: Mode,
    pub(crate) when_stale: WhenStale,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) cold_keys: ColdKeys,
    pub(crate) lease_part: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(100),
            mode: Mode::Deltas,
            when_stale: WhenStale::GoOn,
            stale_after: None,
            cold_keys: ColdKeys::Optimistic,
            lease_part: 4,
        }
    }
}

impl Terms {
    /// The time between two exchanges, of which a random tenth is left out or added; 100 ms unless said, at least 10 ms and at
    /// most an hour.
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval.clamp(*INTERVALS.start(), *INTERVALS.end());
        self
    }

    /// How decisions are made; by [deltas](Mode::Deltas) unless said.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// What to do once the centre has been silent for too long; [`WhenStale::GoOn`] unless said.
    pub fn when_stale(mut self, then: WhenStale) -> Self {
        self.when_stale = then;
        self
    }

    /// How long is too long; ten intervals and at least a second unless said.
    pub fn stale_after(mut self, silence: Duration) -> Self {
        self.stale_after = Some(silence);
        self
    }

    /// What to do with keys that nothing is known of; [`ColdKeys::Optimistic`] unless said.
    pub fn cold_keys(mut self, cold: ColdKeys) -> Self {
        self.cold_keys = cold;
        self
    }

    /// At most one of so many parts of the capacity is leased to this node at a time; a quarter unless said.
    pub fn lease_at_most_one_of(mut self, parts: u32) -> Self {
        self.lease_part = parts.max(1);
        self
    }
}

/// The usual terms, and those of limits that have their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) usual: Terms,
    pub(crate) by_name: HashMap<Box<str>, Terms>,
}

impl Settings {
    fn of(&self, limit: &str) -> &Terms {
        self.by_name.get(limit).unwrap_or(&self.usual)
    }

    /// Every interval that some limit has, each once.
    pub(crate) fn beats(&self) -> Vec<Duration> {
        let mut beats = vec![self.usual.every];
        beats.extend(self.by_name.values().map(|terms| terms.every));
        beats.sort_unstable();
        beats.dedup();
        beats
    }
}

/// A limit, and what follows for it.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) limit: Limit,
    pub(crate) booking: Booking,
    pub(crate) rate: Rate,
    pub(crate) mode: Mode,
    pub(crate) cold_keys: ColdKeys,
    pub(crate) when_stale: WhenStale,
    /// In nanoseconds.
    pub(crate) stale_after: u64,
    pub(crate) interval: u64,
    /// Which of the beats its interval is.
    pub(crate) beat: usize,
    /// Instants that are alike but for so many bits are in the same stretch of time, of which an exchange looks once or twice at a
    /// key that denies.
    stretch: u32,
    /// The part of the limit that goes on when the centre is silent.
    pub(crate) shrunk: Option<Limit>,
    /// The most that is leased at a time.
    pub(crate) most_leased: u32,
}

impl Tracked {
    /// `None` if it cannot be decided here.
    fn new(limit: &Limit, settings: &Settings) -> Option<Self> {
        let terms = settings.of(limit.name());
        let shrunk = match terms.when_stale {
            // A part that is too small to be counted is none.
            WhenStale::Shrink { part, of } => limit.share(part, of).ok(),
            WhenStale::GoOn | WhenStale::Deny => None,
        };
        let stale_after = terms.stale_after.unwrap_or_else(|| (terms.every * 10).max(Duration::from_secs(1)));
        Some(Self {
            booking: Booking::of(limit)?,
            rate: Rate::of(limit),
            mode: terms.mode,
            cold_keys: terms.cold_keys,
            when_stale: terms.when_stale,
            stale_after: nanos(stale_after),
            interval: nanos(terms.every),
            beat: settings.beats().iter().position(|beat| *beat == terms.every).unwrap_or(0),
            stretch: nanos(terms.every).saturating_mul(10).ilog2().max(SHORTEST_STRETCH),
            shrunk,
            most_leased: (limit.capacity() / terms.lease_part).max(1),
            limit: limit.clone(),
        })
    }

    /// Which stretch of time an instant is in.
    #[inline]
    pub(crate) fn stretch(&self, at: Time) -> Stretch {
        let number = (at.nanos() >> self.stretch).to_le_bytes()[0] % Stretch::ROUND;
        Stretch(NonZeroU8::MIN.saturating_add(number))
    }
}

/// The number of a stretch of time, counted from one to 128 and round again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch(NonZeroU8);

impl Stretch {
    const ROUND: u8 = 128;

    /// Whether all of another stretch lies between an earlier one and this one.
    #[inline]
    pub(crate) fn is_long_after(self, earlier: Self) -> bool {
        self.0.get().wrapping_sub(earlier.0.get()) % Self::ROUND >= 2
    }
}

/// Limits that have been seen. Programs that make limits from requests may have any number of them, so those that nobody
/// uses leave. Only asked when something is not known here, so the cache's own price does not matter.
#[derive(Debug)]
pub(crate) struct Limits {
    seen: Cache<Limit, Option<Arc<Tracked>>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { seen: Cache::new(MOST_LIMITS) }
    }
}

impl Limits {
    /// What follows for a limit; `None` if it cannot be decided here.
    pub(crate) fn of(&self, limit: &Limit, settings: &Settings) -> Option<Arc<Tracked>> {
        self.seen.get_with_by_ref(limit, || Tracked::new(limit, settings).map(Arc::new))
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
    fn intervals_are_kept_within_reason() {
        assert_eq!(Terms::default().every(Duration::ZERO).every, Duration::from_millis(10));
        assert_eq!(Terms::default().every(Duration::MAX).every, Duration::from_secs(3_600));
    }

    #[test]
    fn every_interval_has_a_beat_of_its_own() {
        let second = Duration::from_secs(1);
        let mut settings = Settings::default();
        settings.by_name.insert("slow".into(), settings.usual.every(second));
        settings.by_name.insert("slow too".into(), settings.usual.every(second));
        assert_eq!(settings.beats(), [Duration::from_millis(100), second]);
        let slow = Limit::per_second(1).build("slow too").expect("valid");
        assert_eq!(Limits::default().of(&slow, &settings).expect("a bucket").beat, 1);
    }

    #[test]
    fn what_cannot_be_put_together_again_is_not_decided_here() {
        let settings = Settings::default();
        for limit in [
            Limit::per_second(1).sliding_log(),
            Limit::concurrent(1),
            Limit::per_second(1).queue(3),
            Limit::per_second(1).smooth(),
            Limit::per_second(1).fixed_window().anchored(),
            Limit::per_second(1).block_for(Duration::from_secs(1)),
        ] {
            let limit = limit.build("x").expect("valid");
            assert!(Limits::default().of(&limit, &settings).is_none(), "{limit:?}");
        }
    }
}
