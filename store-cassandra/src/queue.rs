//! One change of a partition at a time within this process: transactions that race each other only cost time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The partitions that somebody changes or waits for; the others are not remembered.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    busy: Mutex<HashMap<u64, Arc<AsyncMutex<()>>>>,
    hasher: RandomState,
}

/// The right to change a partition. Dropped, the next in line has it.
#[derive(Debug)]
pub(crate) struct Turn<'q> {
    queues: &'q Queues,
    partition: u64,
    held: Option<OwnedMutexGuard<()>>,
}

impl Queues {
    /// Waits in line, first come first served.
    pub(crate) async fn wait(&self, partition: &[u8]) -> Turn<'_> {
        // Partitions that happen to share a number share a line, too.
        let partition = self.hasher.hash_one(partition);
        let line = Arc::clone(self.lock().entry(partition).or_default());
        // Before it waits, so that whoever goes away leaves no line behind.
        let mut turn = Turn { queues: self, partition, held: None };
        turn.held = Some(line.lock_owned().await);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<AsyncMutex<()>>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut busy = self.queues.lock();
        // Whoever waits or holds has another handle.
        if busy.get(&self.partition).is_some_and(|line| Arc::strong_count(line) == 1) {
            busy.remove(&self.partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let queues = Queues::default();
        let first = queues.wait(b"a").await;
        assert!(queues.wait(b"b").now_or_never().is_some(), "another partition");
        let mut second = Box::pin(queues.wait(b"a"));
        let third = Box::pin(queues.wait(b"a"));
        assert!((&mut second).now_or_never().is_none());
        // Gives up.
        drop(third);
        drop(first);
        assert_eq!(queues.lock().len(), 1, "one waits");
        drop(second.await);
        assert_eq!(queues.lock().len(), 0);
    }
}
