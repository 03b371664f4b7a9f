//! Batches: the pending deltas of many keys in one call, under one idempotency key.

use std::sync::Arc;

use tollgate_core::store::{Export, Store};
use tollgate_core::{Action, Charge, IdempotencyKey, Limit, Time};

use super::answered::AnsweredCall;
use crate::config::LimitConfig;
use crate::local::entry::{Entry, StoredKey};
use crate::local::pending::Delta;
use crate::local::replica::Sending;
use crate::local::table::Location;

/// How many charges a call contains: enough to make the overhead of each small, and few enough for every store.
pub(super) const MAX_CHARGES: usize = 250;

/// The deltas of one key, in flight.
#[derive(Debug)]
pub(super) struct KeyDeltas {
    pub(super) location: Location,
    pub(super) key: StoredKey,
    pub(super) config: Arc<LimitConfig>,
    pub(super) sending: Sending,
    /// When they were collected, by the deciding clock.
    pub(super) collected_at: Time,
    /// The central store has answered for this key before.
    pub(super) was_synced: bool,
    /// Their instants are those of the deciding clock.
    pub(super) central_dates: bool,
}

impl KeyDeltas {
    /// Takes the deltas of an entry, which is in flight from then on. `None` if it is in flight already, has a lease
    /// instead, or has nothing to send yet.
    pub(super) fn take(entry: &mut Entry, key: &StoredKey, location: Location, now: Time) -> Option<Self> {
        if entry.is_in_flight() || (entry.rechecks == 0 && entry.waits_for_report(now)) {
            return None;
        }
        let sending = entry.state.take_deltas(&entry.config, now, fastrand::f64())?;
        entry.set_in_flight(true);
        Some(Self {
            location,
            key: key.clone(),
            config: Arc::clone(&entry.config),
            sending,
            collected_at: now,
            was_synced: entry.was_synced(),
            central_dates: false,
        })
    }

    /// Returns a charge of this key, to be routed by.
    fn charge(&self) -> Charge<'_> {
        self.config.limit.charge(self.key.key())
    }

    /// Returns the charges on the key's state: the deltas, or one that changes nothing if there are none.
    fn state_charges(&self) -> impl Iterator<Item = Charge<'_>> {
        let charge = self.charge();
        let deltas = self.sending.deltas.deltas().flat_map(Delta::charges);
        let charges = deltas.map(move |(cost, action)| charge.with_cost(cost).with_action(action));
        // Local instants mean nothing to the central store. These deltas are an interval late at most.
        let mut charges =
            charges.map(|charge| if self.central_dates { charge } else { undated(charge) }).peekable();
        // A debit of zero changes nothing, and is never denied as a peek might be.
        let nothing = charges.peek().is_none().then(|| debit(charge, 0, None));
        nothing.into_iter().chain(charges)
    }

    /// Returns the charges on the key's records: usage and demand.
    fn record_charges(&self) -> [Option<Charge<'_>>; 2] {
        let (records, key) = (self.config.records.as_ref(), self.key.key());
        let amount = |amount: u64| u32::try_from(amount).unwrap_or(Limit::MAX_COUNT).min(Limit::MAX_COUNT);
        let usage = records.and_then(|records| {
            let charge = records.usage.as_ref()?.charge(key);
            Some(debit(charge, amount(self.sending.usage?), None))
        });
        let demand = records.and_then(|records| {
            let report = self.sending.report?;
            let at = self.central_dates.then_some(report.at);
            Some(debit(records.demand.charge(key), amount(report.amount), at))
        });
        [usage, demand]
    }

    /// Returns all charges to send: those on the state, and those on its records.
    pub(super) fn charges(&self) -> impl Iterator<Item = Charge<'_>> {
        self.state_charges().chain(self.record_charges().into_iter().flatten())
    }

    /// Returns the answers for this key among those of its batch: the state, the usage record and the demand record.
    /// `None` if there are too few.
    pub(super) fn answers(&self, exports: &mut impl Iterator<Item = Export>) -> Option<[Option<Export>; 3]> {
        // One state per charge, all of them the same.
        let state = exports.by_ref().take(self.state_charges().count()).last()?;
        let [usage, demand] = self.record_charges().map(|charge| charge.and_then(|_| exports.next()));
        Some([Some(state), usage, demand])
    }
}

fn debit(charge: Charge<'_>, amount: u32, at: Option<Time>) -> Charge<'_> {
    charge.with_cost(amount).with_action(Action::Debit { at })
}

/// The deltas of several keys, which are applied by one call, all or none.
///
/// A batch without an answer is sent again as it is, under the same idempotency key, until it has one: so nothing is
/// lost, and nothing is applied twice while the central store recognizes the key. Deltas that its keys get in the
/// meantime wait for a later batch.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) id: IdempotencyKey,
    pub(super) keys: Vec<KeyDeltas>,
    /// It may have been applied, and the answer lost: it has to keep its idempotency key.
    pub(super) in_doubt: bool,
    /// A call with it failed.
    pub(super) failed: bool,
    /// How often it was rejected in a row because of one of its keys.
    pub(super) rejections: u8,
}

impl Batch {
    pub(super) fn new(keys: Vec<KeyDeltas>) -> Self {
        Self { id: IdempotencyKey::unique(), keys, in_doubt: false, failed: false, rejections: 0 }
    }

    pub(super) fn charges(&self) -> impl Iterator<Item = Charge<'_>> {
        self.keys.iter().flat_map(KeyDeltas::charges)
    }

    /// Returns the call that the central store remembers once it is answered. `None` if it changes nothing.
    pub(super) fn remembered(&self) -> Option<AnsweredCall> {
        self.charges().find(|charge| charge.cost() > 0)?;
        Some(AnsweredCall { key: self.keys.first()?.key.clone(), id: self.id })
    }
}

/// Groups the deltas of keys into as few batches as possible: keys with the same route, and at most [`MAX_CHARGES`].
pub(super) fn batches(store: &impl Store, mut keys: Vec<KeyDeltas>) -> Vec<Batch> {
    let route = |key: &KeyDeltas| store.route(&key.charge());
    keys.sort_by_cached_key(route);
    let mut batches: Vec<Batch> = Vec::new();
    let (mut charges, mut last) = (0, None);
    for key in keys {
        let (more, route) = (key.charges().count(), route(&key));
        if last != Some(route) || charges + more > MAX_CHARGES {
            batches.push(Batch::new(Vec::new()));
            (charges, last) = (0, Some(route));
        }
        charges += more;
        if let Some(batch) = batches.last_mut() {
            batch.keys.push(key);
        }
    }
    batches
}

/// Removes the instant of a delta.
fn undated(charge: Charge<'_>) -> Charge<'_> {
    charge.with_action(charge.action().map_instant(|_| None))
}
