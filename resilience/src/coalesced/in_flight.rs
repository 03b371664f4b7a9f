//! Calls in flight, from their start to their end: answered, failed, abandoned, or panicked.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tollgate_core::Clock;
use tollgate_core::store::Store;

use super::batch::Batch;
use super::routes::{InFlightCall, Routes};
use super::stats::BatchCounters;

/// What callers and batch tasks share.
#[derive(Debug)]
pub(super) struct Coalescer<S, C> {
    pub(super) store: S,
    /// Measures the age of calls, and nothing else.
    pub(super) clock: C,
    pub(super) routes: Routes,
    pub(super) counters: BatchCounters,
}

/// A call with a single request. When it is dropped, for whatever reason, the waiting requests are next.
#[derive(Debug)]
pub(super) struct DirectCall<'a, S: Store + 'static, C: Clock + 'static> {
    coalescer: &'a Arc<Coalescer<S, C>>,
    call: InFlightCall,
}

impl<'a, S: Store + 'static, C: Clock + 'static> DirectCall<'a, S, C> {
    pub(super) fn new(coalescer: &'a Arc<Coalescer<S, C>>, call: InFlightCall) -> Self {
        Self { coalescer, call }
    }
}

impl<S: Store + 'static, C: Clock + 'static> Drop for DirectCall<'_, S, C> {
    fn drop(&mut self) {
        if let Some(call) = self.coalescer.routes.end(&self.call, &self.coalescer.clock) {
            send_batches(self.coalescer, call);
        }
    }
}

/// Sends the waiting requests in batches. In a task, because no caller may live until the end.
pub(super) fn send_batches<S, C>(coalescer: &Arc<Coalescer<S, C>>, call: InFlightCall)
where
    S: Store + 'static,
    C: Clock + 'static,
{
    let sender = BatchSender { coalescer: Arc::clone(coalescer), call: Some(call) };
    // Without a runtime the sender is dropped, and the waiting callers call the store themselves.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(sender.run());
    }
}

/// Sends one batch after the other while requests are waiting.
#[derive(Debug)]
struct BatchSender<S: Store, C: Clock> {
    coalescer: Arc<Coalescer<S, C>>,
    /// `None` once nothing is left to send.
    call: Option<InFlightCall>,
}

impl<S: Store, C: Clock> BatchSender<S, C> {
    async fn run(mut self) {
        while let Some(batch) = self.next() {
            batch.decide(&self.coalescer.store, &self.coalescer.counters).await;
            // Callers that were just answered often check again at once. They join the next batch before it is sent,
            // instead of waiting for the one after it.
            yield_now().await;
        }
    }

    fn next(&mut self) -> Option<Batch> {
        let Coalescer { routes, clock, .. } = &*self.coalescer;
        let (call, batch) = routes.next(&self.call.take()?, clock)?;
        self.call = Some(call);
        Some(batch)
    }
}

impl<S: Store, C: Clock> Drop for BatchSender<S, C> {
    /// If it ends early, because the store panicked or the runtime shut down, no caller may wait for it.
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            for batch in self.coalescer.routes.abort(&call) {
                batch.dismiss();
            }
        }
    }
}
