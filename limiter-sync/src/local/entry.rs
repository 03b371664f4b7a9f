//! The entry of a key in the table, and the key itself.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Key, Time};

use super::state::LocalState;
use crate::config::{CoarseTime, LimitConfig};

/// Distinguishes keys whose hashes collide. 40 bits: what is left of a cache line.
pub(super) type Tag = [u8; 5];

/// A key, stored apart from its entry, because only sync rounds read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredKey {
    /// The hash that the table is indexed by.
    pub(super) hash: u64,
    /// The length of the namespace.
    namespace: u32,
    /// The namespace and the entity. Most are short enough to need no allocation.
    bytes: SmallVec<[u8; 28]>,
}

impl StoredKey {
    pub(super) fn new(hash: u64, key: Key<'_>) -> Self {
        let mut bytes = SmallVec::from_slice(key.namespace());
        bytes.extend_from_slice(key.entity());
        // A longer namespace would not fit into memory twice.
        Self { hash, namespace: u32::try_from(key.namespace().len()).unwrap_or(u32::MAX), bytes }
    }

    pub(crate) fn key(&self) -> Key<'_> {
        let (namespace, entity) = self.bytes.split_at(self.namespace as usize);
        Key::new(namespace, entity)
    }
}

/// The local entry of a key: all that nearly every decision reads, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) state: LocalState,
    pub(crate) config: Arc<LimitConfig>,
    pub(super) tag: Tag,
    status: SyncStatus,
    /// How many more sync rounds include this key, to receive what other nodes send in the meantime.
    pub(crate) rechecks: u8,
    /// When the central store last answered for this key, if it has.
    synced_at: Option<CoarseTime>,
}

const _: () = assert!(size_of::<Entry>() == 64, "one cache line");

/// The state of an entry in sync rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncStatus {
    /// The next round does not include it.
    Idle,
    /// The next round includes it.
    Due,
    /// A call for it is in flight.
    InFlight,
    /// Both.
    InFlightAndDue,
}

impl Entry {
    pub(super) fn new(state: LocalState, config: Arc<LimitConfig>, tag: Tag) -> Self {
        Self { state, config, tag, status: SyncStatus::Idle, rechecks: 0, synced_at: None }
    }

    /// Continues under the changed parameters or policy of its limit. Returns whether it can.
    pub(crate) fn reconfigure(&mut self, config: Arc<LimitConfig>) -> bool {
        let can = self.state.reconfigure(&config);
        if can {
            self.config = config;
        }
        can
    }

    pub(super) fn is_due(&self) -> bool {
        matches!(self.status, SyncStatus::Due | SyncStatus::InFlightAndDue)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.status, SyncStatus::InFlight | SyncStatus::InFlightAndDue)
    }

    pub(super) fn set_due(&mut self, due: bool) {
        self.set_status(due, self.is_in_flight());
    }

    pub(crate) fn set_in_flight(&mut self, in_flight: bool) {
        self.set_status(self.is_due(), in_flight);
    }

    fn set_status(&mut self, due: bool, in_flight: bool) {
        self.status = match (due, in_flight) {
            (false, false) => SyncStatus::Idle,
            (true, false) => SyncStatus::Due,
            (false, true) => SyncStatus::InFlight,
            (true, true) => SyncStatus::InFlightAndDue,
        };
    }

    /// Returns whether the last answer for this key is so old that a denial calls for another: other nodes may have
    /// refunded something or reset the key since.
    #[inline]
    pub(super) fn is_outdated(&self, now: Time) -> bool {
        self.synced_at.is_none_or(|synced_at| self.config.coarse(now).is_long_after(synced_at))
    }

    /// Returns whether a sync round has nothing to send for it yet.
    pub(crate) fn waits_for_report(&self, now: Time) -> bool {
        match &self.state {
            LocalState::Replica(replica) => {
                replica.waits_for_report(&self.config, now) && !self.is_outdated(now)
            }
            LocalState::Lease(_) => false,
        }
    }

    /// Records that the central store answered for this key: from now on its instants are those of the central clock.
    pub(crate) fn mark_synced(&mut self, now: Time) {
        self.synced_at = Some(self.config.coarse(now));
    }

    pub(crate) fn was_synced(&self) -> bool {
        self.synced_at.is_some()
    }

    /// Returns whether it equals a new entry, and takes part in no sync round.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.status == SyncStatus::Idle && self.state.is_fresh(now)
    }

    /// Returns whether there are pending deltas, leased tokens, or a call in flight.
    pub(crate) fn has_pending(&self) -> bool {
        self.is_in_flight() || self.state.has_pending()
    }

    /// Returns whether it can be evicted if the table is full: the central store knows all of it.
    pub(super) fn is_evictable(&self) -> bool {
        !self.is_due() && !self.has_pending()
    }
}
