//! Decisions on charges, and verdicts on requests.

use alloc::sync::Arc;
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
    /// A rule: it blocks the request, or the request lacks what the rule counts by. No store was asked.
    Rule,
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
            Self::Rule => "rule",
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
    /// Denied for ever: the cost is larger than the capacity, or a rule blocks the request. Also the outcome of
    /// [`check_now`](crate::Limiter::check_now) on a concurrency limit, whose slots need a permit.
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
    /// Nanoseconds until the start if allowed, until a retry makes sense if denied. In shadow mode: until the start of
    /// what the store debited, which the caller does not wait for.
    wait: u64,
    /// Nanoseconds until the state equals a fresh one.
    reset: u64,
    /// How much a compensating charge reverses. Differs from `granted` in shadow mode only.
    debited: u32,
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
        // Raw numbers do not say what the store debited in shadow mode, so nothing is reversed.
        let debited = if matches!(source, Source::Shadow) { 0 } else { granted };
        Self { outcome, source, granted, limit, left, unit: unit.max(1), wait, reset, debited }
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

    /// Denies a charge that no store was asked about; it can be retried after `wait`, which is at least a nanosecond.
    pub fn deny(charge: &Charge<'_>, wait: Duration, source: Source) -> Self {
        let (limit, wait) = (charge.limit().capacity(), nanos(wait).max(1));
        Self { outcome: Outcome::Denied, source, granted: 0, limit, left: 0, unit: 1, wait, reset: wait }
    }

    /// Denies a charge because its key is deny-listed, whatever the limit.
    pub fn deny_listed(charge: &Charge<'_>) -> Self {
        let denied = Self::deny(charge, Duration::ZERO, Source::Switch);
        Self { outcome: Outcome::DenyListed, wait: 0, reset: 0, ..denied }
    }

    /// Denies a request for ever because a rule says so, whatever was counted. For requests that no store is asked
    /// about, so there is no charge.
    pub fn deny_by_rule() -> Self {
        let (outcome, source) = (Outcome::NeverFits, Source::Rule);
        Self { outcome, source, granted: 0, limit: 0, left: 0, unit: 1, wait: 0, reset: 0 }
    }

    /// Returns the same decision with another source.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
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
        if self.is_allowed() && !self.is_shadowed() {
            Duration::from_nanos(self.wait)
        } else {
            Duration::ZERO
        }
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, as HTTP's `Retry-After` needs it. Never
    /// 0.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after().map(|wait| whole_seconds(wait).max(1))
    }

    /// Returns after what time the state equals a fresh one, if no other charge comes.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.reset)
    }

    /// Returns [`reset_after`](Self::reset_after) in whole seconds, rounded up. Never 0 if denied.
    pub fn reset_after_secs(&self) -> u64 {
        whole_seconds(self.reset_after()).max(self.is_denied().into())
    }

    /// Returns what made the decision.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns whether the charge passes only because the limit is in shadow mode: it would have been denied, delayed,
    /// or granted less.
    pub fn is_shadowed(&self) -> bool {
        matches!(self.source, Source::Shadow)
    }

    /// Returns what a caller gets in shadow mode: the charge passes, at once and in full. The source is
    /// [`Source::Shadow`] if the limit decided otherwise, and unchanged if not. What the store debited is still known
    /// to [`Charge::compensation`].
    pub fn shadowed(self, charge: &Charge<'_>) -> Self {
        let partial = matches!(charge.action(), Action::TakeUpTo) && self.granted < charge.cost();
        if self.outcome == Outcome::Allowed && self.wait == 0 && !partial {
            return self;
        }
        let by_store = self.outcome == Outcome::Allowed && self.source == Source::Store;
        let (debited, wait) = if by_store { (self.granted, self.wait) } else { (0, 0) };
        let (outcome, source, granted) = (Outcome::Allowed, Source::Shadow, charge.cost());
        Self { outcome, source, granted, wait, debited, ..self }
    }

    /// Returns how much a compensating charge reverses, and when what was debited starts.
    pub(crate) fn debited(&self) -> (u32, Duration) {
        (self.debited, Duration::from_nanos(self.wait))
    }

    /// Returns the raw numbers, to send to another process or to change in a wrapper. In shadow mode, they do not say
    /// what the store debited.
    pub fn raw(&self) -> RawDecision {
        let Self { outcome, source, granted, limit, left, unit, wait, reset, debited: _ } = *self;
        let wait = if self.is_shadowed() { 0 } else { wait };
        RawDecision { outcome, source, granted, limit, left, unit, wait, reset }
    }

    /// Orders decisions by how little room they leave.
    fn restrictiveness(&self) -> (u8, u64, core::cmp::Reverse<i64>) {
        let whole = self.left.div_euclid(i64::try_from(self.unit).unwrap_or(i64::MAX));
        let wait = self.raw().wait;
        match self.outcome {
            Outcome::Allowed => (0, wait, core::cmp::Reverse(whole)),
            Outcome::Denied => (1, wait, core::cmp::Reverse(whole)),
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

/// Rounds up to whole seconds.
fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// The balance of a key after a debit, a refund or a cancelled reservation: its decision, which may be ignored.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// # use tollgate::store::ImmediateStore;
/// # use tollgate::{Limit, Limiter, StoreError};
/// # fn bill<S: ImmediateStore>(limiter: &Limiter<S>, tokens: &Limit, used: u32) -> Result<(), StoreError> {
/// limiter.debit_now(tokens, "user:42", used)?;
/// let balance = limiter.refund_now(tokens, "user:42", 10)?;
/// println!("{} refunded, {} in debt", balance.granted(), balance.debt());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance(Decision);

impl From<Decision> for Balance {
    fn from(decision: Decision) -> Self {
        Self(decision)
    }
}

impl core::ops::Deref for Balance {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.0
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
    /// The name of the most restrictive limit, once the limiter has added it.
    most_restrictive_limit: Option<Arc<str>>,
}

impl Verdict {
    /// Creates a verdict from decisions, one per charge, made at an instant of the deciding clock.
    pub fn new(decisions: impl IntoIterator<Item = Decision>, decided_at: Time) -> Self {
        Self { decisions: decisions.into_iter().collect(), decided_at, most_restrictive_limit: None }
    }

    /// Creates a verdict on a single charge.
    #[inline]
    pub fn one(decision: Decision, decided_at: Time) -> Self {
        let mut decisions = SmallVec::new();
        decisions.push(decision);
        Self { decisions, decided_at, most_restrictive_limit: None }
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

    /// Returns the name of the limit that made the [most restrictive](Self::most_restrictive) decision. `None` for a
    /// request without charges, and for a verdict that did not come from a [`Limiter`](crate::Limiter).
    pub fn most_restrictive_limit(&self) -> Option<&str> {
        self.most_restrictive_limit.as_deref()
    }

    /// Adds the name of the most restrictive limit. `charges` are those of the request.
    pub(crate) fn with_names(mut self, charges: &[Charge<'_>]) -> Self {
        let most = self.most_restrictive_index().and_then(|index| charges.get(index));
        self.most_restrictive_limit = most.map(|charge| charge.limit.shared_name());
        self
    }

    /// Returns after what time the whole request can pass. `None` if it was allowed, and if no retry can succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        self.most_restrictive().and_then(Decision::retry_after)
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, as HTTP's `Retry-After` needs it. Never
    /// 0.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.most_restrictive().and_then(Decision::retry_after_secs)
    }

    /// Returns how long the caller of an allowed request must wait before it starts: the longest of its decisions. Zero
    /// if denied.
    pub fn start_after(&self) -> Duration {
        if self.is_denied() {
            return Duration::ZERO;
        }
        self.decisions.iter().map(Decision::start_after).max().unwrap_or_default()
    }

    /// Returns after what time the states of all charges equal fresh ones, if no other charge comes.
    pub fn reset_after(&self) -> Duration {
        self.decisions.iter().map(Decision::reset_after).max().unwrap_or_default()
    }

    /// Returns [`reset_after`](Self::reset_after) in whole seconds, rounded up. Never 0 if denied.
    pub fn reset_after_secs(&self) -> u64 {
        whole_seconds(self.reset_after()).max(self.is_denied().into())
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

    #[test]
    fn a_shadowed_charge_passes_at_once_and_in_full() {
        let limit = crate::Limit::per_second(10).build("api").expect("valid");
        let (take, part) =
            (limit.charge("a").with_cost(3), limit.charge("a").with_cost(3).with_action(Action::TakeUpTo));
        let full: Decision = RawDecision { granted: 3, ..decision(Outcome::Allowed, 50, 0).raw() }.into();
        assert_eq!((full.shadowed(&take), full.shadowed(&part)), (full, full), "nothing to change");
        for (charge, other) in [
            (take, decision(Outcome::Denied, 0, 7)),
            (take, decision(Outcome::NeverFits, 0, 0)),
            (take, decision(Outcome::Allowed, 0, 7)),
            (part, decision(Outcome::Allowed, 0, 0)),
            (take.with_action(Action::Renew), decision(Outcome::LeaseLost, 0, 0)),
        ] {
            let seen = other.shadowed(&charge);
            assert!(seen.is_allowed() && seen.is_shadowed() && !other.is_shadowed(), "{other:?}");
            assert_eq!((seen.granted(), seen.start_after(), seen.retry_after()), (3, Duration::ZERO, None));
        }
        let renewed = decision(Outcome::Allowed, 0, 0);
        assert_eq!(renewed.shadowed(&take.with_action(Action::Renew)), renewed, "it grants what is held");
    }

    /// What the caller sees differs from what the store debited: only that is reversed.
    #[test]
    fn a_shadowed_charge_reverses_what_the_store_debited() {
        let limit = crate::Limit::per_second(10).build("api").expect("valid");
        let take = limit.charge("a").with_cost(3).with_max_wait(Duration::from_secs(9));
        let at = Time::from_secs(100);
        let reserved: Decision = RawDecision { granted: 3, ..decision(Outcome::Allowed, 0, 7).raw() }.into();
        let start = Some(at + Duration::from_nanos(7));
        let refund = Some(take.with_action(Action::Refund { at: start }));
        assert_eq!(take.compensation(&reserved.shadowed(&take), at), refund);
        let denied = decision(Outcome::Denied, 0, 7).shadowed(&take);
        assert_eq!((denied.granted(), take.compensation(&denied, at)), (3, None));
        let fallback: Decision = reserved.raw().with_source(Source::Fallback).into();
        assert_eq!(take.compensation(&fallback.shadowed(&take), at), None, "the store debited nothing");
        let sent: Decision = reserved.shadowed(&take).raw().into();
        assert_eq!((sent.start_after(), take.compensation(&sent, at)), (Duration::ZERO, None));
        let part = take.with_action(Action::TakeUpTo);
        let some: Decision = RawDecision { granted: 2, ..decision(Outcome::Allowed, 0, 0).raw() }.into();
        let reversed = part.compensation(&some.shadowed(&part), at).map(|refund| refund.cost());
        assert_eq!((some.shadowed(&part).granted(), reversed), (3, Some(2)));
    }

    #[test]
    fn seconds_are_rounded_up_and_never_zero_for_a_denial() {
        let second = 1_000_000_000;
        let denied = |wait| decision(Outcome::Denied, 0, wait);
        let seconds = [0, 1, second, second + 1].map(|wait| denied(wait).retry_after_secs());
        assert_eq!(seconds, [Some(1), Some(1), Some(1), Some(2)]);
        let allowed = decision(Outcome::Allowed, 10, 0);
        assert_eq!((allowed.retry_after_secs(), allowed.reset_after_secs()), (None, 0));
        assert_eq!(denied(1).reset_after_secs(), 1);
        let resets: Decision = RawDecision { reset: second + 1, ..allowed.raw() }.into();
        assert_eq!(resets.reset_after_secs(), 2);
        let both = verdict([resets, denied(second + 1)]);
        assert_eq!((both.retry_after_secs(), both.reset_after_secs()), (Some(2), 2));
        assert_eq!(verdict([allowed, denied(0)]).reset_after_secs(), 1);
    }

    #[test]
    fn a_request_starts_when_its_last_charge_does() {
        let due = |wait| decision(Outcome::Allowed, 10, wait);
        assert_eq!(verdict([due(5), due(9), due(0)]).start_after(), Duration::from_nanos(9));
        assert_eq!(verdict([due(5), decision(Outcome::Denied, 0, 9)]).start_after(), Duration::ZERO);
        assert_eq!(verdict([]).start_after(), Duration::ZERO);
    }

    #[test]
    fn a_denial_without_a_store_can_be_retried_later() {
        let limit = crate::Limit::per_second(10).build("api").expect("valid");
        let denied: Decision = RawDecision::deny(&limit.charge("a"), Duration::ZERO, Source::Policy).into();
        assert!(denied.retry_after().is_some_and(|wait| !wait.is_zero()));
        assert_eq!(Decision::from(RawDecision::deny_listed(&limit.charge("a"))).retry_after(), None);
        let by_rule = Decision::from(RawDecision::deny_by_rule());
        assert_eq!((by_rule.is_denied(), by_rule.retry_after(), by_rule.remaining()), (true, None, 0));
    }

    #[test]
    fn debt_is_reported_and_nothing_remains() {
        let overdrawn = decision(Outcome::Allowed, -25, 0);
        assert_eq!((overdrawn.remaining(), overdrawn.debt()), (0, 3));
    }
}
