//! What was granted here and is not booked at the centre yet, at the instants that it belongs to.

use tollgate_core::{Action, AlgorithmKind, Limit, Time};

/// Entries of one key, before they are put together.
const MOST_ENTRIES: usize = 16;

/// What instants mean to an algorithm when something is booked late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Booking {
    /// A bucket that drips: where nobody else used it, what was granted has been refilled since.
    Drip {
        /// Nanoseconds that a token takes.
        token: u64,
    },
    /// A count for each part of a period.
    Slots {
        /// The period in nanoseconds.
        period: u64,
        /// How many parts it has.
        parts: u32,
    },
    /// A bucket that is refilled once in a period, which begins with the first debit.
    Periods {
        /// The period in nanoseconds.
        period: u64,
    },
}

impl Booking {
    /// How a limit's debits are booked; `None` if copies of its state cannot be kept apart and put together again.
    ///
    /// - A log keeps every instant, and leases know their holders: there is nothing to add up.
    /// - Queues and smooth limiters promise a distance between one start and the next, which copies cannot keep.
    /// - A window that begins with the first hit begins with the first of all nodes.
    /// - A block is one denial's doing, and must count everywhere at once.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        if limit.block_time().is_some() {
            return None;
        }
        let numbers = limit.parameters();
        match limit.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra => {
                Some(Self::Drip { token: numbers.period / u64::from(numbers.count.max(1)) })
            }
            AlgorithmKind::IntervalBucket => Some(Self::Periods { period: numbers.period }),
            AlgorithmKind::FixedWindow if numbers.anchored => None,
            AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindow => {
                Some(Self::Slots { period: numbers.period, parts: 1 })
            }
            AlgorithmKind::SlidingCounter => {
                Some(Self::Slots { period: numbers.period, parts: numbers.sub_buckets })
            }
            _ => None,
        }
    }

    fn slot(period: u64, parts: u32, at: Time) -> u128 {
        u128::from(at.nanos()) * u128::from(parts) / u128::from(period.max(1))
    }

    /// Whether what is booked at one instant counts in the same place as what is booked at another.
    fn is_one_place(self, one: Time, other: Time) -> bool {
        match self {
            Self::Slots { period, parts } => {
                Self::slot(period, parts, one) == Self::slot(period, parts, other)
            }
            Self::Drip { .. } | Self::Periods { .. } => true,
        }
    }
}

/// Something to book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    amount: u64,
    /// How much of it counted here: a refund may be worth less than it says.
    worth: u64,
    /// A debit or a refund.
    action: Action,
}

impl Entry {
    fn taken(amount: u64, at: Time) -> Self {
        Self { amount, worth: amount, action: Action::Debit { at: Some(at) } }
    }

    fn is_refund(&self) -> bool {
        matches!(self.action, Action::Refund { .. })
    }

    fn at(&self) -> Time {
        let (Action::Debit { at } | Action::Refund { at }) = self.action else { return Time::MAX };
        at.unwrap_or(Time::MAX)
    }

    /// How much the centre has less by it.
    fn debit(self) -> i64 {
        let amount = i64::try_from(self.amount).unwrap_or(i64::MAX);
        if self.is_refund() { -amount } else { amount }
    }

    /// Its parts that a charge can carry, with what they do.
    pub(crate) fn charges(self) -> impl Iterator<Item = (u32, Action)> {
        let mut rest = self.amount;
        std::iter::from_fn(move || {
            let part = u32::try_from(rest.min(Limit::MAX_COUNT.into())).unwrap_or(Limit::MAX_COUNT);
            rest -= u64::from(part);
            (part > 0).then_some((part, self.action))
        })
    }
}

/// What is owed to the centre by one key, in order. Small, because there is one for every key, and nearly all of them
/// owe a few takes and nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    /// The last takes, put together, and the instant that they belong to.
    taken: u64,
    since: Time,
    /// What was there before them.
    #[expect(clippy::box_collection, reason = "a word where there is nothing, which is nearly everywhere")]
    earlier: Option<Box<Vec<Entry>>>,
}

impl Owed {
    /// Notes that `amount` was taken at `at`.
    #[inline]
    pub(crate) fn take(&mut self, booking: Booking, amount: u32, at: Time) {
        if self.taken == 0 {
            self.since = at;
        } else {
            match booking {
                Booking::Drip { token } => {
                    // By itself a bucket would have been full again before now: the later part begins then.
                    let used = token.saturating_mul(self.taken);
                    if at.nanos() > self.since.nanos().saturating_add(used) {
                        self.since = Time::from_nanos(at.nanos().saturating_sub(used));
                    }
                }
                Booking::Slots { period, parts } => {
                    if Booking::slot(period, parts, self.since) != Booking::slot(period, parts, at) {
                        self.close(booking);
                        // What lies two periods back is out of every window's sight.
                        self.forget(at.nanos().saturating_sub(period.saturating_mul(2)));
                        self.since = at;
                    }
                }
                Booking::Periods { period } => {
                    if at.nanos() >= self.since.nanos().saturating_add(period) {
                        self.close(booking);
                        self.since = at;
                    }
                }
            }
        }
        self.taken = self.taken.saturating_add(amount.into());
    }

    /// Notes a debit or a refund that somebody asked for, and how much of it counted here.
    pub(crate) fn book(&mut self, booking: Booking, amount: u32, worth: u32, action: Action) {
        self.close(booking);
        self.push(booking, Entry { amount: amount.into(), worth: worth.into(), action });
    }

    /// The takes so far belong together; what comes is something else.
    #[cold]
    fn close(&mut self, booking: Booking) {
        if self.taken > 0 {
            let entry = Entry::taken(self.taken, self.since);
            self.taken = 0;
            self.push(booking, entry);
        }
    }

    fn push(&mut self, booking: Booking, entry: Entry) {
        let earlier = self.earlier.get_or_insert_default();
        match earlier.last_mut() {
            Some(last) if last.action == entry.action => {
                last.amount = last.amount.saturating_add(entry.amount);
                last.worth = last.worth.saturating_add(entry.worth);
            }
            _ => {
                if earlier.len() == MOST_ENTRIES {
                    squeeze(booking, earlier);
                }
                earlier.push(entry);
            }
        }
    }

    /// Forgets debits of before `sight`.
    fn forget(&mut self, sight: u64) {
        if let Some(earlier) = &mut self.earlier {
            earlier.retain(
                |entry| !matches!(entry.action, Action::Debit { at: Some(at) } if at.nanos() < sight),
            );
        }
    }

    /// Whether there are takes that may still be put together with others.
    #[inline]
    pub(crate) fn is_taking(&self) -> bool {
        self.taken > 0
    }

    /// The last takes began at `begin`, and belong there.
    pub(crate) fn begun(&mut self, begin: Time) {
        self.since = begin;
    }

    /// Whether there is nothing to book.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0 && self.earlier.as_ref().is_none_or(|earlier| earlier.is_empty())
    }

    /// How much the centre has less by all of it.
    pub(crate) fn sum(&self) -> i64 {
        self.entries().fold(0, |sum, entry| sum.saturating_add(entry.debit()))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let last = (self.taken > 0).then(|| Entry::taken(self.taken, self.since));
        self.earlier.iter().flat_map(|earlier| earlier.iter().copied()).chain(last)
    }
}

/// Makes room: what was taken, at the latest of its instants, less what was given back of it. That is as much as was worth something
/// here, in the same part of a window. What else was given back comes first, at the earliest of its instants: whether that is worth
/// anything is for the centre to say, and so it never is worth more than it was meant to be.
#[cold]
fn squeeze(booking: Booking, entries: &mut Vec<Entry>) {
    let (refunds, debits): (Vec<_>, Vec<_>) = entries.drain(..).partition(Entry::is_refund);
    let mut debit = debits.iter().max_by_key(|entry| entry.at()).copied();
    if let Some(debit) = &mut debit {
        debit.amount = debits.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.amount));
    }
    let mut rest = refunds.iter().min_by_key(|entry| entry.at()).copied();
    if let Some(rest) = &mut rest {
        (rest.amount, rest.worth) = (0, 0);
        for refund in refunds {
            let netted = match &mut debit {
                Some(debit) if booking.is_one_place(refund.at(), debit.at()) => {
                    let netted = refund.worth.min(debit.amount);
                    debit.amount -= netted;
                    netted
                }
                _ => 0,
            };
            rest.amount = rest.amount.saturating_add(refund.amount.saturating_sub(netted));
            rest.worth = rest.worth.saturating_add(refund.worth.saturating_sub(netted));
        }
    }
    entries.extend(rest.into_iter().chain(debit).filter(|entry| entry.amount > 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const PERIODS: Booking = Booking::Periods { period: 10 * SECOND };

    fn at(seconds: u64) -> Time {
        Time::from_secs(1_790_000_000 + seconds)
    }

    fn facts(owed: &Owed) -> Vec<(u64, Action)> {
        owed.entries().map(|entry| (entry.amount, entry.action)).collect()
    }

    fn debit(second: u64) -> Action {
        Action::Debit { at: Some(at(second)) }
    }

    #[test]
    fn a_bucket_that_refilled_meanwhile_owes_what_it_would_miss_by_itself() {
        // One a second: three taken ten seconds apart, of which only the last is missing still.
        let mut owed = Owed::default();
        for step in 0..3 {
            owed.take(Booking::Drip { token: SECOND }, 1, at(10 * step));
        }
        assert_eq!(facts(&owed), [(3, debit(18))], "full again one second after the last");
        let mut burst = Owed::default();
        burst.take(Booking::Drip { token: SECOND }, 5, at(0));
        burst.take(Booking::Drip { token: SECOND }, 5, at(1));
        assert_eq!(facts(&burst), [(10, debit(0))], "nothing was refilled in vain");
    }

    #[test]
    fn windows_are_kept_apart_and_forgotten_when_out_of_sight() {
        let booking = Booking::Slots { period: 10 * SECOND, parts: 1 };
        let mut owed = Owed::default();
        for second in [1, 2, 11, 12, 21] {
            owed.take(booking, 1, at(second));
        }
        assert_eq!(facts(&owed), [(2, debit(1)), (2, debit(11)), (1, debit(21))]);
        owed.take(booking, 1, at(45));
        assert_eq!(facts(&owed), [(1, debit(45))]);
    }

    #[test]
    fn what_somebody_asked_for_stays_in_order_and_in_bounds() {
        let mut owed = Owed::default();
        let back = Action::Refund { at: None };
        owed.take(PERIODS, 3, at(0));
        owed.book(PERIODS, 1, 1, back);
        owed.book(PERIODS, 1, 1, back);
        owed.take(PERIODS, 2, at(1));
        assert_eq!((facts(&owed), owed.sum()), (vec![(3, debit(0)), (2, back), (2, debit(1))], 3));
        for second in 0..1_000 {
            owed.book(PERIODS, 1, 1, debit(second));
            owed.book(PERIODS, 2, 2, Action::Refund { at: Some(at(second)) });
        }
        assert!(owed.entries().count() <= MOST_ENTRIES);
        assert_eq!(owed.sum(), 3 + 1_000 - 2_000, "nothing lost");
    }

    #[test]
    fn what_was_given_back_for_nothing_takes_nothing_off_what_was_taken() {
        let minutes = Booking::Slots { period: 60 * SECOND, parts: 1 };
        let back = |second| Action::Refund { at: Some(at(second)) };
        let mut owed = Owed::default();
        for second in 0..20 {
            owed.take(minutes, 5, at(120 + second));
            // Of a window that is over.
            owed.book(minutes, 5, 0, back(second));
        }
        let debits =
            |owed: &Owed| owed.entries().filter(|entry| !entry.is_refund()).map(|entry| entry.amount).sum();
        assert_eq!(debits(&owed), 100_u64);
        let (mut full, mut earlier) = (Owed::default(), Owed::default());
        for second in 0..20 {
            // To a bucket that was full.
            full.take(Booking::Drip { token: SECOND }, 5, at(120 + second));
            full.book(Booking::Drip { token: SECOND }, 5, 0, back(120 + second));
            // Of a window that still counts a little.
            earlier.take(minutes, 5, at(120 + second));
            earlier.book(minutes, 5, 5, back(60 + second));
        }
        assert_eq!((debits(&full), debits(&earlier)), (100, 100));
        let mut undone = Owed::default();
        for second in 0..20 {
            undone.take(minutes, 5, at(120 + second));
            undone.book(minutes, 4, 4, back(120 + second));
        }
        assert_eq!(undone.sum(), 20);
        assert!(undone.entries().all(|entry| entry.amount <= 100), "and no more than that at once");
        let mut only_back = Owed::default();
        for second in 0..20 {
            only_back.book(minutes, 1, 0, back(120 + second));
        }
        assert_eq!(only_back.sum(), -20, "somebody else may have taken it");
        assert_eq!(only_back.entries().next().map(|entry| entry.at()), Some(at(120)));
    }

    #[test]
    fn more_than_a_charge_can_carry_goes_in_parts() {
        let entry = Entry::taken(2_500_000_000, at(0));
        let parts: Vec<_> = entry.charges().map(|(part, _)| u64::from(part)).collect();
        assert_eq!((parts.len(), parts.iter().sum::<u64>()), (3, 2_500_000_000));
    }
}
