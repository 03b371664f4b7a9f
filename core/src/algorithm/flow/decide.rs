//! Takes, debits and refunds of flows, on the scale of their rate.

use super::super::{nanos_until, saturate, signed, take_up_to_cost};
use super::{Admission, Flow, Tat};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome, RawDecision, Source};
use crate::time::{Time, nanos};

/// A state at an instant, on the scale of the flow's rate.
#[derive(Clone, Copy)]
struct View {
    now: Time,
    /// The unit of `now`.
    now_unit: u64,
    /// The latest TAT that the capacity allows.
    max_tat_unit: u64,
    /// The TAT; not earlier than now.
    tat_unit: u64,
    /// The instant of `tat_unit`, in nanoseconds.
    tat: u64,
    /// Whether the TAT was clamped, because other parameters had put it further ahead.
    clamped: bool,
}

/// The times, in nanoseconds, that a take has to wait for.
struct Delay {
    /// Until it is admitted at all, whatever its maximum wait.
    admission: u64,
    /// Until it starts.
    start: u64,
}

impl Flow {
    #[inline(never)]
    pub(super) fn decide_operation(
        &self,
        state: Tat,
        now: Time,
        operation: &Operation,
    ) -> (Decision, Option<Tat>) {
        let view = self.view(state, now);
        match operation.action {
            Action::Take { max_wait } => self.take_within(view, operation.cost, max_wait.map(nanos)),
            Action::TakeUpTo => self.take_up_to(view, operation.cost),
            Action::Debit { at } => self.debit(view, state.at, operation.cost, at),
            Action::Refund { at } => self.refund(view, operation.cost, at),
            Action::Reset => {
                let fresh = View { tat_unit: view.now_unit, tat: now.nanos(), ..view };
                (self.decision(fresh, Outcome::Allowed, 0, 0), Some(Tat::default()))
            }
            Action::Renew | Action::Release => self.take_within(view, 0, None),
        }
    }

    #[inline]
    fn view(&self, state: Tat, now: Time) -> View {
        let now_unit = self.rate.units(now.nanos());
        let max_tat_unit = now_unit.saturating_add(self.capacity_units);
        let mut tat = state.at.nanos();
        if tat <= now.nanos() {
            return View {
                now,
                now_unit,
                max_tat_unit,
                tat_unit: now_unit,
                tat: now.nanos(),
                clamped: false,
            };
        }
        let mut clamped = false;
        if state.digest != self.digest && !state.overdrawn {
            let max_tat = self.rate.instant(max_tat_unit);
            clamped = tat > max_tat;
            tat = tat.min(max_tat);
        }
        View { now, now_unit, max_tat_unit, tat_unit: self.rate.units(tat), tat, clamped }
    }

    #[inline]
    fn decision(&self, view: View, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        RawDecision {
            outcome,
            source: Source::Store,
            granted,
            limit: self.capacity,
            left: signed(view.max_tat_unit).saturating_sub(signed(view.tat_unit)),
            unit: self.rate.token(),
            wait,
            reset: nanos_until(view.tat, view.now),
        }
        .into()
    }

    #[inline]
    fn take_within(&self, view: View, cost: u32, max_wait: Option<u64>) -> (Decision, Option<Tat>) {
        // A peek is decided as a cost of 1 would be.
        let needed = cost.max(1);
        if needed > self.capacity && self.admission != Admission::Repaid {
            return (self.decision(view, Outcome::NeverFits, 0, 0), None);
        }
        let next_tat_unit = view.tat_unit.saturating_add(self.rate.tokens(u64::from(needed)));
        let delay = self.delay(view, next_tat_unit);
        let max_wait = match self.admission {
            Admission::Queued => max_wait.unwrap_or(u64::MAX),
            Admission::Fits | Admission::Repaid => max_wait.unwrap_or(0),
        };
        if delay.admission > 0 || delay.start > max_wait {
            let wait = delay.admission.max(delay.start.saturating_sub(max_wait));
            // A denial writes nothing, except that a clamped TAT starts to count down now. So does a peek, or a caller
            // that only peeks would wait for ever.
            let clamped = view.clamped.then(|| self.state(view.tat, false));
            return (self.decision(view, Outcome::Denied, 0, wait), clamped);
        }
        if cost == 0 {
            return (self.decision(view, Outcome::Allowed, 0, delay.start), None);
        }
        self.commit(view, next_tat_unit, cost, delay.start)
    }

    /// Returns how long a take has to wait whose TAT is `next_tat_unit` afterwards.
    #[inline]
    fn delay(&self, view: View, next_tat_unit: u64) -> Delay {
        let until = |unit: u64| nanos_until(self.rate.instant(unit), view.now);
        match self.admission {
            Admission::Fits if next_tat_unit <= view.max_tat_unit => Delay { admission: 0, start: 0 },
            Admission::Fits => Delay { admission: 0, start: until(next_tat_unit - self.capacity_units) },
            Admission::Queued => Delay {
                admission: if next_tat_unit <= view.max_tat_unit {
                    0
                } else {
                    until(next_tat_unit - self.capacity_units)
                },
                start: nanos_until(view.tat, view.now),
            },
            Admission::Repaid if view.tat_unit <= view.max_tat_unit => Delay { admission: 0, start: 0 },
            Admission::Repaid => Delay { admission: 0, start: until(view.tat_unit - self.capacity_units) },
        }
    }

    #[inline]
    fn commit(&self, view: View, next_tat_unit: u64, granted: u32, start: u64) -> (Decision, Option<Tat>) {
        // A state never lies beyond `Time::MAX`, and the decision reports the state as it is stored.
        let tat = self.rate.instant(next_tat_unit).min(Time::MAX.nanos());
        let next_tat_unit = if tat == Time::MAX.nanos() { self.rate.units(tat) } else { next_tat_unit };
        let state = self.state(tat, next_tat_unit > view.max_tat_unit);
        let tat_unit = next_tat_unit.max(view.now_unit);
        (self.decision(View { tat_unit, tat, ..view }, Outcome::Allowed, granted, start), Some(state))
    }

    fn take_up_to(&self, view: View, cost: u32) -> (Decision, Option<Tat>) {
        let available = match self.admission {
            Admission::Repaid if view.tat_unit <= view.max_tat_unit => u64::from(cost),
            Admission::Repaid => 0,
            Admission::Fits | Admission::Queued => {
                view.max_tat_unit.saturating_sub(view.tat_unit) / self.rate.token()
            }
        };
        self.take_within(view, take_up_to_cost(cost, available), None)
    }

    fn debit(&self, view: View, stored_tat: Time, cost: u32, at: Option<Time>) -> (Decision, Option<Tat>) {
        // A debit dated in the past has been refilled in part since then. It counts from its own instant, or from the
        // stored TAT if that is later, so that several debits dated in the past add up.
        let dated = at.map_or(view.now, |at| at.min(view.now)).max(stored_tat.min(view.now));
        let from = if view.tat_unit > view.now_unit { view.tat_unit } else { self.rate.units(dated.nanos()) };
        let next_tat_unit = from.saturating_add(self.rate.tokens(u64::from(cost)));
        let (decision, state) = self.commit(view, next_tat_unit, cost, 0);
        (decision, state.filter(|_| cost > 0))
    }

    fn refund(&self, view: View, cost: u32, at: Option<Time>) -> (Decision, Option<Tat>) {
        let debited = self.rate.tokens(u64::from(cost));
        let refundable = match at {
            None => debited,
            Some(at) if at > view.now => {
                // A reservation that has not started. If others wait behind it, they keep their start: what is refunded
                // before them could be taken by more than the capacity allows to start with them.
                let start = self.rate.units(at.nanos());
                let tat_behind = match self.admission {
                    Admission::Fits => start.saturating_add(self.capacity_units),
                    Admission::Queued => start.saturating_add(debited),
                    Admission::Repaid => start.saturating_add(self.capacity_units).saturating_add(debited),
                };
                if view.tat_unit > tat_behind { 0 } else { debited }
            }
            Some(at) => {
                // Once the time from the debit to the latest TAT that it can have caused has passed, it has refilled.
                let most = match self.admission {
                    // More than the capacity can only have been debited unconditionally.
                    Admission::Fits | Admission::Queued => self.capacity_units.max(debited),
                    Admission::Repaid => self.capacity_units.saturating_add(debited),
                };
                debited.min(self.rate.units(at.nanos()).saturating_add(most).saturating_sub(view.now_unit))
            }
        };
        let next_tat_unit = view.tat_unit.saturating_sub(refundable).max(view.now_unit);
        let refunded = saturate((view.tat_unit - next_tat_unit) / self.rate.token());
        let (decision, state) = self.commit(view, next_tat_unit, refunded, 0);
        (decision, state.filter(|_| next_tat_unit != view.tat_unit || view.clamped))
    }
}
