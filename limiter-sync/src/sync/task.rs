//! The background task that synchronizes a node, and what happens when the node is dropped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
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

    /// Starts the task if it does not run, on the runtime of the caller. Does nothing without one.
    pub(crate) fn start(&self) {
        let mut running = lock(&self.running);
        // It ends with its runtime, and a program may have another one; or with a panic in something that it calls.
        if running.as_ref().is_some_and(|running| !running.handle.is_finished()) {
            return;
        }
        let runtime = Handle::try_current();
        self.node.staleness.task_started(runtime.is_ok());
        let Ok(runtime) = runtime else { return };
        let stop = Arc::<Notify>::default();
        let stopped = Arc::clone(&stop);
        let guard = TaskGuard { node: Arc::clone(&self.node), finished: false };
        let handle = runtime.spawn(async move {
            // Moves all of the guard into the task, not only the fields used below.
            let mut guard = guard;
            let node = Arc::clone(&guard.node);
            let intervals = node.limits.intervals().iter().enumerate();
            let schedules = intervals.map(|(index, interval)| node.synchronize_every(index, *interval));
            tokio::select! {
                _ = join_all(schedules) => {}
                () = stopped.notified() => {
                    guard.finished = true;
                    node.flush_on_drop().await;
                }
            }
        });
        *running = Some(Running { stop, handle });
    }
}

/// Notices that the task ends unexpectedly.
struct TaskGuard<S: Store, C: Timer> {
    node: Arc<Node<S, C>>,
    finished: bool,
}

impl<S: Store, C: Timer> Drop for TaskGuard<S, C> {
    fn drop(&mut self) {
        if !self.finished {
            self.node.staleness.task_stopped(self.node.clock.now());
        }
    }
}

impl<S: Store + 'static, C: Timer + 'static> Drop for SyncTask<S, C> {
    fn drop(&mut self) {
        let running = lock(&self.running).take().filter(|running| !running.handle.is_finished());
        match (running, Handle::try_current()) {
            // The task sends the pending deltas itself.
            (Some(running), _) => running.stop.notify_one(),
            (None, Ok(runtime)) if !self.node.is_synchronized() => {
                let node = Arc::clone(&self.node);
                runtime.spawn(async move { node.flush_on_drop().await });
            }
            // Nothing is pending, or there is no runtime to wait for the central store.
            (None, Ok(_) | Err(_)) => {}
        }
    }
}

impl<S: Store, C: Timer> Node<S, C> {
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

    /// Sends all pending deltas and returns all leased tokens, however long it takes.
    pub(crate) async fn flush(&self) {
        loop {
            for index in 0..self.limits.intervals().len() {
                let _ = self.sync_round(index, true).await;
            }
            if self.is_synchronized() {
                return;
            }
            self.clock.sleep(RETRY_PAUSE).await;
        }
    }
}
