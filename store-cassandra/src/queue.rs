//! One change of a partition at a time within this process: transactions that race each other only cost time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::sleep_until;

use crate::pace;

/// The partitions that somebody changes or waits for; the others are not remembered.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    busy: Arc<Busy>,
    hasher: RandomState,
}

/// By their numbers.
#[derive(Debug, Default)]
struct Busy(Mutex<HashMap<u64, Arc<AsyncMutex<()>>>>);

/// The right to change a partition. Dropped, the next in line has it.
#[derive(Debug)]
pub(crate) struct Turn {
    busy: Arc<Busy>,
    partition: u64,
    held: Option<OwnedMutexGuard<()>>,
}

impl Queues {
    /// Waits in line, first come first served.
    pub(crate) async fn wait(&self, partition: &[u8]) -> Turn {
        // Partitions that happen to share a number share a line, too.
        let partition = self.hasher.hash_one(partition);
        let line = Arc::clone(self.busy.lock().entry(partition).or_default());
        // Before it waits, so that whoever goes away leaves no line behind.
        let mut turn = Turn { busy: Arc::clone(&self.busy), partition, held: None };
        turn.held = Some(line.lock_owned().await);
        turn
    }
}

impl Busy {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<AsyncMutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Lets the next in line wait for a while, though nobody changes the partition.
    pub(crate) fn hold(self, span: Duration) {
        if span > Duration::ZERO {
            let until = pace::in_future(span);
            tokio::spawn(async move {
                sleep_until(until).await;
                drop(self);
            });
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut busy = self.busy.lock();
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
        assert_eq!(queues.busy.lock().len(), 1, "one waits");
        drop(second.await);
        assert_eq!(queues.busy.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_held_ends_by_itself() {
        let queues = Queues::default();
        queues.wait(b"a").await.hold(Duration::from_millis(5));
        assert!(queues.wait(b"a").now_or_never().is_none());
        let began = pace::now();
        drop(queues.wait(b"a").await);
        assert!(began.elapsed() >= Duration::from_millis(5));
        assert_eq!(queues.busy.lock().len(), 0);
    }
}
