//! A local replica of a key's state: the central state of the last sync round, plus what was granted since.

use tollgate_core::store::{Flow, PlainTake, RawDecision, State};
use tollgate_core::{Action, Charge, Decision, Outcome, Source, Time};

use super::compact_state::CompactState;
use super::pending::{Delta, PendingDeltas};
use super::share::{NodeShare, Usage};
use crate::config::{LimitConfig, WhenStale};

/// After how many intervals pending deltas are late: the central store did not answer.
const LATE_AFTER: u64 = 4;

/// A local replica of a key's state. Small, because a decision on a key that no other node uses reads nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    state: CompactState,
    pending: PendingDeltas,
    /// Present if other nodes use the key.
    peers: Option<Box<Peers>>,
}

/// What a replica stores if other nodes use the key, too.
#[derive(Clone, Copy, Debug, Default)]
struct Peers {
    share: NodeShare,
    /// When the first of the pending takes was granted.
    pending_since: Time,
}

/// The result of a sync round for one key.
#[derive(Debug)]
pub(crate) struct Update {
    /// The central state.
    pub(crate) state: State,
    /// The sum of the deltas that were sent.
    pub(crate) sent: i64,
    /// The deltas were late.
    pub(crate) late: bool,
    /// The replica's instants are those of the central clock. Otherwise the states cannot be compared.
    pub(crate) comparable: bool,
}

impl Replica {
    pub(super) fn from_central(state: State) -> Self {
        Self { state: state.into(), ..Self::default() }
    }

    pub(super) fn state(&self) -> State {
        self.state.to_state()
    }

    /// Sets the state that a request of several charges results in.
    pub(super) fn set_state(&mut self, state: State) {
        self.state = state.into();
    }

    /// Returns from when on the state equals a fresh one.
    pub(super) fn fresh_at(&self) -> Time {
        self.state.fresh_at()
    }

    fn apply(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.state.apply(charge, now)
    }

    /// Returns what remains, and changes nothing.
    fn peek(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.apply(&charge.with_cost(0).with_action(Action::Take { max_wait: None }), now)
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether a sync round is useful: there are pending deltas, or a check was denied because of the share.
    pub(super) fn needs_sync(&self) -> bool {
        self.has_pending() || self.peers.as_ref().is_some_and(|peers| peers.share.missed())
    }

    /// Takes the pending deltas, to send them, and returns whether they are late.
    pub(super) fn take_pending(&mut self, config: &LimitConfig, now: Time) -> (PendingDeltas, bool) {
        let mut pending = std::mem::take(&mut self.pending);
        let Some(peers) = &self.peers else { return (pending, false) };
        let waited = now.nanos().saturating_sub(peers.pending_since.nanos());
        let late = config.refill.is_continuous()
            && pending.has_takes()
            && waited > config.interval.saturating_mul(LATE_AFTER);
        if late {
            // Other nodes were granted tokens in the meantime, too. If all of them dated their deltas to now, the
            // tokens refilled in the meantime would be missing once per node.
            pending.date_takes(peers.pending_since);
        }
        (pending, late)
    }

    /// Decides a single charge.
    #[inline]
    pub(super) fn decide(&mut self, charge: &Charge<'_>, config: &LimitConfig, now: Time) -> Decision {
        match self.within_share(charge, config, now) {
            Ok(charge) => {
                let decision = self.apply(&charge, now);
                self.record(&charge, &decision, config, now);
                decision
            }
            Err(denial) => denial,
        }
    }

    /// Takes from a plain bucket: the path of nearly all calls. `None` if the general path has to decide, because of
    /// this node's share or because the limit has changed.
    #[inline]
    pub(super) fn take(
        &mut self,
        flow: &Flow,
        cost: u32,
        config: &LimitConfig,
        now: Time,
    ) -> Option<PlainTake> {
        let tat = self.state.tat_mut()?;
        if tat.digest != flow.digest() && tat.at != Time::EPOCH {
            return None;
        }
        let take = flow.take(tat.at, now, cost);
        let Some(next) = take.next() else { return Some(take) };
        if let Some(peers) = &mut self.peers {
            if peers.share.budget(config.rate, now) < f64::from(cost) {
                return None;
            }
            peers.spend(cost.into(), &self.pending, config, now);
        }
        *tat = flow.state(next.nanos(), false);
        self.pending.take(config.refill, cost, now);
        Some(take)
    }

    /// Returns the part of a charge that this node's share covers, or a denial.
    pub(super) fn within_share<'a>(
        &mut self,
        charge: &Charge<'a>,
        config: &LimitConfig,
        now: Time,
    ) -> Result<Charge<'a>, Decision> {
        let cost = charge.cost();
        if self.peers.is_none() || !charge.action().is_take() || cost == 0 {
            return Ok(*charge);
        }
        let window_starts = !config.refill.is_continuous() && self.fresh_at() <= now;
        let peeked = self.peek(charge, now);
        let remaining = tokens(&peeked);
        let Some(Peers { share, .. }) = self.peers.as_deref_mut() else { return Ok(*charge) };
        if window_starts {
            share.fill(config.rate, now);
        }
        let budget = share.budget(config.rate, now);
        let up_to = matches!(charge.action(), Action::TakeUpTo);
        let (least, wanted) =
            if up_to { (1.0, remaining.min(cost.into())) } else { (f64::from(cost), f64::from(cost)) };
        if budget >= wanted || remaining < least {
            // If the tokens do not exist at all, the state denies the charge, with the right wait.
            return Ok(*charge);
        }
        share.miss(wanted);
        if up_to && budget >= 1.0 {
            return Ok(charge.with_cost(whole(budget)));
        }
        // There are tokens, but not for this node: until its share has refilled, or the next round reports more.
        let wait = nanos(share.wait(config.rate, f64::from(cost), now));
        let wait = (config.interval / 2).min(wait).max(1);
        Err(RawDecision { outcome: Outcome::Denied, granted: 0, wait, ..peeked.raw() }.into())
    }

    /// Records a grant as a pending delta.
    #[inline]
    pub(super) fn record(
        &mut self,
        charge: &Charge<'_>,
        decision: &Decision,
        config: &LimitConfig,
        now: Time,
    ) {
        let (action, granted) = (charge.action(), decision.granted());
        // A refund that counts for nothing locally may count for other nodes.
        let nothing = if action.is_delta() { charge.cost() == 0 } else { granted == 0 };
        if nothing || decision.is_denied() {
            return;
        }
        if let Some(peers) = &mut self.peers {
            let refund = matches!(action, Action::Refund { .. });
            let amount = if refund { -f64::from(granted) } else { f64::from(granted) };
            peers.spend(amount, &self.pending, config, now);
        }
        if action.is_delta() {
            // With its full cost: the central store decides how much of a refund counts.
            self.pending.record(config.refill, charge.cost(), granted, dated(action, now));
        } else {
            self.pending.take(config.refill, granted, now);
        }
    }

    /// Decides while the central store does not answer.
    pub(super) fn decide_stale(&mut self, charge: &Charge<'_>, config: &LimitConfig, now: Time) -> Decision {
        let when_stale = if charge.action().is_take() { config.when_stale } else { WhenStale::Continue };
        let decision = match when_stale {
            WhenStale::Continue => self.decide(charge, config, now),
            WhenStale::Deny => return deny(charge, config),
            WhenStale::Share { .. } => {
                let Some(share) = &config.stale_share else { return deny(charge, config) };
                let before = self.state.clone();
                let decision = self.apply(&charge.with_limit(share), now);
                if decision.is_denied() {
                    // A denial under other parameters must not change the state under the limit's own.
                    self.state = before;
                }
                self.record(charge, &decision, config, now);
                decision
            }
        };
        decision.raw().with_source(Source::Fallback).into()
    }

    /// Adopts the central state after a sync round, and adds the deltas that are pending by now. Returns the debt of
    /// the central balance, in tokens. `random` is a random number below 1.
    pub(super) fn update(&mut self, update: Update, config: &LimitConfig, now: Time, random: f64) -> f64 {
        let peek = config.limit.charge("");
        let before = tokens(&self.peek(&peek, now));
        let local = std::mem::replace(&mut self.state, update.state.into());
        let local = Self { state: local, ..Self::default() };
        let full = config.refill.is_continuous() && self.fresh_at() <= now;
        let debt = -tokens(&self.peek(&peek, now));
        // The state of a full bucket does not contain its last use, which was now at the latest.
        self.replay_pending(&peek, now, if full { undated } else { |action| action });
        // Or earlier, if the local state says so. Late deltas count centrally as if they had been spread over time; the
        // local state has their true instants.
        let local_is_better = (full && self.has_pending() && local.fresh_at() < self.fresh_at())
            || (update.late && local.fresh_at() > self.fresh_at());
        if local_is_better {
            self.state = local.state;
        }
        let remaining = tokens(&self.peek(&peek, now));
        let usage = Usage {
            own: signed(update.sent.max(0)),
            // Less than half a token is a rounding difference.
            others: if before - remaining < 0.5 || !update.comparable { 0.0 } else { before - remaining },
            pending: signed(self.pending.sum().max(0)),
            remaining,
        };
        // The deltas that are pending by now are not older than that, as far as is known.
        let first = || Box::new(Peers { pending_since: now, ..Peers::default() });
        let mut peers = self.peers.take().unwrap_or_else(first);
        peers.share.learn(usage, config.rate, now, random);
        self.peers = (!peers.share.is_whole()).then_some(peers);
        debt.max(0.0)
    }

    /// Adopts the central state if it has no more tokens than the replica. Otherwise the answer may be older than the
    /// last sync round, and the next one decides.
    pub(super) fn update_if_lower(&mut self, update: Update, config: &LimitConfig, now: Time, random: f64) {
        let peek = config.limit.charge("").with_cost(0);
        let central = tokens(&update.state.clone().apply(&peek, now)) - signed(self.pending.sum());
        if central <= tokens(&self.peek(&peek, now)) {
            let _ = self.update(update, config, now, random);
        }
    }

    /// Applies the pending deltas to the state.
    fn replay_pending(&mut self, charge: &Charge<'_>, now: Time, date: fn(Action) -> Action) {
        let pending = std::mem::take(&mut self.pending);
        for (cost, action) in pending.deltas().flat_map(Delta::charges) {
            let _ = self.apply(&charge.with_cost(cost).with_action(date(action)), now);
        }
        self.pending = pending;
    }

    /// Applies what the central store granted itself: no delta is pending for it.
    pub(super) fn granted_centrally(&mut self, charge: &Charge<'_>, decision: &Decision, now: Time) {
        if decision.is_denied() {
            return;
        }
        let (action, granted) = (charge.action(), decision.granted());
        if action == Action::Reset {
            // What was granted locally in the meantime is still pending.
            (self.state, self.peers) = (CompactState::default(), None);
            self.replay_pending(charge, now, |action| action);
        } else if action.is_delta() {
            self.apply_granted(charge.with_cost(granted), now);
        } else if action.is_take() {
            self.apply_granted(charge.with_cost(granted).with_action(Action::Debit { at: None }), now);
        }
    }

    /// Applies a delta that the central store has applied already.
    pub(super) fn apply_granted(&mut self, delta: Charge<'_>, now: Time) {
        if delta.cost() > 0 {
            let _ = self.apply(&delta, now);
        }
    }
}

impl Peers {
    /// Spends from the share. `pending` are the deltas before this one.
    fn spend(&mut self, amount: f64, pending: &PendingDeltas, config: &LimitConfig, now: Time) {
        if !pending.has_takes() {
            self.pending_since = now;
        }
        self.share.spend(amount, config.rate, now);
    }
}

/// Denies a charge because the central store does not answer.
pub(super) fn deny(charge: &Charge<'_>, config: &LimitConfig) -> Decision {
    RawDecision::deny(charge, std::time::Duration::from_nanos(config.interval), Source::Policy).into()
}

/// Removes the instant of a debit.
fn undated(action: Action) -> Action {
    match action {
        Action::Debit { .. } => Action::Debit { at: None },
        other => other,
    }
}

/// Dates a debit or refund without an instant to now, however late it is sent.
fn dated(action: Action, now: Time) -> Action {
    action.map_instant(|at| at.or(Some(now)))
}

/// Returns the balance in tokens; negative if there is debt.
#[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
fn tokens(decision: &Decision) -> f64 {
    let raw = decision.raw();
    raw.left as f64 / raw.unit as f64
}

#[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
fn signed(amount: i64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least one, and saturating")]
fn whole(tokens: f64) -> u32 {
    tokens as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn nanos(span: f64) -> u64 {
    span as u64
}
