//! Decisions on charges, and verdicts on requests.

use core::fmt;
use core::time::Duration;

use smallvec::SmallVec;

use crate::charge::{Action, Charge};
use crate::error::StoreError;
use crate::time::{Time, nanos};

/// What made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// A fallback store, because the store failed or was not called.
    Fallback,
    /// A failure policy: no store could decide, and this is what was configured for that case.
    Policy,
    /// A switch: the limit is switched off, or the key is on an allow list or a deny list.
    Switch,
    /// Shadow mode: the store decided otherwise, but the limit is not enforced.
    Shadow,
}

impl Source {
    /// Returns its name, for logs and metric labels.
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

/// How a charge was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Allowed.
    Allowed,
    /// Denied for now; a retry can succeed later.
    Denied,
    /// Denied for ever: the cost is larger than the capacity.
    NeverFits,
    /// The lease to renew has expired, and its slot may be taken: acquire again.
    LeaseLost,
    /// Denied because the key is on a deny list, whatever the limit.
    DenyListed,
}

impl Outcome {
    /// Returns its name, for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NeverFits => "never-fits",
            Self::LeaseLost => "lease-lost",
            Self::DenyListed => "deny-listed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The decision on one charge: allowed or denied, what remains, and when to retry.
///
/// A denial is a value, not an error. A decision keeps raw numbers, and converts them only when a getter is called.
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
    /// Nanoseconds until the state equals a fresh one.
    reset: u64,
}

/// The raw numbers of a [`Decision`], for stores that decide on a server and for wrappers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a store that decides on a server must fill in every number")]
pub struct RawDecision {
    /// How the charge was decided.
    pub outcome: Outcome,
    /// What made the decision.
    pub source: Source,
    /// How much was debited, leased or refunded.
    pub granted: u32,
    /// The capacity: the most that can pass at once.
    pub limit: u32,
    /// How much is left, in units; below zero is debt.
    pub left: i64,
    /// Units per token; at least 1.
    pub unit: u64,
    /// Nanoseconds until the start if allowed, until a retry makes sense if denied.
    pub wait: u64,
    /// Nanoseconds until the state equals a fresh one.
    pub reset: u64,
}

impl From<RawDecision> for Decision {
    #[inline]
    fn from(raw: RawDecision) -> Self {
        let RawDecision { outcome, source, granted, limit, left, unit, wait, reset } = raw;
        Self { outcome, source, granted, limit, left, unit: unit.max(1), wait, reset }
    }
}

/// Constructors for wrappers, which decide without asking a store or change what it decided.
impl RawDecision {
    /// Allows a charge that no store was asked about, as if the limit were unused.
    pub fn allow(charge: &Charge<'_>, source: Source) -> Self {
        let (limit, granted) = (charge.limit().capacity(), charge.cost());
        let left = limit.saturating_sub(granted).into();
        Self { outcome: Outcome::Allowed, source, granted, limit, left, unit: 1, wait: 0, reset: 0 }
    }

    /// Denies a charge that no store was asked about; it can be retried after `wait`.
    pub fn deny(charge: &Charge<'_>, wait: Duration, source: Source) -> Self {
        let (limit, wait) = (charge.limit().capacity(), nanos(wait));
        Self { outcome: Outcome::Denied, source, granted: 0, limit, left: 0, unit: 1, wait, reset: wait }
    }

    /// Denies a charge because its key is deny-listed, whatever the limit.
    pub fn deny_listed(charge: &Charge<'_>) -> Self {
        Self { outcome: Outcome::DenyListed, ..Self::deny(charge, Duration::ZERO, Source::Switch) }
    }

    /// Returns the same decision with another source.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Returns what a caller gets in shadow mode: the charge passes, at once and in full. The source is
    /// [`Source::Shadow`] if the limit decided otherwise, and unchanged if not.
    #[must_use]
    pub fn shadowed(self, charge: &Charge<'_>) -> Self {
        let partial = matches!(charge.action(), Action::TakeUpTo) && self.granted < charge.cost();
        if self.outcome == Outcome::Allowed && self.wait == 0 && !partial {
            return self;
        }
        let (outcome, source) = (Outcome::Allowed, Source::Shadow);
        Self { outcome, source, granted: charge.cost(), wait: 0, ..self }
    }
}

impl Decision {
    /// Returns how the charge was decided.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Returns whether the charge is allowed, to start after [`start_after`](Self::start_after). That is zero, except
    /// for queues and for charges with a maximum wait.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// Returns whether the charge is denied, for whatever reason.
    #[inline]
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// Returns how much was debited, leased or refunded: the cost, the part that [`take_up_to`] got, or 0.
    ///
    /// [`take_up_to`]: crate::Limiter::take_up_to
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns the capacity: the most that can pass at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns how much is left after this decision.
    pub fn remaining(&self) -> u32 {
        let whole = u64::try_from(self.left).unwrap_or(0) / self.unit;
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Returns how far below zero unconditional debits and reservations have gone, in tokens, rounded up.
    pub fn debt(&self) -> u64 {
        if self.left < 0 { self.left.unsigned_abs().div_ceil(self.unit) } else { 0 }
    }

    /// Returns after what time the same charge can pass, if no other charge comes first. `None` if it was allowed, and
    /// if no retry can succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            Outcome::Denied => Some(Duration::from_nanos(self.wait)),
            Outcome::Allowed | Outcome::NeverFits | Outcome::LeaseLost | Outcome::DenyListed => None,
        }
    }

    /// Returns how long an admitted caller must wait before it starts. Zero if denied.
    pub fn start_after(&self) -> Duration {
        if self.is_allowed() { Duration::from_nanos(self.wait) } else { Duration::ZERO }
    }

    /// Returns after what time the state equals a fresh one, if no other charge comes.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset)
    }

    /// Returns what made the decision.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns whether the charge passes only because the limit is in shadow mode: it would have been denied, delayed, or
    /// granted less.
    pub fn is_shadowed(&self) -> bool {
        matches!(self.source, Source::Shadow)
    }

    /// The denial of a caller whose turn in the queue did not come in time.
    #[cfg(feature = "std")]
    pub(crate) fn denied_in_queue(mut self) -> Self {
        if self.outcome == Outcome::Allowed {
            self.outcome = Outcome::Denied;
        }
        self
    }

    /// Returns the raw numbers, to send to another process or to change in a wrapper.
    pub fn raw(&self) -> RawDecision {
        let Self { outcome, source, granted, limit, left, unit, wait, reset } = *self;
        RawDecision { outcome, source, granted, limit, left, unit, wait, reset }
    }

    /// Orders decisions by how little room they leave.
    fn restrictiveness(&self) -> (u8, u64, core::cmp::Reverse<i64>) {
        let whole = self.left.div_euclid(i64::try_from(self.unit).unwrap_or(i64::MAX));
        match self.outcome {
            Outcome::Allowed => (0, self.wait, core::cmp::Reverse(whole)),
            Outcome::Denied => (1, self.wait, core::cmp::Reverse(whole)),
            Outcome::NeverFits | Outcome::LeaseLost | Outcome::DenyListed => {
                (2, 0, core::cmp::Reverse(whole))
            }
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

/// The verdict on a request: one decision per charge, in order. All charges were debited or none was.
///
/// In a denied request a charge's own decision may still say "allowed": that limit had room, another one had not, and
/// nothing was debited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a verdict that nobody reads limits nothing"]
pub struct Verdict {
    decisions: SmallVec<[Decision; 4]>,
    decided_at: Time,
}

impl Verdict {
    /// Creates a verdict from decisions, one per charge, made at an instant of the deciding clock.
    pub fn new(decisions: impl IntoIterator<Item = Decision>, decided_at: Time) -> Self {
        Self { decisions: decisions.into_iter().collect(), decided_at }
    }

    /// Creates a verdict on a single charge.
    #[inline]
    pub fn one(decision: Decision, decided_at: Time) -> Self {
        let mut decisions = SmallVec::new();
        decisions.push(decision);
        Self { decisions, decided_at }
    }

    /// Returns when it was decided, by the deciding clock.
    pub fn decided_at(&self) -> Time {
        self.decided_at
    }

    /// Returns whether every charge is allowed. A request without charges is.
    pub fn is_allowed(&self) -> bool {
        self.decisions.iter().all(Decision::is_allowed)
    }

    /// Returns whether at least one charge is denied, so that nothing was debited.
    pub fn is_denied(&self) -> bool {
        !self.is_allowed()
    }

    /// Returns the decisions, in the order of the charges.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the most restrictive decision: of a denied request the one with the longest wait, of an allowed one the
    /// one that leaves least. `None` only for a request without charges.
    pub fn most_restrictive(&self) -> Option<&Decision> {
        self.most_restrictive_index().and_then(|index| self.decisions.get(index))
    }

    /// Returns the index of the most restrictive decision.
    pub fn most_restrictive_index(&self) -> Option<usize> {
        // The first of equals, so that the answer does not depend on the number of charges.
        let mut most: Option<(usize, &Decision)> = None;
        for (index, decision) in self.decisions.iter().enumerate() {
            if most.is_none_or(|(_, best)| decision.restrictiveness() > best.restrictiveness()) {
                most = Some((index, decision));
            }
        }
        most.map(|(index, _)| index)
    }

    /// Returns after what time the whole request can pass. `None` if it was allowed, and if no retry can succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.most_restrictive().and_then(Decision::retry_after)
    }

    /// Returns the same verdict with another source for every decision.
    pub fn with_source(mut self, source: Source) -> Self {
        for decision in &mut self.decisions {
            decision.source = source;
        }
        self
    }

    /// Returns the decision on a request of one charge. An error if the store returned none.
    #[inline]
    pub fn into_single(self) -> Result<Decision, StoreError> {
        self.decisions.first().copied().ok_or_else(StoreError::no_decision)
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
    fn the_most_restrictive_one_waits_longest_or_leaves_least() {
        let allowed = verdict([
            decision(Outcome::Allowed, 50, 0),
            decision(Outcome::Allowed, 20, 0),
            decision(Outcome::Allowed, 25, 0),
        ]);
        assert_eq!((allowed.is_allowed(), allowed.most_restrictive_index()), (true, Some(1)));
        let denied = verdict([
            decision(Outcome::Denied, 0, 5),
            decision(Outcome::Allowed, 10, 0),
            decision(Outcome::Denied, 0, 7),
        ]);
        assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(2)));
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(7)));
        let never = verdict([decision(Outcome::Denied, 0, 5), decision(Outcome::NeverFits, 0, 0)]);
        assert_eq!((never.most_restrictive_index(), never.retry_after()), (Some(1), None));
        assert_eq!(verdict([]).most_restrictive(), None);
    }

    fn shadowed(decision: Decision, charge: &Charge<'_>) -> Decision {
        decision.raw().shadowed(charge).into()
    }

    #[test]
    fn a_shadowed_charge_passes_at_once_and_in_full() {
        let limit = crate::Limit::per_second(10).build("api").expect("valid");
        let (take, part) =
            (limit.charge("a").with_cost(3), limit.charge("a").with_cost(3).with_action(Action::TakeUpTo));
        let full: Decision = RawDecision { granted: 3, ..decision(Outcome::Allowed, 50, 0).raw() }.into();
        assert_eq!((shadowed(full, &take), shadowed(full, &part)), (full, full), "nothing to change");
        for (charge, other) in [
            (take, decision(Outcome::Denied, 0, 7)),
            (take, decision(Outcome::NeverFits, 0, 0)),
            (take, decision(Outcome::Allowed, 0, 7)),
            (part, decision(Outcome::Allowed, 0, 0)),
            (take.with_action(Action::Renew), decision(Outcome::LeaseLost, 0, 0)),
        ] {
            let seen = shadowed(other, &charge);
            assert!(seen.is_allowed() && seen.is_shadowed() && !other.is_shadowed(), "{other:?}");
            assert_eq!((seen.granted(), seen.start_after(), seen.retry_after()), (3, Duration::ZERO, None));
        }
        let renewed = decision(Outcome::Allowed, 0, 0);
        assert_eq!(shadowed(renewed, &take.with_action(Action::Renew)), renewed, "it grants what is held");
    }

    #[test]
    fn debt_is_reported_and_nothing_remains() {
        let overdrawn = decision(Outcome::Allowed, -25, 0);
        assert_eq!((overdrawn.remaining(), overdrawn.debt()), (0, 3));
    }
}
