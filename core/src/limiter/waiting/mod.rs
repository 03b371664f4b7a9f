//! Waiting until a charge, or several of them, pass.
//!
//! - `wait`: how long a caller would wait, and with how much jitter.

mod wait;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use alloc::vec::Vec;
use smallvec::SmallVec;

pub use wait::Wait;

use super::Limiter;
use super::reservation::cancellation;
use crate::algorithm::AlgorithmKind;
use crate::charge::{Action, Charge, Request};
use crate::clock::{BlockingTimer, Clock, Timer};
use crate::decision::{Decision, Outcome, RawDecision, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, State, Store, state_indexes};

/// The charges of one attempt.
type Charges<'a> = SmallVec<[Charge<'a>; 4]>;

impl<S: Store, C: Timer> Limiter<S, C> {
    /// Waits until one unit passes, first come, first served. Denied if that takes longer than `wait`: at once where
    /// the algorithm reserves, otherwise at the latest when `wait` has elapsed and the store has answered.
    ///
    /// Where the algorithm reserves, the charge is debited at once and the order is the store's. Elsewhere, and during
    /// a block time, waiting means retrying at `retry_after`; the order is that of this limiter, or none during a block
    /// time. Dropping the future cancels the wait and refunds the charge, unless later callers already wait behind it,
    /// as far as the store can do that without blocking.
    ///
    /// An error on concurrency limits: a slot acquired this way could not be released.
    pub async fn until_ready<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready(limit.charge(key), wait).await
    }

    /// Waits as [`until_ready`](Self::until_ready) does, for a charge with a cost.
    pub async fn charge_until_ready(
        &self,
        charge: Charge<'_>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.wait_for(&[charge], wait.into()).await?.into_single()
    }

    /// Waits as [`until_ready`](Self::until_ready) does, until several charges pass together: all of them are debited
    /// or none is, and nothing is debited while waiting, except where the algorithms of all of them reserve.
    ///
    /// The caller starts when the last charge does ([`Verdict::start_after`]), which this method has waited for. Where
    /// one of the algorithms does not reserve, callers that wait for the same keys are served in the order of their
    /// arrival; others are not held up by them.
    pub async fn all_until_ready<'a>(
        &self,
        charges: impl AsRef<[Charge<'a>]>,
        wait: impl Into<Wait>,
    ) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        Ok(self.wait_for(charges, wait.into()).await?.with_names(charges))
    }

    async fn wait_for(&self, charges: &[Charge<'_>], wait: Wait) -> Result<Verdict, StoreError> {
        charges.iter().try_for_each(waitable)?;
        let deadline = self.clock.now() + wait.max_wait();
        if !all_reserve(charges) {
            let ticket = self.queues.join(charges);
            let mut turn = pin!(ticket.turn());
            let mut too_late = pin!(self.clock.sleep(wait.max_wait()));
            let first = poll_fn(|context| match turn.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => too_late.as_mut().poll(context).map(|()| false),
            });
            if !first.await {
                return self.deny_in_queue(charges).await;
            }
            return self.retry_until(charges, wait, deadline.since(self.clock.now())).await;
        }
        self.retry_until(charges, wait, wait.max_wait()).await
    }

    /// Tries until the charges pass, or until no time is left for another attempt.
    async fn retry_until(
        &self,
        charges: &[Charge<'_>],
        wait: Wait,
        mut left: Duration,
    ) -> Result<Verdict, StoreError> {
        let deadline = self.clock.now() + left;
        loop {
            let attempt = attempt(charges, left);
            let verdict = self.decide_all(&attempt).await?;
            if verdict.is_allowed() {
                let start = verdict.start_after();
                if !start.is_zero() {
                    let guard = CancelOnDrop { limiter: self, charges: &attempt, verdict: Some(&verdict) };
                    self.clock.sleep(wait.with_delay(start, left)).await;
                    guard.started();
                }
                return Ok(verdict);
            }
            left = deadline.since(self.clock.now());
            let Some(pause) = pause_before_retry(charges, &verdict, left) else { return Ok(verdict) };
            self.clock.sleep(wait.with_delay(pause, left)).await;
            left = deadline.since(self.clock.now());
        }
    }

    /// Denies the charges of a caller whose turn in the queue did not come in time. Nothing is debited.
    async fn deny_in_queue(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let exact =
            charges.iter().all(|charge| charge.cost() <= 1) && state_indexes(charges).1 == charges.len();
        let seen = if exact { None } else { self.evaluate(charges).await };
        let result = if let Some(verdict) = seen {
            Ok(verdict)
        } else {
            // A peek is answered as a cost of 1 would be.
            let peeks: Charges<'_> = charges.iter().map(|charge| charge.with_cost(0)).collect();
            self.store.decide(Request::new(&peeks), self.clock.now()).await
        };
        let denied = result.map(|seen| {
            if seen.is_denied() {
                return seen;
            }
            // There is room, but other callers are first.
            let deny = |seen: &Decision| {
                let raw = seen.raw();
                Decision::from(RawDecision {
                    outcome: Outcome::Denied,
                    granted: 0,
                    wait: raw.wait.max(1),
                    ..raw
                })
            };
            Verdict::new(seen.decisions().iter().map(deny), seen.decided_at())
        });
        self.report(charges, denied)
    }

    /// Returns what the charges would be answered with, by their own costs and without debiting anything. `None` if the
    /// store does not return its states.
    async fn evaluate(&self, charges: &[Charge<'_>]) -> Option<Verdict> {
        let (indexes, count) = state_indexes(charges);
        let (mut states, mut at) = (Vec::with_capacity(count), self.clock.now());
        for (charge, index) in charges.iter().zip(&indexes) {
            if *index < states.len() {
                continue;
            }
            let export = self.store.export(charge.limit(), charge.key(), self.clock.now()).await.ok()?;
            states.push(match &export.state {
                Some(snapshot) => State::from_snapshot(charge.limit(), snapshot).ok()?,
                None => State::default(),
            });
            at = export.at;
        }
        let before = states.clone();
        let decide = |(charge, index): (&Charge<'_>, &usize)| {
            let decision = states[*index].evaluate(charge.limit, at, &charge.operation);
            if decision.is_denied() {
                return decision;
            }
            // It would pass, but it is not debited: the balance does not change.
            let peeked = before[*index].clone().evaluate(charge.limit, at, &charge.with_cost(0).operation);
            RawDecision { outcome: Outcome::Allowed, wait: decision.raw().wait, ..peeked.raw() }.into()
        };
        let decisions: SmallVec<[Decision; 4]> = charges.iter().zip(&indexes).map(decide).collect();
        Some(Verdict::new(decisions, at))
    }
}

impl<S: ImmediateStore, C: BlockingTimer> Limiter<S, C> {
    /// Blocks the thread until one unit passes. Denied if that would take longer than `wait`. Where the algorithm
    /// reserves, first come, first served; elsewhere blocked threads retry at `retry_after`, in no order.
    pub fn until_ready_blocking<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.charge_until_ready_blocking(limit.charge(key), wait)
    }

    /// Blocks as [`until_ready_blocking`](Self::until_ready_blocking) does, for a charge with a cost.
    pub fn charge_until_ready_blocking(
        &self,
        charge: Charge<'_>,
        wait: impl Into<Wait>,
    ) -> Result<Decision, StoreError> {
        self.wait_for_blocking(&[charge], wait.into())?.into_single()
    }

    /// Blocks as [`until_ready_blocking`](Self::until_ready_blocking) does, until several charges pass together: all of
    /// them are debited or none is.
    pub fn all_until_ready_blocking<'a>(
        &self,
        charges: impl AsRef<[Charge<'a>]>,
        wait: impl Into<Wait>,
    ) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        Ok(self.wait_for_blocking(charges, wait.into())?.with_names(charges))
    }

    fn wait_for_blocking(&self, charges: &[Charge<'_>], wait: Wait) -> Result<Verdict, StoreError> {
        charges.iter().try_for_each(waitable)?;
        let deadline = self.clock.now() + wait.max_wait();
        let mut left = wait.max_wait();
        loop {
            let verdict = self.decide_all_now(&attempt(charges, left))?;
            if verdict.is_allowed() {
                if !verdict.start_after().is_zero() {
                    self.clock.pause(wait.with_delay(verdict.start_after(), left));
                }
                return Ok(verdict);
            }
            left = deadline.since(self.clock.now());
            let Some(pause) = pause_before_retry(charges, &verdict, left) else { return Ok(verdict) };
            self.clock.pause(wait.with_delay(pause, left));
            left = deadline.since(self.clock.now());
        }
    }
}

/// Returns an error if waiting makes no sense for a charge.
fn waitable(charge: &Charge<'_>) -> Result<(), StoreError> {
    let refuse = |why| Err(StoreError::unsupported(charge.limit().name(), why));
    match (charge.limit().kind(), charge.action()) {
        (AlgorithmKind::Concurrency, _) => refuse(
            "a slot acquired by waiting could not be released: use `acquire`, and retry while no slot is free",
        ),
        (_, Action::Take { .. }) => Ok(()),
        (
            _,
            Action::TakeUpTo
            | Action::Debit { .. }
            | Action::Refund { .. }
            | Action::Reset
            | Action::Renew
            | Action::Release,
        ) => refuse("only a take can wait"),
    }
}

/// Returns whether every charge can be debited now to start later.
fn all_reserve(charges: &[Charge<'_>]) -> bool {
    charges.iter().all(|charge| charge.limit().kind().reserves())
}

/// Returns the charges of an attempt that has this much time left. If one of them cannot start later, none of them
/// does, because it would count in a window that is over when the caller starts. A queue always returns a start time.
fn attempt<'a>(charges: &[Charge<'a>], left: Duration) -> Charges<'a> {
    let all_reserve = all_reserve(charges);
    let within = |charge: &Charge<'a>| {
        if all_reserve || charge.limit().kind() == AlgorithmKind::LeakyQueue {
            charge.with_max_wait(left)
        } else {
            *charge
        }
    };
    charges.iter().map(within).collect()
}

/// Returns after what time a denied attempt is repeated. `None` if that would be too late, or if it is hopeless: a
/// reservation that is denied by the rate would start too late, but the end of a block time can be waited for.
fn pause_before_retry(charges: &[Charge<'_>], verdict: &Verdict, left: Duration) -> Option<Duration> {
    let pause = verdict.retry_after().filter(|pause| *pause <= left)?;
    let mut denied = charges.iter().zip(verdict.decisions()).filter(|(_, decision)| decision.is_denied());
    let can_end = denied.all(|(charge, _)| charge.limit().block_time().is_some());
    (can_end || !all_reserve(charges)).then_some(pause)
}

/// Cancels the charges if their caller is dropped before it starts.
struct CancelOnDrop<'a, S: Store, C: Clock> {
    limiter: &'a Limiter<S, C>,
    charges: &'a [Charge<'a>],
    verdict: Option<&'a Verdict>,
}

impl<S: Store, C: Clock> CancelOnDrop<'_, S, C> {
    fn started(mut self) {
        self.verdict = None;
    }
}

impl<S: Store, C: Clock> Drop for CancelOnDrop<'_, S, C> {
    fn drop(&mut self) {
        let Some(verdict) = self.verdict else { return };
        let pairs = self.charges.iter().zip(verdict.decisions());
        let refunds: Charges<'_> = pairs
            .filter_map(|(charge, decision)| cancellation(charge, decision, verdict.decided_at()))
            .collect();
        if !refunds.is_empty() {
            self.limiter.decide_detached(&refunds);
        }
    }
}
