//! When a store is back: what it missed is told to it, and then everybody asks it again.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::{ErrorKind, Event, Request, Run, Store, Time};

use super::breaker::Back;
use super::call::within;
use super::handover::{HandOver, Taken, Telling};
use super::watch::Watch;

/// Amounts that are told in one call.
const AT_ONCE: usize = 64;
/// Nobody waits for the telling, except for the store to be asked again.
const DEADLINE: Duration = Duration::from_secs(1);

/// What a task needs to tell a store what it missed.
#[derive(Debug)]
pub(crate) struct Recovery<S> {
    pub(crate) store: Arc<S>,
    pub(crate) handover: Arc<HandOver>,
    pub(crate) watch: Arc<Watch>,
    /// Somebody tells it at the moment.
    pub(crate) busy: Arc<AtomicBool>,
}

impl<S> Clone for Recovery<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            handover: Arc::clone(&self.handover),
            watch: Arc::clone(&self.watch),
            busy: Arc::clone(&self.busy),
        }
    }
}

/// The store is away again.
struct Away;

impl<S: Store + 'static> Recovery<S> {
    /// The store is back, as seen at `now`.
    pub(crate) fn back(&self, back: Back, now: Time) {
        let runtime = Handle::try_current().ok().filter(|_| self.handover.is_waiting());
        let Some(runtime) = runtime else {
            self.watch.changed(back.close());
            return;
        };
        let recovery = self.clone();
        runtime.spawn(async move {
            // Others go on as before until it knows everything: its first answers are right.
            if recovery.tell_all(now).await.is_err() {
                recovery.watch.changed(back.failed(now));
                return;
            }
            recovery.watch.changed(back.close());
            // What was granted while the last of it was told.
            let _ = recovery.tell_all(now).await;
        });
    }

    /// The store answers, and has not been told everything: calls failed now and then, without an end.
    pub(crate) fn catch_up(&self, now: Time) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let (recovery, busy) = (self.clone(), Busy(Arc::clone(&self.busy)));
        runtime.spawn(async move {
            // What cannot be told stays on the list, for the next call that succeeds.
            let _ = recovery.tell_all(now).await;
            drop(busy);
        });
    }

    /// Tells everything that is on the list.
    async fn tell_all(&self, now: Time) -> Result<(), Away> {
        let (mut ahead, mut told) = (None, 0);
        // New amounts may come as fast as old ones go: those wait for the next time.
        let mut most = 2 * self.handover.len() + AT_ONCE;
        let mut outcome = Ok(());
        while outcome.is_ok() && most > 0 {
            let taken = self.handover.take(AT_ONCE);
            let Some(first) = taken.tellings().first() else { break };
            most = most.saturating_sub(taken.tellings().len());
            if ahead.is_none() {
                ahead = self.ahead(first, now).await;
            }
            let Some(ahead) = ahead else {
                outcome = Err(Away);
                break;
            };
            let (count, result) = self.tell(taken, ahead, now).await;
            told += count;
            outcome = result;
        }
        if told > 0 {
            self.watch.tell(Event::HandedOver { keys: told, lost: self.handover.take_lost() });
        }
        outcome
    }

    /// How many nanoseconds the clock that decides is ahead of the callers'.
    async fn ahead(&self, telling: &Telling, now: Time) -> Option<i64> {
        let export = pin!(self.store.export(telling.limit(), telling.key(), now));
        let at = within(DEADLINE, export).await.ok()?.ok()?.at;
        i64::try_from(i128::from(at.nanos()) - i128::from(now.nanos())).ok()
    }

    /// Tells what was taken off the list, and how much of it the store knows now. The rest goes back.
    async fn tell(&self, mut taken: Taken<'_>, ahead: i64, now: Time) -> (usize, Result<(), Away>) {
        let answers = {
            let charges: Vec<_> = taken.tellings().iter().map(|telling| [telling.charge(ahead)]).collect();
            let runs: Vec<_> = charges
                .iter()
                .zip(taken.tellings())
                .map(|(charge, telling)| Run::new(Request::new(charge).with_id(telling.id), 1))
                .collect();
            within(DEADLINE, pin!(self.store.decide_batch(&runs, now))).await
        };
        let Ok(answers) = answers else { return (0, Err(Away)) };
        let (mut told, mut outcome) = (0, Ok(()));
        let mut answers = answers.into_iter();
        taken.keep(|telling| match answers.next().map(|answer| answer.map_err(|error| error.kind())) {
            Some(Ok(_)) => {
                told += 1;
                self.watch.counters.handed_over.add(telling.sum());
                false
            }
            // No repetition will make that right.
            Some(Err(ErrorKind::Unsupported | ErrorKind::Corrupt)) => {
                self.watch.counters.lost.add(telling.sum());
                false
            }
            Some(Err(_)) | None => {
                outcome = Err(Away);
                true
            }
        });
        (told, outcome)
    }
}

/// Whoever tells is no longer at it when this goes away, however that happens.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
