//! What the central store granted itself: tokens in advance of a sync round, and requests that it decided.

use tollgate_core::{Action, Charge, Decision, Time};

use super::{Replica, signed, tokens, whole};
use crate::config::LimitConfig;
use crate::local::acquisition::Acquisition;
use crate::local::compact_state::CompactState;

impl Replica {
    /// Starts to take tokens for a charge from the central store, or joins a call in flight. `None` if this node no
    /// longer has a share. `again`: the caller has waited before.
    pub(in crate::local) fn acquire<'a>(
        &mut self,
        charge: &Charge<'a>,
        again: bool,
    ) -> Option<Acquisition<'a>> {
        let advance = &mut self.peers.as_deref_mut()?.advance;
        let charge = match charge.action() {
            // Any number helps.
            Action::TakeUpTo => charge.with_cost(1),
            _ => *charge,
        };
        if let Some(in_flight) = advance.join(charge.cost(), again) {
            return Some(Acquisition::wait(&in_flight));
        }
        let tokens = advance.start(&charge, &self.pending);
        Some(Acquisition::Send(charge.with_cost(tokens).with_action(Action::TakeUpTo)))
    }

    /// Adds the tokens that the central store granted in advance.
    pub(in crate::local) fn acquired(
        &mut self,
        decision: &Decision,
        decided_at: Time,
        config: &LimitConfig,
        now: Time,
    ) {
        self.add_tokens(decision, decided_at, config, now);
        let Some(peers) = self.peers.as_deref_mut() else { return };
        peers.advance.stop();
        // What the central store has, less what it does not know of yet: the replica never has more.
        let known = f64::from(decision.remaining()) + f64::from(peers.advance.tokens(config.refill, now));
        let most = known - signed(self.pending.sum());
        let excess = tokens(&self.peek(&config.limit.charge(""), now)) - most;
        if excess >= 1.0 {
            let debit = config.limit.charge("").with_cost(whole(excess));
            self.apply_granted(debit.with_action(Action::Debit { at: None }), now);
        }
    }

    fn add_tokens(&mut self, decision: &Decision, decided_at: Time, config: &LimitConfig, now: Time) {
        let Some(peers) = self.peers.as_deref_mut() else { return };
        let granted = if decision.is_allowed() { decision.granted() } else { 0 };
        peers.advance.add(granted, decided_at, config.refill);
        peers.cover(&mut self.pending, config, now);
    }

    /// Notes that a call may have taken tokens, although its answer was lost.
    pub(in crate::local) fn doubt_tokens(&mut self) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.advance.in_doubt += 1;
        }
    }

    /// Ends such a doubt, and adds the tokens that the call was granted.
    pub(in crate::local) fn resolve_tokens_in_doubt(
        &mut self,
        decision: Option<(&Decision, Time)>,
        config: &LimitConfig,
        now: Time,
    ) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.advance.in_doubt = peers.advance.in_doubt.saturating_sub(1);
        }
        if let Some((decision, decided_at)) = decision {
            self.add_tokens(decision, decided_at, config, now);
        }
    }

    /// Ends a call for tokens that failed: the next one is made an interval later.
    pub(in crate::local) fn acquire_failed(&mut self, config: &LimitConfig, now: Time) {
        if let Some(peers) = self.peers.as_deref_mut() {
            peers.advance.pause(Time::from_nanos(now.nanos().saturating_add(config.interval)));
            peers.advance.stop();
        }
    }

    /// Applies what the central store granted itself: no delta is pending for it.
    pub(in crate::local) fn granted_centrally(
        &mut self,
        charge: &Charge<'_>,
        decision: &Decision,
        now: Time,
    ) {
        if decision.is_denied() {
            return;
        }
        let (action, granted) = (charge.action(), decision.granted());
        if action == Action::Reset {
            // What was granted locally in the meantime is still pending.
            (self.state, self.peers) = (CompactState::default(), None);
            self.replay_pending(charge, 0, now, |action| action);
        } else if action.is_delta() {
            self.apply_granted(charge.with_cost(granted), now);
        } else if action.is_take() {
            self.apply_granted(charge.with_cost(granted).with_action(Action::Debit { at: None }), now);
        }
    }

    /// Applies a delta that the central store has applied already.
    pub(in crate::local) fn apply_granted(&mut self, delta: Charge<'_>, now: Time) {
        if delta.cost() > 0 {
            let _ = self.apply(&delta, now);
        }
    }
}
