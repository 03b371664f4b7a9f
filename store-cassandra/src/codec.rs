//! The stored format of a row, the value of the column `state`.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version of this format |
//! | 1 | code of the algorithm |
//! | 8 | when the state equals a fresh one |
//! | 2, then 8 each | words of the state's snapshot |
//! | 1, then 8 each | transaction ids, the oldest first: 2 bytes for the writer, 6 random bytes |
//! | 1, then | idempotency records, the oldest first: |
//! | 16, 2, 1, then 13 each | key, requests, charges per request; for each charge: outcome, granted, start |
//!
//! Integers are big-endian. Before the last transaction id is the time of its writer's clock: 2 bytes of ones and 6
//! bytes for the time in units of 2^14 ns. Programs that do not know it take it for the id of another transaction.

use tollgate_core::store::{Snapshot, State};
use tollgate_core::{AlgorithmKind, ErrorKind, IdempotencyKey, Limit, StoreError, Time};

use crate::row::{IdempotencyRecord, RecordedDecision, RecordedOutcome, Row, TransactionId};

/// The version of the format that this program reads and writes.
const VERSION: u8 = 1;

impl Row {
    pub(crate) fn encode(&self, limit: &Limit) -> Vec<u8> {
        let snapshot = self.state.snapshot(limit);
        let words = snapshot.words();
        let mut bytes =
            Vec::with_capacity(13 + 8 * (words.len() + self.transactions.len()) + 32 * self.records.len());
        bytes.extend([VERSION, snapshot.kind() as u8]);
        bytes.extend(self.state.fresh_at().nanos().to_be_bytes());
        bytes.extend(length::<u16>(words.len()).to_be_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let (last, earlier) =
            self.transactions.split_last().map_or((None, &[][..]), |(last, rest)| (Some(*last), rest));
        let written_at = self.written_at.filter(|_| last.is_some()).map(TransactionId::from_time);
        let transactions: Vec<_> = earlier.iter().copied().chain(written_at).chain(last).collect();
        bytes.push(length(transactions.len()));
        bytes.extend(transactions.iter().flat_map(|id| id.0.to_be_bytes()));
        bytes.push(length(self.records.len()));
        for IdempotencyRecord { key, charges, decisions } in &self.records {
            bytes.extend(key.get().to_be_bytes());
            bytes.extend(length::<u16>(decisions.len() / usize::from(*charges).max(1)).to_be_bytes());
            bytes.push(*charges);
            for RecordedDecision { outcome, granted, starts_at } in decisions {
                bytes.push(*outcome as u8);
                bytes.extend(granted.to_be_bytes());
                bytes.extend(starts_at.nanos().to_be_bytes());
            }
        }
        bytes
    }

    /// Decodes the row of a limit.
    pub(crate) fn decode(limit: &Limit, bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |why: &str| {
            let advice = "delete the row, or use a table that only this store writes to";
            let message = format!("limit `{}`: its row in cassandra {why}; {advice}", limit.name());
            StoreError::new(ErrorKind::Corrupt, message)
        };
        match bytes.first() {
            Some(&VERSION) => {}
            Some(other) => {
                return Err(corrupt(&format!(
                    "has format version {other}, but this program reads version {VERSION}"
                )));
            }
            None => return Err(corrupt("is empty")),
        }
        let fields = Reader(&bytes[1..]).row().ok_or_else(|| corrupt("has the wrong length"))?;
        let (kind, fresh_at, words, mut transactions, records) = fields;
        // Rows of earlier versions of this program have no time, or not that of the last transaction.
        let written_at = transactions.iter().rev().nth(1).and_then(|id| id.time());
        transactions.retain(|id| id.time().is_none());
        let kind = AlgorithmKind::from_code(kind).ok_or_else(|| corrupt("has an unknown algorithm"))?;
        let snapshot = Snapshot::from_parts(Snapshot::VERSION, kind, words);
        let state = State::from_stored(limit, &snapshot, fresh_at)
            .map_err(|error| corrupt(&format!("has an invalid state ({error})")))?;
        Ok(Self { state, transactions, written_at, records })
    }
}

/// Converts a length that is small by construction.
fn length<T: TryFrom<usize>>(length: usize) -> T {
    T::try_from(length).unwrap_or_else(|_| unreachable!("rows are bounded to far fewer entries"))
}

/// The bytes that have not been read yet.
struct Reader<'a>(&'a [u8]);

type RowFields = (u8, Time, Vec<u64>, Vec<TransactionId>, Vec<IdempotencyRecord>);

impl Reader<'_> {
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

    fn row(mut self) -> Option<RowFields> {
        let (kind, fresh_at) = (self.byte()?, Time::from_nanos(self.word()?));
        let words = u16::from_be_bytes(self.take()?);
        let words = (0..words).map(|_| self.word()).collect::<Option<_>>()?;
        let transactions = self.byte()?;
        let transactions = (0..transactions).map(|_| self.word().map(TransactionId));
        let transactions = transactions.collect::<Option<_>>()?;
        let records = self.byte()?;
        let records = (0..records).map(|_| self.record()).collect::<Option<_>>()?;
        self.0.is_empty().then_some((kind, fresh_at, words, transactions, records))
    }

    fn record(&mut self) -> Option<IdempotencyRecord> {
        let key = IdempotencyKey::new(u128::from_be_bytes(self.take()?));
        let (requests, charges) = (u16::from_be_bytes(self.take()?), self.byte()?);
        let decisions = (0..usize::from(requests) * usize::from(charges)).map(|_| self.decision());
        let decisions = decisions.collect::<Option<_>>()?;
        Some(IdempotencyRecord { key, charges, decisions })
    }

    fn decision(&mut self) -> Option<RecordedDecision> {
        let outcome = RecordedOutcome::from_code(self.byte()?)?;
        let granted = u32::from_be_bytes(self.take()?);
        Some(RecordedDecision { outcome, granted, starts_at: Time::from_nanos(self.word()?) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tollgate_core::{LeaseId, Outcome};

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

    /// A row with every kind of content.
    fn row(limit: &Limit) -> Row {
        let mut row = Row::default();
        let charge = limit.charge("k").with_cost(2).with_lease(LeaseId::unique());
        let decision = RecordedDecision::new(&row.state.apply(&charge, NOW), NOW).expect("a stored form");
        row.push_transaction(TransactionId(7), NOW);
        row.push_transaction(TransactionId(8), NOW);
        let key = IdempotencyKey::new(9);
        row.push_record(IdempotencyRecord { key, charges: 1, decisions: vec![decision] });
        row
    }

    #[test]
    fn decoding_restores_the_encoded_row() {
        for limit in limits() {
            let row = row(&limit);
            assert_eq!(Row::decode(&limit, &row.encode(&limit)).expect("a row"), row);
        }
    }

    /// Rows of running clusters have this format.
    #[test]
    fn the_stored_format_never_changes() {
        let limit = Limit::per_hour(3_600).build("limit").expect("valid");
        let mut row = Row::default();
        let decision = RecordedDecision::new(&row.state.apply(&limit.charge("k"), NOW), NOW);
        row.push_transaction(TransactionId(0x0102_0304_0506_0708), NOW);
        let (key, decisions) = (IdempotencyKey::new(9), vec![decision.expect("a stored form")]);
        row.push_record(IdempotencyRecord { key, charges: 1, decisions });
        let words = row.state.snapshot(&limit).words().to_vec();
        let tat = NOW + Duration::from_secs(1);
        let expected = [
            &[1, 1][..],
            &tat.nanos().to_be_bytes(),
            &[0, u8::try_from(words.len()).expect("few words")],
            &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>(),
            &[2, 0xff, 0xff],
            &(NOW.nanos() >> 14).to_be_bytes()[2..],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            &[0, 1, 1],
            &[0, 0, 0, 0, 1],
            &NOW.nanos().to_be_bytes(),
        ]
        .concat();
        assert_eq!(row.encode(&limit), expected);
        let codes = [Outcome::Allowed, Outcome::Denied, Outcome::NeverFits, Outcome::LeaseLost]
            .map(|outcome| RecordedOutcome::new(outcome).expect("a stored form") as u8);
        assert_eq!(codes, [0, 1, 2, 3]);
    }

    /// Those have no times, or times of transactions that others have followed.
    #[test]
    fn rows_of_earlier_versions_are_read() {
        let limit = Limit::per_hour(3_600).build("limit").expect("valid");
        let mut row = row(&limit);
        row.written_at = None;
        assert_eq!(Row::decode(&limit, &row.encode(&limit)).expect("a row"), row);
        let followed = [TransactionId(1), TransactionId::from_time(NOW), TransactionId(2), TransactionId(3)];
        row.transactions = followed.into();
        let decoded = Row::decode(&limit, &row.encode(&limit)).expect("a row");
        assert_eq!(decoded.transactions, [1, 2, 3].map(TransactionId));
        assert_eq!(decoded.written_at, None);
    }

    #[test]
    fn a_row_of_the_wrong_length_is_corrupt() {
        for limit in limits() {
            let bytes = row(&limit).encode(&limit);
            for length in 0..bytes.len() {
                let error = Row::decode(&limit, &bytes[..length]).expect_err("too short");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{length} of {}", bytes.len());
            }
            assert!(Row::decode(&limit, &[&bytes[..], &[0]].concat()).is_err(), "too long");
        }
    }

    #[test]
    fn a_row_with_any_byte_changed_is_usable_or_corrupt() {
        for limit in limits() {
            let bytes = row(&limit).encode(&limit);
            for index in 0..bytes.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut changed = bytes.clone();
                    changed[index] ^= flip;
                    // If it can be decoded, it can be used and written.
                    if let Ok(mut row) = Row::decode(&limit, &changed) {
                        let _ = row.state.apply(&limit.charge("k").with_lease(LeaseId::unique()), NOW);
                        row.push_transaction(TransactionId(1), NOW);
                        assert!(!row.encode(&limit).is_empty());
                    }
                }
            }
        }
    }
}
