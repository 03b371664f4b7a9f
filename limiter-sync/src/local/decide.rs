//! Decisions on a single charge, without a call to the central store.

use tollgate_core::store::Store;
use tollgate_core::{Action, Charge, Clock, Decision, Event, FallbackReason, Source, Time};

use crate::config::LimitConfig;
use crate::node::Node;

/// Why a request cannot be decided locally. The number is the index of the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotLocal {
    /// The key has no entry, or one for other parameters of the limit.
    UnknownKey(usize),
    /// More tokens are needed than are leased.
    NeedsTokens(usize),
    /// The central store has to decide.
    Central,
    /// There is no sync task at work, and this caller has to start one.
    TaskStopped,
}

/// Returns whether the central store has to decide a charge, whatever its limit is: a reset must apply to all nodes,
/// and a reservation must not be promised by several.
pub(super) fn requires_central(charge: &Charge<'_>) -> bool {
    let action = charge.action();
    !(action.is_plain_take() || action.is_delta() || matches!(action, Action::TakeUpTo))
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Decides a single charge locally: the path of nearly all calls. `again`: the demand of this charge has been
    /// counted before.
    #[inline]
    pub(crate) fn decide_one_locally(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
        again: bool,
    ) -> Result<Decision, NotLocal> {
        let hash = self.table.hash(charge);
        let plain = charge.limit().as_flow().filter(|flow| flow.is_plain(charge));
        // Before the lock: reading the clock would stall the reads behind it.
        let local_now = clock.now();
        let now = self.to_central(local_now);
        let mut shard = self.table.lock(self.table.shard_of(hash));
        // Under the lock: `close` locks every shard after it has set the flag.
        if self.is_closed() || requires_central(charge) {
            return Err(NotLocal::Central);
        }
        let index = shard.find(hash).ok_or(NotLocal::UnknownKey(0))?;
        let entry = shard.get(index).ok_or(NotLocal::UnknownKey(0))?;
        if entry.config.limit != *charge.limit() {
            return Err(NotLocal::UnknownKey(0));
        }
        let stale =
            self.staleness.is_suspect(local_now) && self.find_out_if_stale(&entry.config, local_now)?;
        if let (false, Some(flow)) = (stale, plain)
            && let Some(take) = entry.state.take(flow, charge.cost(), &entry.config, now)
        {
            if take.next().is_some() || entry.is_outdated(now) || entry.state.needs_sync(&entry.config, now) {
                self.staleness.made_due(&entry.config, local_now);
                shard.make_due(index);
            }
            drop(shard);
            // Computed outside of the lock.
            return Ok(take.answer(flow, charge.cost()));
        }
        let decision = entry.state.decide(charge, &entry.config, now, stale, again)?;
        // While stale, every check keeps its key in the sync rounds: one of them finds out that the central store is
        // back.
        let recheck = decision.is_denied() && entry.is_outdated(now);
        if stale || recheck || entry.state.needs_sync(&entry.config, now) {
            self.staleness.made_due(&entry.config, local_now);
            shard.make_due(index);
        }
        if stale {
            drop(shard);
            self.report_fallback(charge, &decision);
        }
        Ok(decision)
    }

    /// Returns whether decisions on a limit are stale, unless this caller has to start a sync task first. `now` is by
    /// the local clock.
    #[cold]
    fn find_out_if_stale(&self, config: &LimitConfig, now: Time) -> Result<bool, NotLocal> {
        if self.needs_task(now) {
            return Err(NotLocal::TaskStopped);
        }
        Ok(self.is_stale(config, now))
    }

    /// Counts and reports a decision that was made while the central store did not answer.
    #[cold]
    pub(super) fn report_fallback(&self, charge: &Charge<'_>, decision: &Decision) {
        if decision.source() == Source::Store {
            return;
        }
        self.counters.decided_stale();
        if let Some(observer) = self.observer.get() {
            let (limit, reason) = (charge.limit().name(), FallbackReason::Stale);
            observer.observe(Event::FellBack { limit, reason, decision });
        }
    }
}
