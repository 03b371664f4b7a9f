//! The background task that synchronizes a node, and what happens when the node is dropped.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join, join_all, select};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_core::Timer;
use tollgate_core::store::Store;

use super::round::jittered;
use crate::node::{Node, lock};

/// How long a dropped node tries to send its pending deltas.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to send all pending deltas.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How often the task shows that it is at work.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// How long a check waits for the central store if it finds that there is no task at work.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(50);

/// The sync task of a node. Dropping it sends the pending deltas, if there is a runtime to do so.
pub(crate) struct SyncTask<S: Store + 'static, C: Timer + 'static> {
    node: Arc<Node<S, C>>,
    /// Present once the task was started.
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: Arc<Notify>,
    handle: JoinHandle<()>,
}

impl<S: Store + 'static, C: Timer + 'static> SyncTask<S, C> {
    pub(crate) fn new(node: Arc<Node<S, C>>) -> Self {
        Self { node, running: Mutex::default() }
    }

    #[inline]
    pub(crate) fn node(&self) -> &Node<S, C> {
        &self.node
    }

    /// Starts a task on the runtime of the caller, in place of one that is not at work. Does nothing without a runtime.
    pub(crate) fn start(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut running = lock(&self.running);
        // It ended with its runtime, or with a panic in something that it calls; or nothing drives its runtime. If
        // something does again, it ends there, and what it has in flight returns to the queue.
        if let Some(replaced) = running.take() {
            replaced.handle.abort();
        }
        let number = self.node.staleness.task_started(self.node.clock.now());
        let stop = Arc::<Notify>::default();
        let stopped = Arc::clone(&stop);
        let guard = TaskGuard { node: Arc::clone(&self.node), number, finished: false };
        let handle = runtime.spawn(async move {
            // Moves all of the guard into the task, not only the fields used below.
            let mut guard = guard;
            let node = Arc::clone(&guard.node);
            let intervals = node.limits.intervals().iter().enumerate();
            let schedules = intervals.map(|(index, interval)| node.synchronize_every(index, *interval));
            tokio::select! {
                _ = join(join_all(schedules), node.show_life()) => {}
                () = stopped.notified() => {
                    guard.finished = true;
                    node.flush_on_drop().await;
                }
            }
        });
        *running = Some(Running { stop, handle });
    }

    /// Starts a task as [`start`](Self::start) does. If the central store has something to learn, also waits for sync
    /// rounds, for a short time: the runtime may be one that is driven during calls only, so that the task would not
    /// get further than the one before it.
    pub(crate) async fn restart(&self) {
        self.start();
        if self.node.staleness.since().is_none() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let node = Arc::clone(&self.node);
        // On its own, because a panic in something that it calls must not reach the caller.
        let caught_up = runtime.spawn(async move {
            let rounds = pin!(node.sync_rounds());
            select(rounds, pin!(node.clock.sleep(CATCH_UP_TIMEOUT))).await;
        });
        // An error of the central store stays visible as staleness.
        let _ = caught_up.await;
    }
}

/// Notices that the task ends unexpectedly.
struct TaskGuard<S: Store, C: Timer> {
    node: Arc<Node<S, C>>,
    number: u64,
    finished: bool,
}

impl<S: Store, C: Timer> Drop for TaskGuard<S, C> {
    fn drop(&mut self) {
        if !self.finished {
            self.node.staleness.task_stopped(self.number, self.node.clock.now());
        }
    }
}

impl<S: Store + 'static, C: Timer + 'static> Drop for SyncTask<S, C> {
    fn drop(&mut self) {
        let running = lock(&self.running).take();
        if let Some(running) = &running {
            // It sends the pending deltas.
            running.stop.notify_one();
        }
        let at_work = running.is_some_and(|running| !running.handle.is_finished())
            && self.node.staleness.is_task_alive(self.node.clock.now());
        // Without a runtime, nothing can wait for the central store.
        if !at_work
            && let Ok(runtime) = Handle::try_current()
            && !self.node.is_synchronized()
        {
            let node = Arc::clone(&self.node);
            runtime.spawn(async move { node.flush_on_drop().await });
        }
    }
}

impl<S: Store, C: Timer> Node<S, C> {
    /// Shows for ever that the task is at work, also while a call to the central store takes long.
    async fn show_life(&self) {
        loop {
            self.staleness.task_lives(self.clock.now());
            self.clock.sleep(HEARTBEAT).await;
        }
    }

    /// Runs sync rounds for ever.
    async fn synchronize_every(&self, index: usize, interval: Duration) {
        // Nodes that start together do not synchronize in step.
        self.clock.sleep(interval.mul_f64(fastrand::f64())).await;
        loop {
            // A failed round is counted and reported to the observer; its keys stay due.
            let _ = self.sync_round(index, false).await;
            self.clock.sleep(jittered(interval)).await;
        }
    }

    async fn flush_on_drop(&self) {
        let _ = tokio::time::timeout(DROP_TIMEOUT, self.flush()).await;
    }

    /// Sends all pending deltas and returns all leased tokens, however long it takes. Then the central store forgets
    /// all answered calls.
    pub(crate) async fn flush(&self) {
        loop {
            for index in 0..self.limits.intervals().len() {
                let _ = self.sync_round(index, true).await;
            }
            if self.is_synchronized() {
                return self.forget_all().await;
            }
            self.clock.sleep(RETRY_PAUSE).await;
        }
    }
}
