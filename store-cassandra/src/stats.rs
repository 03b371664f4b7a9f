//! Counters of what a store has sent.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many requests a [`CassandraStore`](crate::CassandraStore) and its clones have sent so far. Returned by
/// [`CassandraStore::stats`](crate::CassandraStore::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Lightweight transactions sent, including those that were not applied.
    pub transactions: u64,
    /// Transactions that were not applied because the row had changed since this store last saw it, or because this
    /// store saw it for the first time. A high share means contention between processes.
    pub not_applied: u64,
    /// Serial reads sent: for peeks and pings, for denials based on a cached row, and to find out whether a transaction
    /// was applied.
    pub reads: u64,
    /// Transactions whose response was lost. The store then reads the rows to find out whether they were applied.
    pub lost_responses: u64,
}

/// The live counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) transactions: AtomicU64,
    pub(crate) not_applied: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) lost_responses: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            transactions: self.transactions.load(Ordering::Relaxed),
            not_applied: self.not_applied.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            lost_responses: self.lost_responses.load(Ordering::Relaxed),
        }
    }
}
