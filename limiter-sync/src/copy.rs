//! A copy of a key's state, by which checks are decided here: what the centre had at the last exchange, and what was granted
//! since.

use tollgate_core::{Action, Charge, Decision, Outcome, RawDecision, Source, State, Time};

use crate::owed::{Booking, Owed};
use crate::share::Share;
use crate::terms::{Tracked, WhenStale};

/// What is known here of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copy {
    state: State,
    share: Share,
    owed: Owed,
}

impl Copy {
    pub(crate) fn from_centre(state: State) -> Self {
        Self { state, ..Self::default() }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether something is to be booked at the centre.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// What is to be booked, from now on on its way.
    pub(crate) fn hand_out(&mut self) -> Owed {
        std::mem::take(&mut self.owed)
    }

    /// Decides a charge that stands alone.
    #[inline]
    pub(crate) fn decide(&mut self, charge: &Charge<'_>, tracked: &Tracked, now: Time) -> Decision {
        if self.share.is_whole() {
            let decision = self.state.apply(charge, now);
            self.note(charge, &decision, tracked, now);
            return decision;
        }
        match self.within_share(charge, tracked, now) {
            Ok(charge) => {
                let decision = self.state.apply(&charge, now);
                self.note(&charge, &decision, tracked, now);
                decision
            }
            Err(denial) => denial,
        }
    }

    /// The part of a charge that this node's share has room for, or what its caller is told.
    pub(crate) fn within_share<'a>(
        &mut self,
        charge: &Charge<'a>,
        tracked: &Tracked,
        now: Time,
    ) -> Result<Charge<'a>, Decision> {
        let cost = charge.get_cost();
        let takes = matches!(charge.get_action(), Action::Take { max_wait: None } | Action::TakeUpTo);
        if self.share.is_whole() || !takes || cost == 0 {
            return Ok(*charge);
        }
        if self.state.is_fresh(now) {
            self.share.refilled();
        }
        let there = self.look(charge, now);
        let left = tokens(&there);
        let budget = self.share.budget(left);
        if budget >= f64::from(cost) || left < f64::from(cost) {
            // What is not even there is denied by the copy itself, with the wait that cures it.
            return Ok(*charge);
        }
        self.share.miss(f64::from(cost));
        if matches!(charge.get_action(), Action::TakeUpTo) && budget >= 1.0 {
            return Ok(charge.cost(whole(budget)));
        }
        // There is something, only not for this node: until its share has come in, or the next exchange tells more.
        let lack = self.share.lack(left, f64::from(cost)) * token_nanos(tracked);
        let wait = (tracked.interval / 2).min(nanos(lack)).max(1);
        Err(RawDecision { outcome: Outcome::Denied, granted: 0, wait, ..there.raw() }.into())
    }

    /// What is there; changes nothing.
    fn look(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.state.apply(&charge.cost(0).action(Action::Take { max_wait: None }), now)
    }

    /// Remembers what a decision granted.
    #[inline]
    pub(crate) fn note(&mut self, charge: &Charge<'_>, decision: &Decision, tracked: &Tracked, now: Time) {
        let granted = decision.granted();
        if granted == 0 || decision.is_denied() {
            return;
        }
        match charge.get_action() {
            // As it was asked for: how much of a refund is worth something is for the centre to say.
            action @ (Action::Debit { .. } | Action::Refund { .. }) => {
                self.owed.book(charge.get_cost(), given(action, now));
            }
            _ => self.owed.take(tracked.booking, granted, now),
        }
        if !self.share.is_whole() {
            let sign = if matches!(charge.get_action(), Action::Refund { .. }) { -1.0 } else { 1.0 };
            self.share.spend(sign * f64::from(granted));
        }
    }

    /// What the request of several charges made of the state.
    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// Decides while the centre is silent.
    pub(crate) fn decide_stale(&mut self, charge: &Charge<'_>, tracked: &Tracked, now: Time) -> Decision {
        let asks = matches!(charge.get_action(), Action::Take { .. } | Action::TakeUpTo);
        let decision = match tracked.when_stale {
            WhenStale::GoOn => self.decide(charge, tracked, now),
            _ if !asks => self.decide(charge, tracked, now),
            WhenStale::Deny => return deny(charge, tracked),
            WhenStale::Shrink { .. } => {
                let Some(shrunk) = &tracked.shrunk else { return deny(charge, tracked) };
                let decision = self.state.apply(&charge.against(shrunk), now);
                self.note(charge, &decision, tracked, now);
                decision
            }
        };
        decision.made_by(Source::Fallback)
    }

    /// The centre has booked what was handed out, `sent` in all, and this is what it has now. Says how far below zero
    /// that is, in tokens.
    pub(crate) fn told(&mut self, centre: State, sent: i64, tracked: &Tracked, now: Time, die: f64) -> f64 {
        let look = tracked.limit.charge("");
        let before = tokens(&self.look(&look, now));
        let here = std::mem::replace(&mut self.state, centre);
        let forgotten = self.state.is_fresh(now) && matches!(tracked.booking, Booking::Drip { .. });
        let debt = -tokens(&self.look(&look, now));
        for (part, action) in self.owed.entries().iter().flat_map(|entry| entry.charges()) {
            // A bucket that is full says no more when it was used last. That was now, at the latest.
            let action = if forgotten { at_once(action) } else { action };
            let _ = self.state.apply(&look.cost(part).action(action), now);
        }
        // Or as late as is known here.
        if forgotten && self.owes() && here.fresh_at() < self.state.fresh_at() {
            self.state = here;
        }
        let after = tokens(&self.look(&look, now));
        self.share.learn(
            signed(sent.max(0)),
            // Less than a token is nobody's.
            if before - after < 0.5 { 0.0 } else { before - after },
            signed(self.owed.sum()),
            before,
            die,
        );
        debt.max(0.0)
    }

    /// The centre granted this itself, so nothing is owed for it.
    pub(crate) fn granted_by_centre(&mut self, charge: &Charge<'_>, decision: &Decision, now: Time) {
        let action = match charge.get_action() {
            Action::Forget => {
                *self = Self::default();
                return;
            }
            action @ (Action::Debit { .. } | Action::Refund { .. }) => action,
            _ => Action::Debit { at: None },
        };
        if decision.is_allowed() && decision.granted() > 0 {
            let _ = self.state.apply(&charge.cost(decision.granted()).action(action), now);
        }
    }

    /// Another view of the key knows this.
    pub(crate) fn merge(&mut self, other: &State, tracked: &Tracked) {
        self.state.merge(&tracked.limit, other);
    }
}

/// Nothing passes while the centre is silent.
pub(crate) fn deny(charge: &Charge<'_>, tracked: &Tracked) -> Decision {
    Decision::refusing(charge, std::time::Duration::from_nanos(tracked.interval), Source::Policy)
}

/// The same, whatever instant it belongs to.
fn at_once(action: Action) -> Action {
    match action {
        Action::Debit { .. } => Action::Debit { at: None },
        other => other,
    }
}

/// A debit or refund of now belongs to now, however late it is booked.
fn given(action: Action, now: Time) -> Action {
    match action {
        Action::Debit { at } => Action::Debit { at: at.or(Some(now)) },
        Action::Refund { at } => Action::Refund { at: at.or(Some(now)) },
        other => other,
    }
}

/// How many tokens are left; less than none is debt.
#[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
fn tokens(decision: &Decision) -> f64 {
    let raw = decision.raw();
    raw.left as f64 / raw.unit as f64
}

#[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
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

/// How long a token takes to come in.
#[expect(clippy::cast_precision_loss, reason = "a hint for a wait")]
fn token_nanos(tracked: &Tracked) -> f64 {
    crate::terms::nanos(tracked.limit.period()) as f64 / f64::from(tracked.limit.count().max(1))
}
