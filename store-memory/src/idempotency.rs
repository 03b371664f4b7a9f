//! The verdicts of recent requests that had an idempotency key.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tollgate_core::{IdempotencyKey, Time, Verdict};

/// How many verdicts one shard records at most. Beyond that, requests with an idempotency key fail.
const MAX_RECORDS: usize = 16_384;
/// How long a verdict is recorded.
pub(crate) const RETENTION: Duration = Duration::from_secs(60);

/// One shard of the recorded verdicts.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyRecords {
    /// Each with its expiry.
    verdicts: HashMap<IdempotencyKey, (Time, Verdict)>,
    by_expiry: BTreeSet<(Time, IdempotencyKey)>,
}

impl IdempotencyRecords {
    pub(crate) fn get(&self, key: IdempotencyKey) -> Option<Verdict> {
        self.verdicts.get(&key).map(|(_, verdict)| verdict.clone())
    }

    /// Removes expired records, and returns whether there is room for another one. Records are never evicted early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        while let Some((expires_at, key)) = self.by_expiry.first().copied()
            && expires_at <= now
        {
            self.by_expiry.pop_first();
            self.verdicts.remove(&key);
        }
        self.verdicts.len() < MAX_RECORDS
    }

    /// Adds the verdict on a request whose key is not recorded.
    pub(crate) fn insert(&mut self, key: IdempotencyKey, verdict: Verdict, now: Time) {
        let expires_at = now + RETENTION;
        self.by_expiry.insert((expires_at, key));
        self.verdicts.insert(key, (expires_at, verdict));
    }

    pub(crate) fn forget(&mut self, key: IdempotencyKey) {
        if let Some((expires_at, _)) = self.verdicts.remove(&key) {
            self.by_expiry.remove(&(expires_at, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_key_leaves_room_and_the_others_expire() {
        let (mut records, start) = (IdempotencyRecords::default(), Time::from_secs(1_000));
        for key in 0..16_384 {
            assert!(records.has_room(start));
            records.insert(
                IdempotencyKey::new(key),
                Verdict::new([], start),
                start + Duration::from_nanos(1),
            );
        }
        assert!(!records.has_room(start));
        records.forget(IdempotencyKey::new(7));
        records.forget(IdempotencyKey::new(7));
        assert!(records.has_room(start));
        assert_eq!(records.get(IdempotencyKey::new(7)), None);
        assert!(records.get(IdempotencyKey::new(8)).is_some());
        records.insert(IdempotencyKey::new(7), Verdict::new([], start), start + RETENTION);
        assert!(records.has_room(start + 2 * RETENTION - Duration::from_nanos(1)));
        assert_eq!(records.get(IdempotencyKey::new(8)), None);
        assert!(records.get(IdempotencyKey::new(7)).is_some());
    }
}
