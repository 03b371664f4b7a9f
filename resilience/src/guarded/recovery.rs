//! When a store is back: what it missed is told to it, and then everybody asks it again.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::store::{ClockSource, Run, Store};
use tollgate_core::{Clock, Event, Key, Limit, Request, SystemClock, Time};

use super::breaker::Back;
use super::call::within;
use super::handover::{HandOver, Taken, Telling};
use super::watch::Watch;

/// Amounts that are told in one call.
const AT_ONCE: usize = 64;
/// Nobody waits for the telling, except for the store to be asked again.
const DEADLINE: Duration = Duration::from_secs(1);
/// After a telling that failed while everybody asks the store.
const PAUSE: Duration = Duration::from_secs(1);

/// What a task needs to tell a store what it missed.
#[derive(Debug)]
pub(crate) struct Recovery<S> {
    pub(crate) store: Arc<S>,
    pub(crate) handover: Arc<HandOver>,
    pub(crate) watch: Arc<Watch>,
    catching_up: Arc<CatchingUp>,
}

/// Whether somebody tells the store while everybody asks it.
#[derive(Debug, Default)]
struct CatchingUp {
    busy: AtomicBool,
    /// After a telling that failed, not before this time.
    not_before: AtomicU64,
}

impl<S> Clone for Recovery<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            handover: Arc::clone(&self.handover),
            watch: Arc::clone(&self.watch),
            catching_up: Arc::clone(&self.catching_up),
        }
    }
}

/// The store is away again.
struct Away;

/// The callers' time, as it goes on while a task runs.
struct Now {
    at_first: Time,
    clock: SystemClock,
    began: Time,
}

impl Now {
    fn from(at_first: Time) -> Self {
        let clock = SystemClock::new();
        Self { at_first, began: clock.now(), clock }
    }

    fn get(&self) -> Time {
        self.at_first + self.clock.now().since(self.began)
    }
}

impl<S> Recovery<S> {
    pub(crate) fn new(store: S) -> Self {
        let (handover, watch, catching_up) = Default::default();
        Self { store: Arc::new(store), handover, watch, catching_up }
    }
}

impl<S: Store + 'static> Recovery<S> {
    /// The store is back, as seen at `now`.
    pub(crate) fn back(&self, back: Back, now: Time) {
        let runtime = Handle::try_current().ok().filter(|_| self.handover.is_waiting());
        let Some(runtime) = runtime else {
            self.watch.changed(back.close());
            return;
        };
        let (recovery, now) = (self.clone(), Now::from(now));
        runtime.spawn(async move {
            // Others go on as before until it knows everything: its first answers are right.
            if recovery.tell_all(&now).await.is_err() {
                recovery.watch.changed(back.failed(now.get()));
                return;
            }
            recovery.watch.changed(back.close());
            // What was granted while the last of it was told.
            let _ = recovery.tell_all(&now).await;
        });
    }

    /// The store answers, and has not been told everything: calls failed now and then, without an end.
    pub(crate) fn catch_up(&self, now: Time) {
        let Ok(runtime) = Handle::try_current() else { return };
        let early = now.nanos() < self.catching_up.not_before.load(Ordering::Relaxed);
        if early || self.catching_up.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let (recovery, now, busy) = (self.clone(), Now::from(now), Busy(Arc::clone(&self.catching_up)));
        runtime.spawn(async move {
            // What cannot be told stays on the list, for a call that succeeds later.
            if recovery.tell_all(&now).await.is_err() {
                let later = now.get() + PAUSE;
                recovery.catching_up.not_before.store(later.nanos(), Ordering::Relaxed);
            }
            drop(busy);
        });
    }

    /// Tells everything that is on the list.
    async fn tell_all(&self, now: &Now) -> Result<(), Away> {
        let (mut ahead, mut told) = (None, 0);
        // New keys may come as fast as old ones go: those wait for the next time.
        let mut most = 2 * self.handover.len() + AT_ONCE;
        let mut outcome = Ok(());
        while outcome.is_ok() && most > 0 {
            let taken = self.handover.take(AT_ONCE);
            if taken.keys == 0 {
                break;
            }
            most = most.saturating_sub(taken.keys);
            if ahead.is_none() {
                ahead = self.ahead(now.get()).await;
            }
            let Some(ahead) = ahead else {
                outcome = Err(Away);
                break;
            };
            let (count, result) = self.tell(taken, ahead, now.get()).await;
            told += count;
            outcome = result;
        }
        let lost = self.handover.take_lost();
        if told > 0 || lost > 0 {
            self.watch.tell(Event::Reconciled { keys: told, lost });
        }
        outcome
    }

    /// How many nanoseconds the clock that decides is ahead of the callers'.
    async fn ahead(&self, now: Time) -> Option<i64> {
        if self.store.capability().clock_source == ClockSource::Caller {
            return Some(0);
        }
        // A look at what nobody uses: there, nothing but the store itself can be wrong.
        let clock = Limit::per_second(1).build("tollgate clock").ok()?;
        let look = [clock.charge(Key::new("tollgate", "clock")).with_cost(0)];
        let look = pin!(async { self.store.decide(Request::new(&look), now).await });
        let at = within(DEADLINE, look).await.ok()?.ok()?.decided_at();
        i64::try_from(i128::from(at.nanos()) - i128::from(now.nanos())).ok()
    }

    /// Tells what was taken off the list; of how many keys. What could not be told goes back.
    async fn tell(&self, mut taken: Taken<'_>, ahead: i64, now: Time) -> (usize, Result<(), Away>) {
        let ids = taken.name();
        let answers = {
            let charges: Vec<_> = taken.tellings().iter().map(|telling| [telling.charge(ahead)]).collect();
            let runs: Vec<_> = charges
                .iter()
                .zip(ids)
                .map(|(charge, id)| Run::new(Request::new(charge).with_idempotency_key(id), 1))
                .collect();
            within(DEADLINE, pin!(async { self.store.decide_batch(&runs, now).await })).await
        };
        let Ok(answers) = answers else { return (0, Err(Away)) };
        let kinds = answers.into_iter().map(|answer| answer.err().map(|error| error.kind()));
        let (told, missed, lost) = taken.settle(kinds);
        for (counter, tellings) in
            [(&self.watch.counters.handed_over, &told), (&self.watch.counters.lost, &lost)]
        {
            counter.add(tellings.iter().map(Telling::sum).sum());
        }
        self.handover.lose(lost.iter().map(Telling::sum).sum());
        let keys = told.chunk_by(Telling::is_about).count();
        (keys, if missed { Err(Away) } else { Ok(()) })
    }
}

/// Whoever tells is no longer at it when this goes away, however that happens.
struct Busy(Arc<CatchingUp>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}
