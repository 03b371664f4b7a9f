//! Answers: a decision per charge, a verdict per request.

use core::fmt;
use core::time::Duration;

use smallvec::SmallVec;

use crate::charge::{Action, Charge};
use crate::time::{Time, nanos};

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store that was asked.
    Store,
    /// Another store, because the one that was asked could not answer.
    Fallback,
    /// None: no store could answer, and this is what was configured for that case.
    Policy,
    /// None was asked: the limit is switched off, or the key is on a list.
    Switch,
    /// The store had another answer, but the limit is only watched: nothing is denied or delayed by it.
    Shadow,
}

impl Source {
    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Fallback => "fallback",
            Self::Policy => "policy",
            Self::Switch => "switch",
            Self::Shadow => "shadow",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It may pass.
    Allowed,
    /// Not now; waiting cures it.
    Denied,
    /// Never: the cost is more than the limit can ever hold.
    NeverFits,
    /// The lease that was to be renewed has ended, and its place may be another's: acquire again.
    LeaseLost,
    /// The key is on a list of those that may not pass, whatever the limit: no wait cures it.
    Barred,
}

impl Outcome {
    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NeverFits => "never-fits",
            Self::LeaseLost => "lease-lost",
            Self::Barred => "barred",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether one charge may pass, and what its caller can do about it.
///
/// A denial is an answer, not an error. What nobody looks at is not computed: a decision keeps raw
/// numbers and turns them into answers when asked.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a decision that nobody reads limits nothing"]
pub struct Decision {
    outcome: Outcome,
    source: Source,
    granted: u32,
    limit: u32,
    /// How much is left, in units; below zero is debt.
    left: i64,
    /// Units per token.
    unit: u64,
    /// Nanoseconds until the start if allowed, until a retry makes sense if denied.
    wait: u64,
    /// Nanoseconds until the state is as good as new.
    reset: u64,
}

/// The raw numbers that a [`Decision`] is made of, for stores that decide elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a store that decides elsewhere must fill in every number")]
pub struct RawDecision {
    /// What came out.
    pub outcome: Outcome,
    /// Who decided.
    pub source: Source,
    /// How much was debited, held or given back.
    pub granted: u32,
    /// The most that can pass at once.
    pub limit: u32,
    /// How much is left, in units; below zero is debt.
    pub left: i64,
    /// Units per token; at least 1.
    pub unit: u64,
    /// Nanoseconds until the start if allowed, until a retry makes sense if denied.
    pub wait: u64,
    /// Nanoseconds until the state is as good as new.
    pub reset: u64,
}

impl From<RawDecision> for Decision {
    #[inline]
    fn from(raw: RawDecision) -> Self {
        let RawDecision { outcome, source, granted, limit, left, unit, wait, reset } = raw;
        Self { outcome, source, granted, limit, left, unit: unit.max(1), wait, reset }
    }
}

impl Decision {
    /// Lets a charge pass that no store was asked about, as if the limit were unused.
    pub fn passing(charge: &Charge<'_>, source: Source) -> Self {
        let (limit, granted) = (charge.limit().capacity(), charge.get_cost());
        let left = limit.saturating_sub(granted).into();
        RawDecision { outcome: Outcome::Allowed, source, granted, limit, left, unit: 1, wait: 0, reset: 0 }
            .into()
    }

    /// Turns a charge away that no store was asked about, until `wait` is over.
    pub fn refusing(charge: &Charge<'_>, wait: Duration, source: Source) -> Self {
        let (limit, wait) = (charge.limit().capacity(), nanos(wait));
        let outcome = Outcome::Denied;
        RawDecision { outcome, source, granted: 0, limit, left: 0, unit: 1, wait, reset: wait }.into()
    }

    /// Turns a charge away because of its key, whatever the limit.
    pub fn barring(charge: &Charge<'_>) -> Self {
        let refusal = Self::refusing(charge, Duration::ZERO, Source::Switch);
        Self { outcome: Outcome::Barred, ..refusal }
    }

    /// What came out.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// It may pass (at [`start_after`](Self::start_after), which is zero unless a wait was asked for
    /// or the limit is a queue).
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// It may not pass now.
    #[inline]
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// How much was taken, held or given back: the cost, the part that [`take_up_to`] got, or 0.
    ///
    /// [`take_up_to`]: crate::Limiter::take_up_to
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// The most that can pass at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How much is left after this decision.
    pub fn remaining(&self) -> u32 {
        let whole = u64::try_from(self.left).unwrap_or(0) / self.unit;
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// How far below zero unconditional debits and reservations have gone, in tokens, rounded up.
    pub fn debt(&self) -> u64 {
        if self.left < 0 { self.left.unsigned_abs().div_ceil(self.unit) } else { 0 }
    }

    /// After what wait the same charge could pass, if nobody else comes first. `None` if it was
    /// allowed, and if no wait will cure it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            Outcome::Denied => Some(Duration::from_nanos(self.wait)),
            Outcome::Allowed | Outcome::NeverFits | Outcome::LeaseLost | Outcome::Barred => None,
        }
    }

    /// How long an admitted caller must wait before it starts. Zero if denied.
    pub fn start_after(&self) -> Duration {
        if self.is_allowed() { Duration::from_nanos(self.wait) } else { Duration::ZERO }
    }

    /// After what time the limit is as good as unused, if nobody comes.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset)
    }

    /// Who decided.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The same decision, marked as made by `source`.
    pub fn made_by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// What the caller is told if the limit is only watched: it passes, at once and in full. Marked as
    /// [`Source::Shadow`] if the limit had another answer, untouched otherwise.
    pub fn watched(self, charge: &Charge<'_>) -> Self {
        let part = matches!(charge.get_action(), Action::TakeUpTo) && self.granted < charge.get_cost();
        if self.is_allowed() && self.wait == 0 && !part {
            return self;
        }
        let (outcome, source) = (Outcome::Allowed, Source::Shadow);
        Self { outcome, source, granted: charge.get_cost(), wait: 0, ..self }
    }

    /// It passes only because the limit is watched and not enforced: it would have been denied, told to wait, or given
    /// less.
    pub fn is_shadowed(&self) -> bool {
        matches!(self.source, Source::Shadow)
    }

    /// What there is, as told to a caller whose turn did not come in time.
    #[cfg(feature = "std")]
    pub(crate) fn denied_in_line(mut self) -> Self {
        if self.outcome == Outcome::Allowed {
            self.outcome = Outcome::Denied;
        }
        self
    }

    /// The raw numbers, to send elsewhere.
    pub fn raw(&self) -> RawDecision {
        let Self { outcome, source, granted, limit, left, unit, wait, reset } = *self;
        RawDecision { outcome, source, granted, limit, left, unit, wait, reset }
    }

    /// Orders decisions by how little room they leave; the largest is the tight one.
    fn tightness(&self) -> (u8, u64, core::cmp::Reverse<i64>) {
        let whole = self.left.div_euclid(i64::try_from(self.unit).unwrap_or(i64::MAX));
        match self.outcome {
            Outcome::Allowed => (0, self.wait, core::cmp::Reverse(whole)),
            Outcome::Denied => (1, self.wait, core::cmp::Reverse(whole)),
            Outcome::NeverFits | Outcome::LeaseLost | Outcome::Barred => (2, 0, core::cmp::Reverse(whole)),
        }
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("outcome", &self.outcome)
            .field("granted", &self.granted)
            .field("limit", &self.limit)
            .field("remaining", &self.remaining())
            .field("debt", &self.debt())
            .field("start_after", &self.start_after())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// What became of a request: one decision per charge, in order. All charges were debited or none was.
///
/// In a denied request a charge's own decision may still say "allowed": that limit had room, another
/// one had not, and nothing was debited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a verdict that nobody reads limits nothing"]
pub struct Verdict {
    decisions: SmallVec<[Decision; 4]>,
    decided_at: Time,
}

impl Verdict {
    /// A verdict from decisions, one per charge, made at an instant of the clock that decided.
    pub fn new(decisions: impl IntoIterator<Item = Decision>, decided_at: Time) -> Self {
        Self { decisions: decisions.into_iter().collect(), decided_at }
    }

    /// A verdict on a single charge.
    #[inline]
    pub fn one(decision: Decision, decided_at: Time) -> Self {
        let mut decisions = SmallVec::new();
        decisions.push(decision);
        Self { decisions, decided_at }
    }

    /// When it was decided, by the clock that decided.
    pub fn decided_at(&self) -> Time {
        self.decided_at
    }

    /// Every charge passed. A request without charges passes.
    pub fn is_allowed(&self) -> bool {
        self.decisions.iter().all(Decision::is_allowed)
    }

    /// At least one charge did not pass, so nothing was debited.
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// The decisions, in the order of the charges.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The tight one: of a denied request the charge that has to wait longest, of an allowed one
    /// the charge that leaves least. `None` only for a request without charges.
    pub fn tight(&self) -> Option<&Decision> {
        self.tight_index().and_then(|index| self.decisions.get(index))
    }

    /// Which charge was the tight one.
    pub fn tight_index(&self) -> Option<usize> {
        // The first of equals, so that the answer does not depend on the number of charges.
        let mut tight: Option<(usize, &Decision)> = None;
        for (index, decision) in self.decisions.iter().enumerate() {
            if tight.is_none_or(|(_, best)| decision.tightness() > best.tightness()) {
                tight = Some((index, decision));
            }
        }
        tight.map(|(index, _)| index)
    }

    /// After what wait the whole request could pass; `None` if it was allowed or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.tight().and_then(Decision::retry_after)
    }

    /// The same verdict, marked as made by `source`.
    pub fn made_by(mut self, source: Source) -> Self {
        for decision in &mut self.decisions {
            *decision = decision.made_by(source);
        }
        self
    }

    /// The first decision, which for a request with one charge is all of it.
    #[inline]
    pub(crate) fn into_first(self) -> Option<Decision> {
        self.decisions.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(outcome: Outcome, left: i64, wait: u64) -> Decision {
        RawDecision { outcome, source: Source::Store, granted: 1, limit: 10, left, unit: 10, wait, reset: 0 }
            .into()
    }

    fn verdict<const N: usize>(decisions: [Decision; N]) -> Verdict {
        Verdict::new(decisions, Time::EPOCH)
    }

    #[test]
    fn the_tight_one_waits_longest_or_leaves_least() {
        let allowed = verdict([
            decision(Outcome::Allowed, 50, 0),
            decision(Outcome::Allowed, 20, 0),
            decision(Outcome::Allowed, 25, 0),
        ]);
        assert_eq!((allowed.is_allowed(), allowed.tight_index()), (true, Some(1)));
        let denied = verdict([
            decision(Outcome::Denied, 0, 5),
            decision(Outcome::Allowed, 10, 0),
            decision(Outcome::Denied, 0, 7),
        ]);
        assert_eq!((denied.is_denied(), denied.tight_index()), (true, Some(2)));
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(7)));
        let never = verdict([decision(Outcome::Denied, 0, 5), decision(Outcome::NeverFits, 0, 0)]);
        assert_eq!((never.tight_index(), never.retry_after()), (Some(1), None));
        assert_eq!(verdict([]).tight(), None);
    }

    #[test]
    fn a_watched_charge_passes_at_once_and_in_full() {
        let limit = crate::Limit::per_second(10).build("api").expect("valid");
        let (take, part) = (limit.charge("a").cost(3), limit.charge("a").cost(3).action(Action::TakeUpTo));
        let full: Decision = RawDecision { granted: 3, ..decision(Outcome::Allowed, 50, 0).raw() }.into();
        assert_eq!((full.watched(&take), full.watched(&part)), (full, full), "nothing to change");
        for (charge, other) in [
            (take, decision(Outcome::Denied, 0, 7)),
            (take, decision(Outcome::NeverFits, 0, 0)),
            (take, decision(Outcome::Allowed, 0, 7)),
            (part, decision(Outcome::Allowed, 0, 0)),
            (take.action(Action::Renew), decision(Outcome::LeaseLost, 0, 0)),
        ] {
            let told = other.watched(&charge);
            assert!(told.is_allowed() && told.is_shadowed() && !other.is_shadowed(), "{other:?}");
            assert_eq!((told.granted(), told.start_after(), told.retry_after()), (3, Duration::ZERO, None));
        }
        let renewed = decision(Outcome::Allowed, 0, 0);
        assert_eq!(renewed.watched(&take.action(Action::Renew)), renewed, "it grants what is held");
    }

    #[test]
    fn debt_is_reported_and_nothing_remains() {
        let overdrawn = decision(Outcome::Allowed, -25, 0);
        assert_eq!((overdrawn.remaining(), overdrawn.debt()), (0, 3));
    }
}
