//! The verdicts of recent requests that had an idempotency key.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tollgate_core::{IdempotencyKey, Time, Verdict};

/// How many verdicts one shard records at most. Beyond that, requests with an idempotency key fail.
const MAX_RECORDS: usize = 16_384;
/// How long a verdict is recorded.
pub(crate) const RETENTION: Duration = Duration::from_secs(60);

/// One shard of the recorded verdicts.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyRecords {
    verdicts: HashMap<IdempotencyKey, Verdict>,
    /// The oldest first.
    expiries: VecDeque<(Time, IdempotencyKey)>,
}

impl IdempotencyRecords {
    pub(crate) fn get(&self, key: IdempotencyKey) -> Option<Verdict> {
        self.verdicts.get(&key).cloned()
    }

    /// Removes expired records, and returns whether there is room for another one. Records are never evicted early.
    pub(crate) fn has_room(&mut self, now: Time) -> bool {
        while let Some((expires_at, key)) = self.expiries.front()
            && *expires_at <= now
        {
            self.verdicts.remove(key);
            self.expiries.pop_front();
        }
        self.expiries.len() < MAX_RECORDS
    }

    pub(crate) fn insert(&mut self, key: IdempotencyKey, verdict: Verdict, now: Time) {
        self.expiries.push_back((now + RETENTION, key));
        self.verdicts.insert(key, verdict);
    }
}
