//! A row: the state of a limit, the ids of the last transactions, and the verdicts recorded by idempotency key.
//! `codec` has its stored format.

use std::time::Duration;

use tollgate_core::store::{RawDecision, State};
use tollgate_core::{Charge, Decision, ErrorKind, IdempotencyKey, Limit, Outcome, Source, StoreError, Time};

/// How many transaction ids a row keeps, to find out whether a transaction whose response was lost was applied.
pub(crate) const MAX_TRANSACTIONS: usize = 16;
/// How many idempotency keys a row keeps.
pub(crate) const MAX_RECORDS: usize = 16;
/// How many decisions all of these have at most, so that a row stays small.
const MAX_RECORDED_DECISIONS: usize = 512;
/// How long a row with idempotency keys is kept at least.
const RECORD_RETENTION: Duration = Duration::from_secs(60);
/// Servers reject a time-to-live that ends later, unless they are configured otherwise: they count seconds in 31
/// bits.
const LATEST_EXPIRY: Time = Time::from_secs(2_147_400_000);
/// The longest time-to-live. A state that is not used for this long is lost.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The id of a transaction: 16 bits for the store that wrote it, and 48 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionId(pub(crate) u64);

impl TransactionId {
    /// Creates a unique id for a transaction of the given writer.
    pub(crate) fn random(writer: u16) -> Self {
        // The upper half of a unique idempotency key is random.
        Self(u64::from(writer) << 48 | (IdempotencyKey::unique().get() >> 80) as u64)
    }

    fn writer(self) -> u16 {
        u16::try_from(self.0 >> 48).unwrap_or(u16::MAX)
    }

    /// Returns what is stored for the time of a transaction: it looks like the id of a transaction of a writer that
    /// does not exist, so that earlier versions of this program read it, too. Instants have 62 bits, of which the last
    /// 14 (16 microseconds) are left out.
    pub(crate) fn from_time(time: Time) -> Self {
        Self(u64::from(NO_WRITER) << 48 | time.nanos() >> TIME_UNIT)
    }

    /// Returns the time, if this is not the id of a transaction.
    pub(crate) fn time(self) -> Option<Time> {
        (self.writer() == NO_WRITER).then(|| Time::from_nanos(self.0 << 16 >> (16 - TIME_UNIT)))
    }
}

/// The writer of no transaction.
pub(crate) const NO_WRITER: u16 = u16::MAX;
/// The unit of stored times, as a power of two, in nanoseconds.
const TIME_UNIT: u32 = 14;

/// The content of a row. A row that does not exist is the default: a fresh state, and no history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: State,
    /// The oldest first.
    pub(crate) transactions: Vec<TransactionId>,
    /// What the clock of the last transaction's writer showed.
    pub(crate) written_at: Option<Time>,
    /// The oldest first.
    pub(crate) records: Vec<IdempotencyRecord>,
}

/// The decisions of a run with an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IdempotencyRecord {
    pub(crate) key: IdempotencyKey,
    /// How many charges each request of the run has.
    pub(crate) charges: u8,
    /// The decisions of all requests, one per charge.
    pub(crate) decisions: Vec<RecordedDecision>,
}

/// The part of a decision that a repeated call must return unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedDecision {
    pub(crate) outcome: RecordedOutcome,
    pub(crate) granted: u32,
    pub(crate) starts_at: Time,
}

/// The outcomes that a state can decide, by their stored code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordedOutcome {
    Allowed = 0,
    Denied = 1,
    NeverFits = 2,
    LeaseLost = 3,
}

impl RecordedOutcome {
    const ALL: [Self; 4] = [Self::Allowed, Self::Denied, Self::NeverFits, Self::LeaseLost];

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| *outcome as u8 == code)
    }

    pub(crate) fn new(outcome: Outcome) -> Result<Self, StoreError> {
        match outcome {
            Outcome::Allowed => Ok(Self::Allowed),
            Outcome::Denied => Ok(Self::Denied),
            Outcome::NeverFits => Ok(Self::NeverFits),
            Outcome::LeaseLost => Ok(Self::LeaseLost),
            // A deny list is applied before the store; other outcomes are newer than the stored format.
            other => {
                let message = format!("cassandra: the outcome `{other}` has no stored form");
                Err(StoreError::new(ErrorKind::Internal, message))
            }
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::Allowed => Outcome::Allowed,
            Self::Denied => Outcome::Denied,
            Self::NeverFits => Outcome::NeverFits,
            Self::LeaseLost => Outcome::LeaseLost,
        }
    }
}

impl RecordedDecision {
    pub(crate) fn new(decision: &Decision, now: Time) -> Result<Self, StoreError> {
        let raw = decision.raw();
        let (outcome, starts_at) = (RecordedOutcome::new(raw.outcome)?, now + Duration::from_nanos(raw.wait));
        Ok(Self { outcome, granted: raw.granted, starts_at })
    }

    /// Returns the recorded decision, with all other fields taken from a current one.
    pub(crate) fn replay(&self, current: &Decision, now: Time) -> Decision {
        let wait = u64::try_from(self.starts_at.since(now).as_nanos()).unwrap_or(u64::MAX);
        RawDecision { outcome: self.outcome.outcome(), granted: self.granted, wait, ..current.raw() }.into()
    }

    /// Returns the compensating charge for what was granted, dated when it was.
    pub(crate) fn compensation<'a>(&self, charge: &Charge<'a>) -> Option<Charge<'a>> {
        let granted = self.replay(&RawDecision::allow(charge, Source::Store).into(), self.starts_at);
        charge.compensation(&granted, self.starts_at)
    }
}

impl Row {
    pub(crate) fn record(&self, key: IdempotencyKey) -> Option<&IdempotencyRecord> {
        self.records.iter().find(|record| record.key == key)
    }

    /// Adds a record, and removes the oldest ones beyond the maximum.
    pub(crate) fn push_record(&mut self, record: IdempotencyRecord) {
        self.records.push(record);
        let decisions = |records: &[IdempotencyRecord]| {
            records.iter().map(|record| record.decisions.len()).sum::<usize>()
        };
        while self.records.len() > MAX_RECORDS
            || self.records.len() > 1 && decisions(&self.records) > MAX_RECORDED_DECISIONS
        {
            self.records.remove(0);
        }
    }

    pub(crate) fn remove_record(&mut self, key: IdempotencyKey) -> Option<IdempotencyRecord> {
        let index = self.records.iter().position(|record| record.key == key)?;
        Some(self.records.remove(index))
    }

    /// Returns the time-to-live to write the row with, in seconds: until the state equals a fresh one, rounded up,
    /// plus the margin.
    pub(crate) fn time_to_live(&self, now: Time, margin: Duration) -> i32 {
        let needed = self.state.fresh_at().since(now).max(self.retention()).saturating_add(margin);
        let mut longest = MAX_TTL;
        if now < LATEST_EXPIRY {
            longest = longest.min(LATEST_EXPIRY.since(now).max(Duration::from_secs(86_400)));
        }
        i32::try_from(needed.min(longest).as_secs() + 1).unwrap_or(i32::MAX)
    }

    /// Returns whether the row can still exist on the server. When it was written is not known.
    pub(crate) fn is_alive_at(&self, now: Time, margin: Duration) -> bool {
        let kept = margin.saturating_add(self.retention()).saturating_add(Duration::from_secs(2));
        now.since(self.state.fresh_at()) <= kept
    }

    fn retention(&self) -> Duration {
        if self.records.is_empty() { Duration::ZERO } else { RECORD_RETENTION }
    }

    /// Returns whether both rows have the same content, apart from their transaction ids.
    pub(crate) fn is_equivalent(&self, other: &Self, limit: &Limit, now: Time) -> bool {
        self.records == other.records && is_equivalent_state(&self.state, &other.state, limit, now)
    }

    /// Adds a transaction id with the time of its writer's clock, and removes the oldest ones beyond the maximum.
    pub(crate) fn push_transaction(&mut self, id: TransactionId, now: Time) {
        self.written_at = TransactionId::from_time(now).time();
        self.transactions.push(id);
        let excess = self.transactions.len().saturating_sub(MAX_TRANSACTIONS);
        self.transactions.drain(..excess);
    }

    /// Returns how many other stores are among the writers of the recorded transactions, and whether `this` one is.
    pub(crate) fn writers(&self, this: u16) -> (usize, bool) {
        let mut others: Vec<u16> = self.transactions.iter().map(|id| id.writer()).collect();
        others.sort_unstable();
        others.dedup();
        let all = others.len();
        others.retain(|writer| *writer != this);
        (others.len(), others.len() < all)
    }

    /// Returns what the clock of the last writer showed, if that is not `this` one.
    pub(crate) fn written_by_others_at(&self, this: u16) -> Option<Time> {
        let last = self.transactions.last()?;
        self.written_at.filter(|_| last.writer() != this)
    }

    pub(crate) fn has_transaction(&self, id: TransactionId) -> bool {
        self.transactions.contains(&id)
    }

    /// Returns whether this row records all transactions that followed on `earlier`.
    pub(crate) fn has_all_since(&self, earlier: &Self) -> bool {
        match earlier.transactions.last() {
            Some(last) => self.has_transaction(*last),
            // The row did not exist, and has not been written often enough to have dropped an id.
            None => self.transactions.len() < MAX_TRANSACTIONS,
        }
    }
}

/// Returns whether it makes no difference which of the two states is stored.
pub(crate) fn is_equivalent_state(one: &State, other: &State, limit: &Limit, now: Time) -> bool {
    let both_expired = one.is_fresh(now) && other.is_fresh(now);
    (both_expired || one.fresh_at() == other.fresh_at())
        && one.snapshot(limit).words() == other.snapshot(limit).words()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_790_000_000);

    #[test]
    fn the_oldest_transactions_and_records_are_removed() {
        let mut row = Row::default();
        for number in 0..40 {
            row.push_transaction(TransactionId(number), NOW);
            let key = IdempotencyKey::new(number.into());
            row.push_record(IdempotencyRecord { key, charges: 0, decisions: Vec::new() });
        }
        let has = |id| row.has_transaction(TransactionId(id));
        assert!(has(39) && has(24) && !has(23));
        let recorded = |key| row.record(IdempotencyKey::new(key)).is_some();
        assert!(recorded(24) && !recorded(23));
    }

    /// A transaction that is not recorded was not applied, as long as the record reaches back to the row it started
    /// from.
    #[test]
    fn a_row_knows_how_far_back_its_transactions_reach() {
        let mut row = Row::default();
        let missing = row.clone();
        row.push_transaction(TransactionId(100), NOW);
        let written_once = row.clone();
        for number in 0..15 {
            assert!(row.has_all_since(&missing) && row.has_all_since(&written_once));
            row.push_transaction(TransactionId(number), NOW);
        }
        assert!(!row.has_all_since(&missing), "it may have dropped ids");
        assert!(row.has_all_since(&written_once));
        row.push_transaction(TransactionId(15), NOW);
        assert!(!row.has_all_since(&written_once));
    }

    #[test]
    fn transaction_ids_identify_their_writers() {
        let mut row = Row::default();
        assert_eq!(row.writers(1), (0, false));
        for writer in [1, 2, 1, 3, 2] {
            row.push_transaction(TransactionId::random(writer), NOW);
        }
        assert_eq!((row.writers(1), row.writers(4)), ((2, true), (3, false)));
        for _ in 0..MAX_TRANSACTIONS {
            row.push_transaction(TransactionId::random(1), NOW);
        }
        assert_eq!(row.writers(1), (0, true));
    }

    #[test]
    fn a_row_shows_the_clock_of_its_last_writer() {
        let (mut row, later) = (Row::default(), NOW + Duration::from_millis(5));
        assert_eq!(row.written_by_others_at(1), None);
        row.push_transaction(TransactionId::random(1), later);
        row.push_transaction(TransactionId::random(2), NOW);
        assert_eq!(row.written_by_others_at(2), None);
        let shown = row.written_by_others_at(1).expect("written by another");
        assert!(shown <= NOW && NOW.since(shown) < Duration::from_micros(17), "{shown}");
        for time in [Time::EPOCH, Time::MAX] {
            let stored = TransactionId::from_time(time).time().expect("a time");
            assert!(stored <= time && time.since(stored) < Duration::from_micros(17), "{time}");
        }
        assert_eq!(TransactionId::random(NO_WRITER - 1).time(), None);
    }
}
