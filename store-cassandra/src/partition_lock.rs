//! A lock per partition within this process: concurrent transactions on the same rows would only make each other
//! fail.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::sleep_until;

use crate::backoff;

/// The locks of partitions that are locked or waited for. Other partitions have no entry.
#[derive(Debug, Default)]
pub(crate) struct PartitionLocks {
    locks: Arc<LockMap>,
    hasher: RandomState,
}

/// Locks by the hash of their partition.
#[derive(Debug, Default)]
struct LockMap(Mutex<HashMap<u64, Arc<AsyncMutex<()>>>>);

/// The exclusive right to update a partition. Dropping it unlocks the partition for the next caller.
#[derive(Debug)]
pub(crate) struct PartitionGuard {
    locks: Arc<LockMap>,
    partition: u64,
    guard: Option<OwnedMutexGuard<()>>,
}

impl PartitionLocks {
    /// Locks a partition. Callers wait in the order of their arrival.
    pub(crate) async fn lock(&self, partition: &[u8]) -> PartitionGuard {
        // Partitions with the same hash share a lock, which is harmless.
        let partition = self.hasher.hash_one(partition);
        let lock = Arc::clone(self.locks.get().entry(partition).or_default());
        // Created before waiting: a caller that is cancelled while it waits leaves no entry behind.
        let mut guard = PartitionGuard { locks: Arc::clone(&self.locks), partition, guard: None };
        guard.guard = Some(lock.lock_owned().await);
        guard
    }
}

impl LockMap {
    fn get(&self) -> MutexGuard<'_, HashMap<u64, Arc<AsyncMutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionGuard {
    /// Unlocks the partition after `span`.
    pub(crate) fn release_after(self, span: Duration) {
        if span > Duration::ZERO {
            let until = backoff::deadline(span);
            tokio::spawn(async move {
                sleep_until(until).await;
                drop(self);
            });
        }
    }
}

impl Drop for PartitionGuard {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut locks = self.locks.get();
        // Every holder and every waiting caller has a reference of its own.
        if locks.get(&self.partition).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn one_caller_at_a_time_and_no_entry_is_left_behind() {
        let locks = PartitionLocks::default();
        let first = locks.lock(b"a").await;
        assert!(locks.lock(b"b").now_or_never().is_some(), "another partition");
        let mut second = Box::pin(locks.lock(b"a"));
        let third = Box::pin(locks.lock(b"a"));
        assert!((&mut second).now_or_never().is_none());
        // Cancelled.
        drop(third);
        drop(first);
        assert_eq!(locks.locks.get().len(), 1, "one caller waits");
        drop(second.await);
        assert_eq!(locks.locks.get().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_release_happens_by_itself() {
        let locks = PartitionLocks::default();
        locks.lock(b"a").await.release_after(Duration::from_millis(5));
        assert!(locks.lock(b"a").now_or_never().is_none());
        let started = backoff::now();
        drop(locks.lock(b"a").await);
        assert!(started.elapsed() >= Duration::from_millis(5));
        assert_eq!(locks.locks.get().len(), 0);
    }
}
