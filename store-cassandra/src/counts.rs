//! What a store has sent.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has sent so far, to measure it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Transactions, refused ones among them.
    pub transactions: u64,
    /// Transactions that were refused because the row was not as it was seen last: another program had written it, or this
    /// one saw it for the first time.
    pub refused: u64,
    /// Reads: for looks, for denials by what was seen earlier, and to find out what became of a transaction.
    pub reads: u64,
    /// Transactions whose answer was lost.
    pub lost: u64,
}

/// The same, while it is being counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) transactions: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            transactions: self.transactions.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}
