//! Statistics of a node, for dashboards and metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

use crate::nanos;

/// Statistics of a node since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that have a local entry now.
    pub keys: usize,
    /// Keys that have pending deltas, leased tokens, or a call in flight now. A value that grows means that the central
    /// store does not accept deltas.
    pub pending: usize,
    /// Entries that were evicted while in use, because the table was full. For a while after that, the state of every
    /// unknown key is fetched from the central store: increase
    /// [`SyncedBuilder::max_keys`](crate::SyncedBuilder::max_keys).
    pub evicted: u64,
    /// Sync rounds that the central store answered completely. Rounds without anything to send do not count.
    pub sync_rounds: u64,
    /// Sync rounds in which at least one call failed. What they did not deliver is sent again.
    pub failed_rounds: u64,
    /// Keys that the central store answered for in sync rounds, in total.
    pub synced_keys: u64,
    /// Keys that it answered for in the last sync round.
    pub last_round_keys: u64,
    /// How long the last sync round took.
    pub last_round_took: Duration,
    /// How long ago the central store last answered; `None` if it never has.
    pub last_answer: Option<Duration>,
    /// How long the central store has not answered although it was called, or had to be called because of pending
    /// deltas. Zero if it did.
    pub stale_for: Duration,
    /// The largest debt of a key's central balance, in tokens: what passed beyond the limit and had to be repaid.
    pub max_debt: u64,
    /// Charges that the central store decided: reservations, resets, deltas and peeks of limits with leases, the deltas
    /// of [`Store::apply_deltas`](tollgate_core::store::Store::apply_deltas), requests that include a limit which is
    /// always decided centrally, keys without room for a local entry, and everything after
    /// [`close`](crate::Synced::close).
    pub decided_centrally: u64,
    /// Charges that were decided while the central store did not answer ([`WhenStale`](crate::WhenStale)).
    pub decided_stale: u64,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sync_rounds: AtomicU64,
    failed_rounds: AtomicU64,
    synced_keys: AtomicU64,
    last_round_keys: AtomicU64,
    last_round_took: AtomicU64,
    answered_at: AtomicU64,
    max_debt: AtomicU64,
    decided_centrally: AtomicU64,
    decided_stale: AtomicU64,
}

impl Counters {
    pub(crate) fn sync_round(&self, keys: usize, took: Duration, debt: u64, failed: bool) {
        let rounds = if failed { &self.failed_rounds } else { &self.sync_rounds };
        rounds.fetch_add(1, Ordering::Relaxed);
        self.synced_keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.last_round_keys.store(keys as u64, Ordering::Relaxed);
        self.last_round_took.store(nanos(took), Ordering::Relaxed);
        self.max_debt.fetch_max(debt, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, now: Time) {
        self.answered_at.store(now.nanos(), Ordering::Relaxed);
    }

    pub(crate) fn decided_centrally(&self, charges: usize) {
        self.decided_centrally.fetch_add(charges as u64, Ordering::Relaxed);
    }

    pub(crate) fn decided_stale(&self) {
        self.decided_stale.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counted part of the statistics.
    pub(crate) fn read(&self, now: Time) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let answered_at = Time::from_nanos(read(&self.answered_at));
        Stats {
            sync_rounds: read(&self.sync_rounds),
            failed_rounds: read(&self.failed_rounds),
            synced_keys: read(&self.synced_keys),
            last_round_keys: read(&self.last_round_keys),
            last_round_took: Duration::from_nanos(read(&self.last_round_took)),
            last_answer: (answered_at != Time::EPOCH).then(|| now.since(answered_at)),
            max_debt: read(&self.max_debt),
            decided_centrally: read(&self.decided_centrally),
            decided_stale: read(&self.decided_stale),
            ..Stats::default()
        }
    }
}
