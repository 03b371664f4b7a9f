//! A local replica of a key's state: the central state of the last sync round, plus what was granted since.
//!
//! - `granted`: what the central store granted itself, among it tokens in advance.

mod granted;

use tollgate_core::store::{Flow, PlainTake, RawDecision, State, Windows};
use tollgate_core::{Action, Charge, Decision, Outcome, Source, Time};

use crate::config::{LimitConfig, WhenStale};
use crate::local::compact_state::CompactState;
use crate::local::demand::DemandReport;
use crate::local::peers::{Peers, Round};
use crate::local::pending::{Delta, PendingDeltas};
use crate::local::usage::{LateGrants, Usage};

/// A local replica of a key's state. Small, because a decision on a key that no other node uses reads nothing else.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    state: CompactState,
    pending: PendingDeltas,
    /// Present if other nodes use the key.
    peers: Option<Box<Peers>>,
}

/// What a sync round sends for a replica.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) deltas: PendingDeltas,
    /// Late grants. Only what they exceed the limit by is debited, once the answer shows how much that is.
    pub(crate) late: LateGrants,
    /// What is added to the usage record, if there is one, in its unit.
    pub(crate) usage: Option<u64>,
    /// What is added to the demand record, if tokens are scarce.
    pub(crate) report: Option<DemandReport>,
}

/// The result of a sync round for one key.
#[derive(Debug)]
pub(crate) struct Update {
    /// The central state.
    pub(crate) state: State,
    /// The sum of the deltas that were sent.
    pub(crate) sent: i64,
    /// Late grants, which were only recorded.
    pub(crate) late: LateGrants,
    /// An earlier call with them failed.
    pub(crate) failed_before: bool,
    /// When they were collected, by the deciding clock.
    pub(crate) collected_at: Time,
    /// The replica's instants are those of the central clock. Otherwise the states cannot be compared.
    pub(crate) comparable: bool,
    /// The usage record.
    pub(crate) usage: Option<Usage>,
    /// The demand record, and what was added to it.
    pub(crate) demand: Option<(DemandReport, Windows)>,
}

/// Why a replica does not decide a charge by its state.
#[derive(Debug)]
pub(super) enum OutOfShare {
    /// It is denied.
    Denied(Decision),
    /// The central store has tokens for it, as far as is known.
    NeedsTokens,
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
        let held = |peers: &Peers| peers.advance.is_held() || peers.owed() > 0;
        !self.pending.is_empty() || self.peers.as_deref().is_some_and(held)
    }

    /// Returns whether a sync round is useful: there are pending deltas, or callers were denied and other nodes have to
    /// know.
    pub(super) fn needs_sync(&self, config: &LimitConfig, now: Time) -> bool {
        self.has_pending() || self.peers.as_ref().is_some_and(|peers| peers.needs_sync(config, now))
    }

    /// Returns whether it stays in the sync rounds although this one has nothing to send: there will be a demand report.
    pub(super) fn waits_for_report(&self, config: &LimitConfig, now: Time) -> bool {
        !self.needs_sync(config, now) && self.peers.as_ref().is_some_and(|peers| peers.is_hungry(config, now))
    }

    /// Takes what a sync round sends.
    pub(super) fn take_pending(&mut self, config: &LimitConfig, now: Time, random: f64) -> Sending {
        let remaining =
            if self.peers.is_some() { tokens(&self.peek(&config.limit.charge(""), now)) } else { 0.0 };
        let Some(peers) = &mut self.peers else {
            let deltas = std::mem::take(&mut self.pending);
            return Sending { deltas, late: LateGrants::default(), usage: None, report: None };
        };
        let (late, owed) = peers.take_late(&mut self.pending, config, now);
        let unspent = peers.advance.take_unspent(config.refill, now);
        if unspent > 0 {
            self.pending.record(config.refill, unspent, unspent, Action::Refund { at: Some(now) });
        }
        let deltas = std::mem::take(&mut self.pending);
        let sent = deltas.sum().saturating_add(unspent.into());
        let unit = config.usage_unit();
        let usage = unit.map(|unit| peers.take_usage(sent, owed, late.amount, unit));
        let report = peers.report(remaining, config, now, random);
        Sending { deltas, late, usage, report }
    }

    /// Decides a single charge. `ask`: whether the central store may be asked for tokens.
    #[inline]
    pub(super) fn decide(
        &mut self,
        charge: &Charge<'_>,
        config: &LimitConfig,
        now: Time,
        ask: bool,
    ) -> Result<Decision, OutOfShare> {
        let charge = self.within_share(charge, config, now, ask)?;
        let decision = self.apply(&charge, now);
        self.record(&charge, &decision, config, now);
        Ok(decision)
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
        let Some(next) = take.next() else {
            if let Some(peers) = &mut self.peers {
                peers.demand.deny(cost.into(), now);
            }
            return Some(take);
        };
        if let Some(peers) = &mut self.peers {
            if !peers.is_alone() && peers.budget(config, now) < f64::from(cost) {
                return None;
            }
            peers.spend(cost.into(), &self.pending, config, now);
        }
        *tat = flow.state(next.nanos(), false);
        self.pending.take(config.refill, cost, now);
        if let Some(peers) = &mut self.peers {
            peers.cover(&mut self.pending, config, now);
        }
        Some(take)
    }

    /// Returns the part of a charge that this node's share covers.
    pub(super) fn within_share<'a>(
        &mut self,
        charge: &Charge<'a>,
        config: &LimitConfig,
        now: Time,
        ask: bool,
    ) -> Result<Charge<'a>, OutOfShare> {
        let cost = charge.cost();
        let shared = self.peers.as_ref().is_some_and(|peers| !peers.is_alone());
        if !shared || !charge.action().is_take() || cost == 0 {
            return Ok(*charge);
        }
        let window_starts = !config.refill.is_continuous() && self.fresh_at() <= now;
        let peeked = self.peek(charge, now);
        let remaining = tokens(&peeked);
        let Some(peers) = self.peers.as_deref_mut() else { return Ok(*charge) };
        if window_starts {
            peers.share.fill(config.rate, now);
        }
        let budget = peers.budget(config, now);
        let up_to = matches!(charge.action(), Action::TakeUpTo);
        let (least, wanted) =
            if up_to { (1.0, remaining.min(cost.into())) } else { (f64::from(cost), f64::from(cost)) };
        if budget >= wanted || remaining < least {
            // If the tokens do not exist at all, the state denies the charge, with the right wait.
            return Ok(*charge);
        }
        if up_to && budget >= 1.0 {
            return Ok(charge.with_cost(whole(budget)));
        }
        if ask && peers.may_ask(&self.pending, config, now) {
            return Err(OutOfShare::NeedsTokens);
        }
        peers.share.miss(wanted);
        peers.demand.deny(wanted, now);
        // There are tokens, but not for this node: until its share has refilled, or the next round reports more.
        let wait = nanos(peers.share.wait(config.rate, f64::from(cost), now));
        let wait = (config.interval / 2).min(wait).max(1);
        let denial = RawDecision { outcome: Outcome::Denied, granted: 0, wait, ..peeked.raw() };
        Err(OutOfShare::Denied(denial.into()))
    }

    /// Records a grant as a pending delta, and a denial as unmet demand.
    #[inline]
    pub(super) fn record(
        &mut self,
        charge: &Charge<'_>,
        decision: &Decision,
        config: &LimitConfig,
        now: Time,
    ) {
        let (action, granted) = (charge.action(), decision.granted());
        if decision.is_denied() {
            if let (Some(peers), true) = (&mut self.peers, action.is_take()) {
                peers.demand.deny(charge.cost().into(), now);
            }
            return;
        }
        // A refund that counts for nothing locally may count for other nodes.
        let nothing = if action.is_delta() { charge.cost() == 0 } else { granted == 0 };
        if nothing {
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
            if let Some(peers) = &mut self.peers {
                peers.cover(&mut self.pending, config, now);
            }
        }
    }

    /// Decides while the central store does not answer.
    pub(super) fn decide_stale(&mut self, charge: &Charge<'_>, config: &LimitConfig, now: Time) -> Decision {
        let when_stale = if charge.action().is_take() { config.when_stale } else { WhenStale::Continue };
        let decision = match when_stale {
            WhenStale::Continue => match self.decide(charge, config, now, false) {
                Ok(decision) | Err(OutOfShare::Denied(decision)) => decision,
                // It is not asked.
                Err(OutOfShare::NeedsTokens) => return deny(charge, config),
            },
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
    /// the central balance, in tokens.
    pub(super) fn update(&mut self, update: Update, config: &LimitConfig, now: Time) -> f64 {
        let peek = config.limit.charge("");
        let before = tokens(&self.peek(&peek, now));
        let local = std::mem::replace(&mut self.state, update.state.into());
        let local = Self { state: local, ..Self::default() };
        let full = config.refill.is_continuous() && self.fresh_at() <= now;
        let central = tokens(&self.peek(&peek, now));
        let sent = update.sent.max(0);
        let mut peers = self.peers.take().unwrap_or_else(|| {
            // What is pending by now was granted after the deltas that were sent.
            Box::new(Peers::new(update.collected_at, sent.cast_unsigned(), now))
        });
        if update.failed_before {
            peers.end_outage();
        }
        let pending = signed(self.pending.sum().max(0));
        let late = peers.has_late(&self.pending, config, now);
        let was_late = update.late.amount > 0;
        let owed = if was_late { peers.settle(update.late, central, update.usage, config, now) } else { 0 };
        if late || was_late {
            peers.recover(config, now);
        }
        // Late grants that are still pending are compared with what was known before them.
        if let (false, Some(usage)) = (late, update.usage) {
            peers.answered(central - signed(owed.cast_signed()), usage, config, now);
        }
        // The state of a full bucket does not contain its last use, which was now at the latest.
        self.replay_pending(
            &peek,
            peers.advance.tokens(config.refill, now),
            now,
            if full { undated } else { |action| action },
        );
        if peers.owed() > 0 {
            let owed = u32::try_from(peers.owed()).unwrap_or(u32::MAX);
            self.apply_granted(peek.with_cost(owed).with_action(Action::Debit { at: None }), now);
        }
        // Or earlier, if the local state says so. What was granted during an outage is nowhere else.
        if late || (full && owed == 0 && self.has_pending() && local.fresh_at() < self.fresh_at()) {
            self.state = local.state;
        }
        let remaining = tokens(&self.peek(&peek, now));
        if let Some((report, record)) = update.demand
            && let Some(records) = &config.records
        {
            let used = peers.used();
            peers.demand.learn(report, record, used, now, records.demand_window);
        }
        let others = match (was_late, update.comparable) {
            (true, _) => 0.0,
            (false, true) => before - remaining,
            // The first answer: without other nodes, the state would be that of a fresh key less what was sent.
            (false, false) => config.rate.capacity - signed(sent) - central,
        };
        // Less than half a token is a rounding difference.
        let others = if others < 0.5 { 0.0 } else { others };
        peers.learn(Round { own: signed(sent), others, pending, remaining }, config, now);
        self.peers = (!peers.is_unused(now)).then_some(peers);
        (-central).max(0.0)
    }

    /// Adopts the central state if it has no more tokens than the replica. Otherwise the answer may be older than the
    /// last sync round, and the next one decides.
    pub(super) fn update_if_lower(&mut self, update: Update, config: &LimitConfig, now: Time) {
        let peek = config.limit.charge("").with_cost(0);
        let central = tokens(&update.state.clone().apply(&peek, now)) - signed(self.pending.sum());
        if central <= tokens(&self.peek(&peek, now)) {
            let _ = self.update(update, config, now);
        }
    }

    /// Applies the pending deltas to the state, and credits tokens that the central store debited in advance.
    fn replay_pending(&mut self, charge: &Charge<'_>, advance: u32, now: Time, date: fn(Action) -> Action) {
        let pending = std::mem::take(&mut self.pending);
        if advance > 0 {
            let _ = self.apply(&charge.with_cost(advance).with_action(Action::Refund { at: None }), now);
        }
        for (cost, action) in pending.deltas().flat_map(Delta::charges) {
            let _ = self.apply(&charge.with_cost(cost).with_action(date(action)), now);
        }
        self.pending = pending;
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
