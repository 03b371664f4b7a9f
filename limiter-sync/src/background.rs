//! The task that exchanges, and what happens when an instance goes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_core::Timer;
use tollgate_core::store::Store;

use crate::exchange::jittered;
use crate::shared::{Shared, lock};

/// How long an instance that was dropped goes on trying to book what it owes.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// An instance at work. Dropping it books what is owed, as far as that is possible.
pub(crate) struct Running<S: Store + 'static, C: Timer + 'static> {
    shared: Arc<Shared<S, C>>,
    beats: Vec<Duration>,
    /// There once the task was started.
    task: Mutex<Option<Task>>,
}

struct Task {
    end: Arc<Notify>,
    handle: JoinHandle<()>,
}

impl<S: Store + 'static, C: Timer + 'static> Running<S, C> {
    pub(crate) fn new(shared: Arc<Shared<S, C>>, beats: Vec<Duration>) -> Self {
        Self { shared, beats, task: Mutex::default() }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared<S, C>> {
        &self.shared
    }

    /// Starts the task, if it does not run and there is a runtime to run it on.
    pub(crate) fn start(&self) {
        let mut task = lock(&self.task);
        // It ends with its runtime, and a program may have another; or because something that it calls has panicked.
        if task.as_ref().is_some_and(|task| !task.handle.is_finished()) {
            return;
        }
        let runtime = Handle::try_current();
        self.shared.task_is_back(runtime.is_ok());
        let Ok(runtime) = runtime else { return };
        let end = Arc::<Notify>::default();
        let (beats, ended) = (self.beats.clone(), Arc::clone(&end));
        let watch = Watch { shared: Arc::clone(&self.shared), is_over: false };
        let handle = runtime.spawn(async move {
            // All of it, not only what is used of it below.
            let mut watch = watch;
            let (shared, count) = (Arc::clone(&watch.shared), beats.len());
            let beats = beats.into_iter().enumerate().map(|(beat, interval)| shared.beat(beat, interval));
            tokio::select! {
                _ = join_all(beats) => {}
                () = ended.notified() => {
                    watch.is_over = true;
                    shared.flush_in_time(count).await;
                }
            }
        });
        *task = Some(Task { end, handle });
    }
}

/// Notices that the task ends before its time.
struct Watch<S: Store, C: Timer> {
    shared: Arc<Shared<S, C>>,
    is_over: bool,
}

impl<S: Store, C: Timer> Drop for Watch<S, C> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.task_is_gone();
        }
    }
}

impl<S: Store + 'static, C: Timer + 'static> Drop for Running<S, C> {
    fn drop(&mut self) {
        let task = lock(&self.task).take().filter(|task| !task.handle.is_finished());
        match (task, Handle::try_current()) {
            // The task looks at what is owed itself.
            (Some(task), _) => task.end.notify_one(),
            (None, Ok(runtime)) => {
                let (shared, beats) = (Arc::clone(&self.shared), self.beats.len());
                runtime.spawn(async move { shared.flush_in_time(beats).await });
            }
            // Nobody is there to wait for the centre.
            (None, Err(_)) => {}
        }
    }
}

impl<S: Store, C: Timer> Shared<S, C> {
    /// Exchanges for ever, at an interval.
    async fn beat(&self, beat: usize, interval: Duration) {
        // Nodes that start together do not come together.
        self.clock.sleep(interval.mul_f64(fastrand::f64())).await;
        loop {
            // What was not answered stays due, is counted, and the observer has heard of it.
            let _ = self.exchange(beat, false).await;
            self.clock.sleep(jittered(interval)).await;
        }
    }

    async fn flush_in_time(&self, beats: usize) {
        let _ = tokio::time::timeout(LAST_PATIENCE, self.flush(beats)).await;
    }

    /// Books everything and gives everything back, however long it takes.
    pub(crate) async fn flush(&self, beats: usize) {
        loop {
            for beat in 0..beats {
                let _ = self.exchange(beat, true).await;
            }
            if self.is_settled() {
                return;
            }
            self.clock.sleep(PAUSE).await;
        }
    }

    /// Whether nobody owes the centre anything.
    fn is_settled(&self) -> bool {
        self.table.shards().all(|number| self.table.lock(number).iter().all(|(_, replica)| !replica.owes()))
    }
}
