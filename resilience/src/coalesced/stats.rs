//! What a coalesced store counts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::routes::RouteCounts;

/// What a [`Coalesced`](crate::Coalesced) store has counted since it was built. Clones count together.
///
/// Calls that are forwarded as they are, such as batches of the caller and requests across several routes, are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoalescedStats {
    /// Calls sent to the store: direct calls of a single request, and batches.
    pub calls: u64,
    /// Batches sent to the store.
    pub batches: u64,
    /// Requests sent in batches.
    pub batched_requests: u64,
    /// Batched requests that were merged into the run of an earlier equal request, and so cost the store nothing more
    /// than a count.
    pub merged_requests: u64,
    /// How often a request was sent although the maximum of calls was in flight, because the newest of them was older
    /// than [`overtake_after`](crate::CoalescedBuilder::overtake_after).
    pub overtakes: u64,
    /// Batches whose call was abandoned, because every caller was cancelled.
    pub abandoned_calls: u64,
}

/// The counters of batches. A direct call does not touch them.
#[derive(Debug, Default)]
pub(super) struct BatchCounters {
    batches: AtomicU64,
    batched_requests: AtomicU64,
    merged_requests: AtomicU64,
    abandoned_calls: AtomicU64,
}

impl BatchCounters {
    pub(super) fn record_batch(&self, requests: usize, runs: usize) {
        let add = |counter: &AtomicU64, count: usize| counter.fetch_add(count as u64, Ordering::Relaxed);
        add(&self.batches, 1);
        add(&self.batched_requests, requests);
        add(&self.merged_requests, requests - runs);
    }

    pub(super) fn record_abandoned(&self) {
        self.abandoned_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, routes: RouteCounts) -> CoalescedStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let batches = read(&self.batches);
        CoalescedStats {
            calls: routes.direct_calls + batches,
            batches,
            batched_requests: read(&self.batched_requests),
            merged_requests: read(&self.merged_requests),
            overtakes: routes.overtakes,
            abandoned_calls: read(&self.abandoned_calls),
        }
    }
}
