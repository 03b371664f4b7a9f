//! A token lease: tokens that were taken from the central store in advance.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::store::{RawDecision, State};
use tollgate_core::{Action, Charge, Decision, Outcome, Source, Time};

use super::acquisition::Acquisition;
use super::decide::NotLocal;
use super::refill::Refill;
use crate::config::LimitConfig;
use crate::nanos;

/// The weight of the last interval in the expected demand of the next.
const LATEST_WEIGHT: f64 = 0.5;
/// How much more than the expected demand is leased.
const MARGIN: f64 = 1.25;

/// The tokens leased for a key.
#[derive(Debug, Default)]
pub(crate) struct TokenLease {
    tokens: u32,
    /// Tokens that are not for use any more: the next sync round returns them.
    surplus: u32,
    /// When the last tokens were acquired, by the central clock.
    acquired_at: Time,
    /// Until when the central store does not have `unavailable` tokens, as far as is known.
    empty_until: Time,
    unavailable: u32,
    /// The central balance when it was last reported, and when it will equal a fresh one.
    central_remaining: u32,
    reset_at: Time,
    /// The demand since the last sync round, granted or not, and the expected demand per interval.
    demand: u64,
    expected: f64,
    /// Present while a caller or the sync task acquires tokens; notifies the callers that wait for it.
    acquiring: Option<Arc<Notify>>,
}

/// What a sync round does for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseAction {
    /// Acquires so many tokens.
    Acquire(u32),
    /// Returns so many tokens.
    Return(u32),
    /// Nothing, but the lease is in use.
    Keep,
    /// Nothing, and the lease is no longer in use.
    Idle,
}

impl TokenLease {
    /// Returns whether this charge can be decided with leased tokens, after acquiring some if necessary. Deltas and
    /// reservations are decided centrally, and so is a peek if there are no tokens.
    fn can_decide(&self, charge: &Charge<'_>) -> bool {
        charge.action().is_take() && (charge.cost() > 0 || self.tokens > 0)
    }

    /// Returns whether tokens are leased, or being acquired.
    pub(super) fn is_held(&self) -> bool {
        self.tokens > 0 || self.surplus > 0 || self.acquiring.is_some()
    }

    /// Returns whether the lease equals one that was never used.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        self.is_unused() && self.empty_until <= now
    }

    /// Returns whether the lease is no longer in use.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_held() && self.demand == 0 && self.expected < 0.5
    }

    /// Decides a charge with the leased tokens, and counts its demand.
    pub(super) fn decide(&mut self, charge: &Charge<'_>, now: Time) -> Result<Decision, NotLocal> {
        let cost = charge.cost();
        if !self.can_decide(charge) {
            return Err(NotLocal::Central);
        }
        if cost > charge.limit().capacity() && !matches!(charge.action(), Action::TakeUpTo) {
            // Never: the pure function denies it whatever the state is.
            return Ok(State::default().apply(charge, now));
        }
        self.demand = self.demand.saturating_add(cost.into());
        self.draw(charge, now)
    }

    /// Decides a charge again whose demand has been counted.
    pub(super) fn decide_again(&mut self, charge: &Charge<'_>, now: Time) -> Result<Decision, NotLocal> {
        if self.can_decide(charge) { self.draw(charge, now) } else { Err(NotLocal::Central) }
    }

    fn draw(&mut self, charge: &Charge<'_>, now: Time) -> Result<Decision, NotLocal> {
        let cost = charge.cost();
        let part = if matches!(charge.action(), Action::TakeUpTo) { self.tokens.min(cost) } else { cost };
        if self.tokens >= part.max(1) {
            self.tokens -= part;
            return Ok(self.decision(charge, Outcome::Allowed, part, 0, now));
        }
        if now >= self.empty_until || part.max(1) - self.tokens < self.unavailable {
            return Err(NotLocal::NeedsTokens(0));
        }
        let wait = self.empty_until.nanos() - now.nanos();
        Ok(self.decision(charge, Outcome::Denied, 0, wait, now))
    }

    fn decision(
        &self,
        charge: &Charge<'_>,
        outcome: Outcome,
        granted: u32,
        wait: u64,
        now: Time,
    ) -> Decision {
        let limit = charge.limit().capacity();
        let left = i64::from(self.tokens.saturating_add(self.central_remaining).min(limit));
        let reset = self.reset_at.nanos().saturating_sub(now.nanos());
        RawDecision { outcome, source: Source::Store, granted, limit, left, unit: 1, wait, reset }.into()
    }

    /// Puts back the tokens of a request that another of its charges stopped.
    pub(super) fn put_back(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Keeps at most so many tokens for use; the next sync round returns the others.
    pub(super) fn keep_at_most(&mut self, max: u32) {
        let excess = self.tokens.saturating_sub(max);
        self.tokens -= excess;
        self.return_failed(excess);
    }

    /// Keeps tokens that could not be returned, for the next sync round.
    pub(crate) fn return_failed(&mut self, tokens: u32) {
        self.surplus = self.surplus.saturating_add(tokens);
    }

    /// Starts to acquire tokens for a charge, or joins a call in flight.
    pub(super) fn acquire<'a>(&mut self, charge: &Charge<'a>, config: &LimitConfig) -> Acquisition<'a> {
        match &self.acquiring {
            Some(acquiring) => Acquisition::wait(acquiring),
            None => Acquisition::Send(self.start_acquiring(charge, config)),
        }
    }

    /// Starts to acquire tokens for a charge, and returns the charge to send. A cost above one needs all of its tokens;
    /// otherwise any number helps.
    fn start_acquiring<'a>(&mut self, charge: &Charge<'a>, config: &LimitConfig) -> Charge<'a> {
        self.acquiring = Some(Arc::default());
        let lack = charge.cost().saturating_sub(self.tokens).max(1);
        if lack > 1 && !matches!(charge.action(), Action::TakeUpTo) {
            return charge.with_cost(lack);
        }
        // The demand since the last sync round is likely to occur again before the next.
        let demand = u32::try_from(self.demand).unwrap_or(u32::MAX);
        let block = self.target().max(demand).min(config.max_lease.saturating_sub(self.tokens));
        charge.with_cost(block.max(lack)).with_action(Action::TakeUpTo)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    fn target(&self) -> u32 {
        (self.expected * MARGIN).ceil() as u32
    }

    /// Adds the tokens that the central store granted.
    pub(crate) fn acquired(
        &mut self,
        sent: &Charge<'_>,
        decision: &Decision,
        decided_at: Time,
        config: &LimitConfig,
    ) {
        let (asked, all) = (sent.cost(), !matches!(sent.action(), Action::TakeUpTo));
        let granted = if decision.is_allowed() { decision.granted() } else { 0 };
        self.tokens = self.tokens.saturating_add(granted);
        self.central_remaining = decision.remaining();
        self.reset_at = decided_at + decision.reset_after();
        if granted > 0 {
            self.acquired_at = decided_at;
        }
        if granted < asked {
            // The central store has no more. A call per refilled token would be a call all the time; a pause of a
            // quarter of an interval, or of the time to fill the limit, loses none.
            let fill = nanos(config.limit.period()) / u64::from(config.limit.count().max(1))
                * u64::from(config.limit.capacity());
            let pause = (config.interval.min(fill) / 4).max(1);
            let wait = decision.retry_after().map_or(0, nanos).max(pause);
            self.empty_until = Time::from_nanos(decided_at.nanos().saturating_add(wait));
            self.unavailable = if all { asked } else { 1 };
        }
        self.stop_acquiring();
    }

    /// Ends an attempt to acquire tokens, whatever its result, and wakes the callers that wait for it.
    pub(crate) fn stop_acquiring(&mut self) {
        if let Some(acquiring) = self.acquiring.take() {
            acquiring.notify_waiters();
        }
    }

    /// Ends an attempt to acquire tokens that failed: nothing is acquired for an interval.
    pub(crate) fn acquire_failed(&mut self, config: &LimitConfig, now: Time) {
        self.empty_until = Time::from_nanos(now.nanos().saturating_add(config.interval));
        self.unavailable = 1;
        self.stop_acquiring();
    }

    /// Returns what a sync round has to do, and starts it.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn start_round(&mut self, config: &LimitConfig, now: Time) -> LeaseAction {
        self.expected = self.expected * (1.0 - LATEST_WEIGHT) + self.demand as f64 * LATEST_WEIGHT;
        let used = std::mem::take(&mut self.demand) > 0;
        if self.acquiring.is_some() {
            return LeaseAction::Keep;
        }
        let target = if self.expected < 0.5 { 0 } else { self.target().min(config.max_lease) };
        if self.tokens > target.saturating_mul(2) {
            self.keep_at_most(target);
        }
        if self.surplus > 0 {
            return LeaseAction::Return(std::mem::take(&mut self.surplus));
        }
        if self.tokens < target && now >= self.empty_until {
            self.acquiring = Some(Arc::default());
            return LeaseAction::Acquire(target - self.tokens);
        }
        if used || target > 0 { LeaseAction::Keep } else { LeaseAction::Idle }
    }

    /// Starts to return all tokens.
    pub(super) fn return_all(&mut self) -> LeaseAction {
        (self.demand, self.expected) = (0, 0.0);
        self.keep_at_most(0);
        match std::mem::take(&mut self.surplus) {
            0 => LeaseAction::Idle,
            tokens => LeaseAction::Return(tokens),
        }
    }

    /// Returns the action that returns tokens to the central store.
    pub(super) fn refund(&self, config: &LimitConfig) -> Action {
        // A window that is over ignores a refund; a bucket never holds more than its capacity.
        let at = matches!(config.refill, Refill::Windows { .. }).then_some(self.acquired_at);
        Action::Refund { at }
    }
}
