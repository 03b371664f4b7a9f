//! Pending deltas: what was granted locally and is not applied by the central store yet, dated to the instants it
//! belongs to.

use tollgate_core::{Action, Limit, Time};

use super::refill::Refill;

/// How many deltas of one key are kept before they are compacted.
const MAX_DELTAS: usize = 16;

/// A debit or refund to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    amount: u64,
    /// How much of it counted locally: a refund may count for less than its amount.
    effective: u64,
    /// A debit or a refund.
    action: Action,
}

impl Delta {
    fn debit(amount: u64, at: Time) -> Self {
        Self { amount, effective: amount, action: Action::Debit { at: Some(at) } }
    }

    fn is_refund(&self) -> bool {
        matches!(self.action, Action::Refund { .. })
    }

    fn at(&self) -> Time {
        let (Action::Debit { at } | Action::Refund { at }) = self.action else { return Time::MAX };
        at.unwrap_or(Time::MAX)
    }

    /// Returns how much it takes from the central balance.
    fn signed_amount(self) -> i64 {
        let amount = i64::try_from(self.amount).unwrap_or(i64::MAX);
        if self.is_refund() { -amount } else { amount }
    }

    /// Splits it into costs that a charge can carry, each with its action.
    pub(crate) fn charges(self) -> impl Iterator<Item = (u32, Action)> {
        let mut rest = self.amount;
        std::iter::from_fn(move || {
            let part = u32::try_from(rest.min(Limit::MAX_COUNT.into())).unwrap_or(Limit::MAX_COUNT);
            rest -= u64::from(part);
            (part > 0).then_some((part, self.action))
        })
    }
}

/// The pending deltas of one key, in order. Small, because every key has one, and nearly all of them hold a few takes
/// and nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingDeltas {
    /// The sum of the latest takes, and the instant they are dated to.
    taken: u64,
    since: Time,
    /// The deltas before them.
    #[expect(clippy::box_collection, reason = "one word if there are none, as for nearly all keys")]
    earlier: Option<Box<Vec<Delta>>>,
}

impl PendingDeltas {
    /// Adds a take of `amount` at `at`.
    #[inline]
    pub(crate) fn take(&mut self, refill: Refill, amount: u32, at: Time) {
        if self.taken == 0 {
            self.since = at;
        } else {
            match refill {
                Refill::Continuous { token } => {
                    // A bucket used by this node only would have been full again before `at`: the sum is dated so that
                    // it ends now.
                    let used = token.saturating_mul(self.taken);
                    if at.nanos() > self.since.nanos().saturating_add(used) {
                        self.since = Time::from_nanos(at.nanos().saturating_sub(used));
                    }
                }
                Refill::Windows { period, .. } => {
                    if !refill.same_window(self.since, at) {
                        self.close(refill);
                        // No window reaches back further than two periods.
                        self.drop_debits_before(at.nanos().saturating_sub(period.saturating_mul(2)));
                        self.since = at;
                    }
                }
                Refill::Interval { period } => {
                    if at.nanos() >= self.since.nanos().saturating_add(period) {
                        self.close(refill);
                        self.since = at;
                    }
                }
            }
        }
        self.taken = self.taken.saturating_add(amount.into());
    }

    /// Adds a debit or refund that a caller requested, and how much of it counted locally.
    pub(crate) fn record(&mut self, refill: Refill, amount: u32, effective: u32, action: Action) {
        self.close(refill);
        self.push(refill, Delta { amount: amount.into(), effective: effective.into(), action });
    }

    /// Turns the latest takes into a delta: what follows is not added to them.
    #[cold]
    fn close(&mut self, refill: Refill) {
        if self.taken > 0 {
            let delta = Delta::debit(self.taken, self.since);
            self.taken = 0;
            self.push(refill, delta);
        }
    }

    fn push(&mut self, refill: Refill, delta: Delta) {
        let earlier = self.earlier.get_or_insert_default();
        match earlier.last_mut() {
            Some(last) if last.action == delta.action => {
                last.amount = last.amount.saturating_add(delta.amount);
                last.effective = last.effective.saturating_add(delta.effective);
            }
            Some(_) | None => {
                if earlier.len() == MAX_DELTAS {
                    compact(refill, earlier);
                }
                earlier.push(delta);
            }
        }
    }

    fn drop_debits_before(&mut self, instant: u64) {
        if let Some(earlier) = &mut self.earlier {
            earlier.retain(
                |delta| !matches!(delta.action, Action::Debit { at: Some(at) } if at.nanos() < instant),
            );
        }
    }

    /// Adds a debit before the latest takes, which stay apart from it.
    pub(crate) fn debit(&mut self, refill: Refill, amount: u64, at: Time) {
        self.push(refill, Delta::debit(amount, at));
    }

    /// Removes all debits, and returns their sum less the refunds that counted locally. What remains are refunds that
    /// may count for other nodes.
    pub(crate) fn take_debits(&mut self, refill: Refill) -> u64 {
        self.close(refill);
        let Some(earlier) = &mut self.earlier else { return 0 };
        compact(refill, earlier);
        let debited = earlier.iter().filter(|delta| !delta.is_refund());
        let debited = debited.fold(0, |sum: u64, delta| sum.saturating_add(delta.amount));
        earlier.retain(Delta::is_refund);
        debited
    }

    /// Returns the sum of the latest takes.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Removes up to so many of the latest takes, which the central store has debited already. Returns how many.
    pub(crate) fn cover(&mut self, tokens: u32) -> u32 {
        let covered = u32::try_from(self.taken).unwrap_or(u32::MAX).min(tokens);
        self.taken -= u64::from(covered);
        covered
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0 && self.earlier.as_ref().is_none_or(|earlier| earlier.is_empty())
    }

    /// Returns how much all of them take from the central balance.
    pub(crate) fn sum(&self) -> i64 {
        self.deltas().fold(0, |sum, delta| sum.saturating_add(delta.signed_amount()))
    }

    pub(crate) fn deltas(&self) -> impl Iterator<Item = Delta> {
        let last = (self.taken > 0).then(|| Delta::debit(self.taken, self.since));
        self.earlier.iter().flat_map(|earlier| earlier.iter().copied()).chain(last)
    }
}

/// Compacts deltas to at most one refund and one debit.
///
/// The debit is the sum of all debits, dated to the latest, less the refunds that counted locally in the same window.
/// The remaining refunds come first, dated to the earliest: the central store decides how much of them counts, which is
/// never more than was meant.
#[cold]
fn compact(refill: Refill, deltas: &mut Vec<Delta>) {
    let (refunds, debits): (Vec<_>, Vec<_>) = deltas.drain(..).partition(Delta::is_refund);
    let mut debit = debits.iter().max_by_key(|delta| delta.at()).copied();
    if let Some(debit) = &mut debit {
        debit.amount = debits.iter().fold(0, |sum: u64, delta| sum.saturating_add(delta.amount));
    }
    let mut rest = refunds.iter().min_by_key(|delta| delta.at()).copied();
    if let Some(rest) = &mut rest {
        (rest.amount, rest.effective) = (0, 0);
        for refund in refunds {
            let netted = match &mut debit {
                Some(debit) if refill.same_window(refund.at(), debit.at()) => {
                    let netted = refund.effective.min(debit.amount);
                    debit.amount -= netted;
                    netted
                }
                Some(_) | None => 0,
            };
            rest.amount = rest.amount.saturating_add(refund.amount.saturating_sub(netted));
            rest.effective = rest.effective.saturating_add(refund.effective.saturating_sub(netted));
        }
    }
    deltas.extend(rest.into_iter().chain(debit).filter(|delta| delta.amount > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const INTERVAL: Refill = Refill::Interval { period: 10 * SECOND };

    fn at(seconds: u64) -> Time {
        Time::from_secs(1_790_000_000 + seconds)
    }

    fn listed(pending: &PendingDeltas) -> Vec<(u64, Action)> {
        pending.deltas().map(|delta| (delta.amount, delta.action)).collect()
    }

    fn debit(second: u64) -> Action {
        Action::Debit { at: Some(at(second)) }
    }

    #[test]
    fn takes_of_a_bucket_that_refilled_in_between_are_dated_to_end_with_the_last() {
        // One per second: three takes, ten seconds apart. Only the last one is not refilled yet.
        let mut pending = PendingDeltas::default();
        for step in 0..3 {
            pending.take(Refill::Continuous { token: SECOND }, 1, at(10 * step));
        }
        assert_eq!(listed(&pending), [(3, debit(18))], "full again one second after the last");
        let mut burst = PendingDeltas::default();
        burst.take(Refill::Continuous { token: SECOND }, 5, at(0));
        burst.take(Refill::Continuous { token: SECOND }, 5, at(1));
        assert_eq!(listed(&burst), [(10, debit(0))], "the bucket was never full in between");
    }

    #[test]
    fn windows_are_separate_and_dropped_once_they_no_longer_count() {
        let refill = Refill::Windows { period: 10 * SECOND, parts: 1 };
        let mut pending = PendingDeltas::default();
        for second in [1, 2, 11, 12, 21] {
            pending.take(refill, 1, at(second));
        }
        assert_eq!(listed(&pending), [(2, debit(1)), (2, debit(11)), (1, debit(21))]);
        pending.take(refill, 1, at(45));
        assert_eq!(listed(&pending), [(1, debit(45))]);
    }

    #[test]
    fn requested_deltas_stay_in_order_and_bounded() {
        let mut pending = PendingDeltas::default();
        let refund = Action::Refund { at: None };
        pending.take(INTERVAL, 3, at(0));
        pending.record(INTERVAL, 1, 1, refund);
        pending.record(INTERVAL, 1, 1, refund);
        pending.take(INTERVAL, 2, at(1));
        assert_eq!((listed(&pending), pending.sum()), (vec![(3, debit(0)), (2, refund), (2, debit(1))], 3));
        for second in 0..1_000 {
            pending.record(INTERVAL, 1, 1, debit(second));
            pending.record(INTERVAL, 2, 2, Action::Refund { at: Some(at(second)) });
        }
        assert!(pending.deltas().count() <= MAX_DELTAS);
        assert_eq!(pending.sum(), 3 + 1_000 - 2_000, "nothing lost");
    }

    #[test]
    fn refunds_that_did_not_count_do_not_reduce_debits() {
        let minutes = Refill::Windows { period: 60 * SECOND, parts: 1 };
        let refund = |second| Action::Refund { at: Some(at(second)) };
        let mut pending = PendingDeltas::default();
        for second in 0..20 {
            pending.take(minutes, 5, at(120 + second));
            // In a window that is over.
            pending.record(minutes, 5, 0, refund(second));
        }
        let debits = |pending: &PendingDeltas| {
            pending.deltas().filter(|delta| !delta.is_refund()).map(|delta| delta.amount).sum()
        };
        assert_eq!(debits(&pending), 100_u64);
        let (mut full, mut earlier) = (PendingDeltas::default(), PendingDeltas::default());
        for second in 0..20 {
            // To a bucket that was full.
            full.take(Refill::Continuous { token: SECOND }, 5, at(120 + second));
            full.record(Refill::Continuous { token: SECOND }, 5, 0, refund(120 + second));
            // In the previous window, which still counts in part.
            earlier.take(minutes, 5, at(120 + second));
            earlier.record(minutes, 5, 5, refund(60 + second));
        }
        assert_eq!((debits(&full), debits(&earlier)), (100, 100));
        let mut undone = PendingDeltas::default();
        for second in 0..20 {
            undone.take(minutes, 5, at(120 + second));
            undone.record(minutes, 4, 4, refund(120 + second));
        }
        assert_eq!(undone.sum(), 20);
        assert!(undone.deltas().all(|delta| delta.amount <= 100), "and each is bounded");
        let mut only_refunds = PendingDeltas::default();
        for second in 0..20 {
            only_refunds.record(minutes, 1, 0, refund(120 + second));
        }
        assert_eq!(only_refunds.sum(), -20, "another node may have debited it");
        assert_eq!(only_refunds.deltas().next().map(|delta| delta.at()), Some(at(120)));
    }

    #[test]
    fn debits_are_taken_without_the_refunds_of_them() {
        let bucket = Refill::Continuous { token: SECOND };
        let refund = Action::Refund { at: Some(at(3)) };
        let mut pending = PendingDeltas::default();
        pending.take(bucket, 5, at(0));
        pending.record(bucket, 2, 2, refund);
        // One of these counted, the other two had been refilled here already.
        pending.record(bucket, 3, 1, refund);
        pending.take(bucket, 4, at(4));
        pending.debit(bucket, 10, at(4));
        assert_eq!(pending.take_debits(bucket), 5 - 2 - 1 + 4 + 10);
        assert_eq!(listed(&pending), [(2, refund)]);
        assert_eq!(pending.take_debits(bucket), 0);
    }

    #[test]
    fn a_debit_does_not_end_the_latest_takes() {
        let bucket = Refill::Continuous { token: SECOND };
        let mut pending = PendingDeltas::default();
        pending.take(bucket, 5, at(0));
        pending.debit(bucket, 5_000_000_000, at(1));
        pending.take(bucket, 5, at(2));
        assert_eq!(listed(&pending), [(5_000_000_000, debit(1)), (10, debit(0))]);
    }

    #[test]
    fn amounts_larger_than_a_charge_can_carry_are_split() {
        let delta = Delta::debit(2_500_000_000, at(0));
        let parts: Vec<_> = delta.charges().map(|(part, _)| u64::from(part)).collect();
        assert_eq!((parts.len(), parts.iter().sum::<u64>()), (3, 2_500_000_000));
    }
}
