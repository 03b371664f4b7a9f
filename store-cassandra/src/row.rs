//! What a row holds: the words of a state, the stamps of the last transactions, the last named operations.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of this layout |
//! | 1 | the algorithm's number |
//! | 8 | from when on the state equals a fresh one |
//! | 2, then 8 each | the words of the state's snapshot |
//! | 1, then 8 each | stamps, the oldest first: 2 bytes for the writer, 6 for the transaction |
//! | 1, then | operations, the oldest first: |
//! | 16, 2, 1, then 13 each | id, requests, charges of each; for each charge: outcome, granted, when it starts |
//!
//! Parameters have their highest byte first.

use std::time::Duration;

use tollgate_core::store::{RawDecision, Snapshot, State};
use tollgate_core::{
    AlgorithmKind, Charge, Decision, ErrorKind, IdempotencyKey, Limit, Outcome, Source, StoreError, Time,
};

/// The version of the layout that this program writes.
const VERSION: u8 = 1;
/// How many transactions a row remembers, to find out what became of one whose answer was lost.
pub(crate) const MOST_STAMPS: usize = 16;
/// How many named operations a row remembers.
pub(crate) const MOST_OPERATIONS: usize = 16;
/// How many decisions of them, so that a row stays small.
const MOST_TOLD: usize = 512;
/// For how long a row with named operations is kept at least.
const OPERATION_MEMORY: Duration = Duration::from_secs(60);
/// Servers take no time-to-live that ends after this, unless they are told to: seconds were counted in 31 bits.
const LAST_END: Time = Time::from_secs(2_147_400_000);
/// The longest time-to-live. A state that is not used for this long is gone.
const LONGEST_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A stamp that nobody has used before, of a store that has drawn a number for itself.
pub(crate) fn new_stamp(writer: u16) -> u64 {
    // The upper half of an id is random.
    u64::from(writer) << 48 | (IdempotencyKey::unique().get() >> 80) as u64
}

fn writer(stamp: u64) -> u16 {
    u16::try_from(stamp >> 48).unwrap_or(u16::MAX)
}

/// A row that is there. A missing one is the default: fresh, and nothing is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: State,
    stamps: Vec<u64>,
    operations: Vec<Operation>,
}

/// A named call, and what it was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    pub(crate) id: IdempotencyKey,
    /// How many charges each of its requests has.
    pub(crate) charges: u8,
    /// For each request its charges.
    pub(crate) told: Vec<Told>,
}

/// The part of a decision that a repetition must agree in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) granted: u32,
    pub(crate) starts_at: Time,
}

impl Told {
    pub(crate) fn of(decision: &Decision, now: Time) -> Self {
        let raw = decision.raw();
        Self { outcome: raw.outcome, granted: raw.granted, starts_at: now + Duration::from_nanos(raw.wait) }
    }

    /// The decision once more, with the other numbers of what is there now.
    pub(crate) fn again(&self, there: &Decision, now: Time) -> Decision {
        let wait = u64::try_from(self.starts_at.since(now).as_nanos()).unwrap_or(u64::MAX);
        RawDecision { outcome: self.outcome, granted: self.granted, wait, ..there.raw() }.into()
    }

    /// The charge that gives back what this one was granted, when it was.
    pub(crate) fn undo<'a>(&self, charge: &Charge<'a>) -> Option<Charge<'a>> {
        let granted = self.again(&RawDecision::allow(charge, Source::Store).into(), self.starts_at);
        charge.compensation(&granted, self.starts_at)
    }
}

impl Row {
    pub(crate) fn operation(&self, id: IdempotencyKey) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }

    pub(crate) fn remember(&mut self, operation: Operation) {
        self.operations.push(operation);
        let told =
            |operations: &[Operation]| operations.iter().map(|operation| operation.told.len()).sum::<usize>();
        while self.operations.len() > MOST_OPERATIONS
            || self.operations.len() > 1 && told(&self.operations) > MOST_TOLD
        {
            self.operations.remove(0);
        }
    }

    /// Forgets an operation, and says what it was.
    pub(crate) fn disown(&mut self, id: IdempotencyKey) -> Option<Operation> {
        let index = self.operations.iter().position(|operation| operation.id == id)?;
        Some(self.operations.remove(index))
    }

    /// How long the row is kept once it is written, in seconds: until it equals a fresh one, rounded up, and by the margin
    /// longer.
    pub(crate) fn time_to_live(&self, now: Time, margin: Duration) -> i32 {
        let needed = self.state.fresh_at().since(now).max(self.memory()).saturating_add(margin);
        let mut longest = LONGEST_LIFE;
        if now < LAST_END {
            longest = longest.min(LAST_END.since(now).max(Duration::from_secs(86_400)));
        }
        i32::try_from(needed.min(longest).as_secs() + 1).unwrap_or(i32::MAX)
    }

    /// Whether the row is still there, as far as that can be told without knowing when it was written.
    pub(crate) fn is_kept_at(&self, now: Time, margin: Duration) -> bool {
        let kept = margin.saturating_add(self.memory()).saturating_add(Duration::from_secs(2));
        now.since(self.state.fresh_at()) <= kept
    }

    fn memory(&self) -> Duration {
        if self.operations.is_empty() { Duration::ZERO } else { OPERATION_MEMORY }
    }

    /// Whether both say the same, apart from who wrote them.
    pub(crate) fn says_the_same(&self, other: &Self, limit: &Limit, now: Time) -> bool {
        self.operations == other.operations && same_state(&self.state, &other.state, limit, now)
    }

    pub(crate) fn stamp(&mut self, stamp: u64) {
        self.stamps.push(stamp);
        let old = self.stamps.len().saturating_sub(MOST_STAMPS);
        self.stamps.drain(..old);
    }

    /// Whose transactions the row remembers: how many writers other than this one, and whether it is one itself.
    pub(crate) fn writers(&self, this: u16) -> (usize, bool) {
        let mut others: Vec<u16> = self.stamps.iter().map(|stamp| writer(*stamp)).collect();
        others.sort_unstable();
        others.dedup();
        let all = others.len();
        others.retain(|writer| *writer != this);
        (others.len(), others.len() < all)
    }

    pub(crate) fn has_stamp(&self, stamp: u64) -> bool {
        self.stamps.contains(&stamp)
    }

    /// Whether a transaction that is not among this row's stamps cannot have followed on `earlier`.
    pub(crate) fn tells_all_since(&self, earlier: &Self) -> bool {
        match earlier.stamps.last() {
            Some(last) => self.has_stamp(*last),
            // It was not there, and has not been written often enough to have forgotten anything.
            None => self.stamps.len() < MOST_STAMPS,
        }
    }

    pub(crate) fn encode(&self, limit: &Limit) -> Vec<u8> {
        let snapshot = self.state.snapshot(limit);
        let words = snapshot.words();
        let mut bytes =
            Vec::with_capacity(13 + 8 * (words.len() + self.stamps.len()) + 32 * self.operations.len());
        bytes.extend([VERSION, snapshot.kind() as u8]);
        bytes.extend(self.state.fresh_at().nanos().to_be_bytes());
        bytes.extend(number::<u16>(words.len()).to_be_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        bytes.push(number(self.stamps.len()));
        bytes.extend(self.stamps.iter().flat_map(|stamp| stamp.to_be_bytes()));
        bytes.push(number(self.operations.len()));
        for Operation { id, charges, told } in &self.operations {
            bytes.extend(id.get().to_be_bytes());
            bytes.extend(number::<u16>(told.len() / usize::from(*charges).max(1)).to_be_bytes());
            bytes.push(*charges);
            for Told { outcome, granted, starts_at } in told {
                bytes.push(code(*outcome));
                bytes.extend(granted.to_be_bytes());
                bytes.extend(starts_at.nanos().to_be_bytes());
            }
        }
        bytes
    }

    /// The row of a limit, from what the server has.
    pub(crate) fn decode(limit: &Limit, bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |why: &str| {
            let advice = "delete that row, or give the store a table of its own";
            StoreError::new(
                ErrorKind::Corrupt,
                format!("limit `{}`: cassandra holds a row {why}; {advice}", limit.name()),
            )
        };
        match bytes.first() {
            Some(&VERSION) => {}
            Some(other) => {
                return Err(corrupt(&format!("of version {other}, and this program knows {VERSION}")));
            }
            None => return Err(corrupt("that is empty")),
        }
        let parts = Parts(&bytes[1..]).row().ok_or_else(|| corrupt("that is cut short"))?;
        let (kind, fresh_at, words, stamps, operations) = parts;
        let kind = AlgorithmKind::from_code(kind).ok_or_else(|| corrupt("of an unknown algorithm"))?;
        let snapshot = Snapshot::from_parts(Snapshot::VERSION, kind, words);
        let state = State::from_stored(limit, &snapshot, fresh_at)
            .map_err(|error| corrupt(&format!("that makes no sense ({error})")))?;
        Ok(Self { state, stamps, operations })
    }
}

/// Whether it makes no difference which of two states is stored.
pub(crate) fn same_state(one: &State, other: &State, limit: &Limit, now: Time) -> bool {
    let both_ended = one.is_fresh(now) && other.is_fresh(now);
    (both_ended || one.fresh_at() == other.fresh_at())
        && one.snapshot(limit).words() == other.snapshot(limit).words()
}

/// What a call can be told.
const OUTCOMES: [Outcome; 4] = [Outcome::Allowed, Outcome::Denied, Outcome::NeverFits, Outcome::LeaseLost];

fn code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Allowed => 0,
        Outcome::NeverFits => 2,
        Outcome::LeaseLost => 3,
        // Whatever there may be one day is a denial to this program.
        _ => 1,
    }
}

/// A length that is small by construction.
fn number<T: TryFrom<usize>>(length: usize) -> T {
    T::try_from(length).unwrap_or_else(|_| unreachable!("rows are bounded long before that"))
}

/// What is left to be read.
struct Parts<'a>(&'a [u8]);

type RowParts = (u8, Time, Vec<u64>, Vec<u64>, Vec<Operation>);

impl Parts<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn words(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.word()).collect()
    }

    fn row(mut self) -> Option<RowParts> {
        let (kind, fresh_at) = (self.byte()?, Time::from_nanos(self.word()?));
        let words = u16::from_be_bytes(self.take()?);
        let words = self.words(words.into())?;
        let stamps = self.byte()?;
        let stamps = self.words(stamps.into())?;
        let operations = self.byte()?;
        let operations = (0..operations).map(|_| self.operation()).collect::<Option<_>>()?;
        self.0.is_empty().then_some((kind, fresh_at, words, stamps, operations))
    }

    fn operation(&mut self) -> Option<Operation> {
        let id = IdempotencyKey::new(u128::from_be_bytes(self.take()?));
        let (requests, charges) = (u16::from_be_bytes(self.take()?), self.byte()?);
        let told =
            (0..usize::from(requests) * usize::from(charges)).map(|_| self.told()).collect::<Option<_>>()?;
        Some(Operation { id, charges, told })
    }

    fn told(&mut self) -> Option<Told> {
        let byte = self.byte()?;
        let outcome = OUTCOMES.into_iter().find(|outcome| code(*outcome) == byte)?;
        let granted = u32::from_be_bytes(self.take()?);
        Some(Told { outcome, granted, starts_at: Time::from_nanos(self.word()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::LeaseId;

    const NOW: Time = Time::from_secs(1_790_000_000);

    fn limits() -> [Limit; 8] {
        let (five, minute) = (|| Limit::per_hour(5), Duration::from_secs(60));
        [
            five(),
            five().refill_by_interval(),
            five().queue(4),
            five().warm_up(minute),
            five().fixed_window().block_for(minute),
            five().sliding_counter(4),
            five().sliding_log(),
            Limit::concurrent(5).lease(minute),
        ]
        .map(|limit| limit.build("limit").expect("valid"))
    }

    /// With all that there can be in one.
    fn row(limit: &Limit) -> Row {
        let mut row = Row::default();
        let charge = limit.charge("k").with_cost(2).with_lease(LeaseId::unique());
        let told = Told::of(&row.state.apply(&charge, NOW), NOW);
        row.stamp(7);
        row.stamp(8);
        row.remember(Operation { id: IdempotencyKey::new(9), charges: 1, told: vec![told] });
        row
    }

    #[test]
    fn a_row_is_what_was_written() {
        for limit in limits() {
            let row = row(&limit);
            assert_eq!(Row::decode(&limit, &row.encode(&limit)).expect("a row"), row);
        }
    }

    #[test]
    fn a_row_that_is_cut_short_is_none() {
        for limit in limits() {
            let bytes = row(&limit).encode(&limit);
            for length in 0..bytes.len() {
                let error = Row::decode(&limit, &bytes[..length]).expect_err("cut short");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{length} of {}", bytes.len());
            }
            assert!(Row::decode(&limit, &[&bytes[..], &[0]].concat()).is_err(), "too long");
        }
    }

    #[test]
    fn a_row_with_any_byte_changed_is_another_or_none() {
        for limit in limits() {
            let bytes = row(&limit).encode(&limit);
            for index in 0..bytes.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut strange = bytes.clone();
                    strange[index] ^= flip;
                    // Whatever it is: it can be decided with, and written.
                    if let Ok(mut row) = Row::decode(&limit, &strange) {
                        let _ = row.state.apply(&limit.charge("k").with_lease(LeaseId::unique()), NOW);
                        row.stamp(1);
                        assert!(!row.encode(&limit).is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn the_oldest_stamps_and_operations_go() {
        let mut row = Row::default();
        for number in 0..40 {
            row.stamp(number);
            row.remember(Operation { id: IdempotencyKey::new(number.into()), charges: 0, told: Vec::new() });
        }
        assert!(row.has_stamp(39) && row.has_stamp(24) && !row.has_stamp(23));
        assert!(
            row.operation(IdempotencyKey::new(24)).is_some()
                && row.operation(IdempotencyKey::new(23)).is_none()
        );
    }

    /// A transaction that is not among the stamps was not executed, as long as those reach back to where it would have begun.
    #[test]
    fn a_row_knows_how_far_back_it_remembers() {
        let mut row = Row::default();
        let missing = row.clone();
        row.stamp(100);
        let begun = row.clone();
        for number in 0..15 {
            assert!(row.tells_all_since(&missing) && row.tells_all_since(&begun));
            row.stamp(number);
        }
        assert!(!row.tells_all_since(&missing), "it may have had stamps that it has forgotten");
        assert!(row.tells_all_since(&begun));
        row.stamp(15);
        assert!(!row.tells_all_since(&begun));
    }

    #[test]
    fn stamps_tell_their_writers() {
        let mut row = Row::default();
        assert_eq!(row.writers(1), (0, false));
        for writer in [1, 2, 1, 3, 2] {
            row.stamp(new_stamp(writer));
        }
        assert_eq!((row.writers(1), row.writers(4)), ((2, true), (3, false)));
        for _ in 0..MOST_STAMPS {
            row.stamp(new_stamp(1));
        }
        assert_eq!(row.writers(1), (0, true));
    }
}
