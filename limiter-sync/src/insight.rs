//! What an instance has been doing, for dashboards and metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

use crate::terms::nanos;

/// What an instance has been doing since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Insight {
    /// Keys that something is known of here.
    pub keys: usize,
    /// Of these, keys that owe something to the centre, or wait for its answer.
    pub owing: usize,
    /// Keys that had to go before their time, for want of room. While one of them may come back, the centre is asked about keys that
    /// are not known here: more room ([`Synced::keys`](crate::Synced::keys)) saves that.
    pub forgotten: u64,
    /// Exchanges that the centre answered.
    pub exchanges: u64,
    /// Exchanges of which it did not answer at least a part.
    pub failed: u64,
    /// Keys that were exchanged, all in all.
    pub exchanged_keys: u64,
    /// Keys of the last exchange.
    pub last_keys: u64,
    /// How long the last exchange took.
    pub last_took: Duration,
    /// How long ago the centre answered last; `None` if it never has.
    pub answered: Option<Duration>,
    /// How long the centre has been silent although it was asked; zero if it is not.
    pub silent: Duration,
    /// How far below zero the centre's balance of a key was at most, in tokens: what passed beyond the limit and had to be
    /// repaid.
    pub overshoot: u64,
    /// Charges that were decided at the centre: reservations, what forgets a key, what a lease cannot decide, requests that mix
    /// limits of both sides, keys without room, and everything once an instance is closed.
    pub at_centre: u64,
    /// Charges that were decided while the centre was silent.
    pub stale: u64,
}

/// The counters behind [`Insight`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    exchanges: AtomicU64,
    failed: AtomicU64,
    keys: AtomicU64,
    last_keys: AtomicU64,
    last_took: AtomicU64,
    heard: AtomicU64,
    overshoot: AtomicU64,
    at_centre: AtomicU64,
    stale: AtomicU64,
}

impl Counters {
    pub(crate) fn exchanged(&self, keys: usize, took: Duration, debt: u64, failed: bool) {
        let which = if failed { &self.failed } else { &self.exchanges };
        which.fetch_add(1, Ordering::Relaxed);
        self.keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.last_keys.store(keys as u64, Ordering::Relaxed);
        self.last_took.store(nanos(took), Ordering::Relaxed);
        self.overshoot.fetch_max(debt, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self, now: Time) {
        self.heard.store(now.nanos(), Ordering::Relaxed);
    }

    pub(crate) fn at_centre(&self, charges: usize) {
        self.at_centre.fetch_add(charges as u64, Ordering::Relaxed);
    }

    pub(crate) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, now: Time) -> Insight {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let heard = Time::from_nanos(read(&self.heard));
        Insight {
            exchanges: read(&self.exchanges),
            failed: read(&self.failed),
            exchanged_keys: read(&self.keys),
            last_keys: read(&self.last_keys),
            last_took: Duration::from_nanos(read(&self.last_took)),
            answered: (heard != Time::EPOCH).then(|| now.since(heard)),
            overshoot: read(&self.overshoot),
            at_centre: read(&self.at_centre),
            stale: read(&self.stale),
            ..Insight::default()
        }
    }
}
