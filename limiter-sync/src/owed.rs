//! What was granted here and is not booked at the centre yet, at the instants that it belongs to.

use smallvec::SmallVec;
use tollgate_core::{Action, AlgorithmKind, Limit, MAX_COUNT, Time};

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
    /// Everything belongs to the first instant: with it a period began.
    First,
    /// Instants mean nothing, or would mean the wrong thing.
    Late,
}

impl Booking {
    /// How a limit's debits are booked; `None` if copies of its state cannot be kept apart and put together again.
    ///
    /// - A log keeps every instant, and leases know their holders: there is nothing to add up.
    /// - Queues and smooth limiters promise a distance between one start and the next, which copies cannot keep.
    /// - A block is one denial's doing, and must count everywhere at once.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        if limit.block_time().is_some() {
            return None;
        }
        let numbers = limit.numbers();
        match limit.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra => {
                Some(Self::Drip { token: numbers.period / u64::from(numbers.count.max(1)) })
            }
            AlgorithmKind::IntervalBucket => Some(Self::First),
            // The centre's window begins when it hears of the first hit, which is never before that hit.
            AlgorithmKind::FixedWindow if numbers.anchored => Some(Self::Late),
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

    /// Books `amount` at `at`; less than nothing was given back.
    pub(crate) fn action(self, amount: i64, at: Time) -> Action {
        match self {
            _ if amount < 0 && !matches!(self, Self::Slots { .. }) => Action::Refund { at: None },
            _ if amount < 0 => Action::Refund { at: Some(at) },
            Self::Late => Action::Debit { at: None },
            _ => Action::Debit { at: Some(at) },
        }
    }
}

/// An amount and the instant it belongs to. Less than nothing was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: Time,
    pub(crate) amount: i64,
}

impl Entry {
    /// Its parts that a charge can carry, with what they do.
    pub(crate) fn charges(self, booking: Booking) -> impl Iterator<Item = (u32, Action)> {
        let action = booking.action(self.amount, self.at);
        let mut rest = self.amount.unsigned_abs();
        std::iter::from_fn(move || {
            let part = u32::try_from(rest.min(MAX_COUNT.into())).unwrap_or(MAX_COUNT);
            rest -= u64::from(part);
            (part > 0).then_some((part, action))
        })
    }
}

/// What is owed to the centre by one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    entries: SmallVec<[Entry; 1]>,
}

impl Owed {
    /// Notes that `amount` was granted, or given back if it is less than nothing.
    pub(crate) fn add(&mut self, booking: Booking, amount: i64, at: Time) {
        let last = match booking {
            Booking::Slots { period, parts } => {
                let slot = Booking::slot(period, parts, at);
                self.entries.iter_mut().rev().find(|entry| Booking::slot(period, parts, entry.at) == slot)
            }
            _ => self.entries.first_mut(),
        };
        let Some(entry) = last else {
            self.entries.push(Entry { at, amount });
            if let Booking::Slots { period, .. } = booking {
                // What lies two periods back is out of every window's sight.
                let sight = at.nanos().saturating_sub(period.saturating_mul(2));
                self.entries.retain(|entry| entry.at.nanos() >= sight);
            }
            return;
        };
        if let Booking::Drip { token } = booking
            && amount > 0
        {
            // By itself a bucket would have been full again before now: the later part begins then.
            let used = token.saturating_mul(u64::try_from(entry.amount).unwrap_or(0));
            if at.nanos() > entry.at.nanos().saturating_add(used) {
                entry.at = Time::from_nanos(at.nanos().saturating_sub(used));
            }
        }
        entry.amount = entry.amount.saturating_add(amount);
    }

    /// Whether there is anything to book.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.amount == 0)
    }

    /// How much, all in all.
    pub(crate) fn sum(&self) -> i64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.amount))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Time {
        Time::from_secs(1_790_000_000 + seconds)
    }

    #[test]
    fn a_bucket_that_refilled_meanwhile_owes_what_it_would_miss_by_itself() {
        // One a second: three taken ten seconds apart, of which only the last is missing still.
        let mut owed = Owed::default();
        for step in 0..3 {
            owed.add(Booking::Drip { token: SECOND }, 1, at(10 * step));
        }
        assert_eq!(owed.entries(), [Entry { at: at(18), amount: 3 }], "full again one second after the last");
        let mut burst = Owed::default();
        burst.add(Booking::Drip { token: SECOND }, 5, at(0));
        burst.add(Booking::Drip { token: SECOND }, 5, at(1));
        assert_eq!(burst.entries(), [Entry { at: at(0), amount: 10 }], "nothing was refilled in vain");
    }

    #[test]
    fn windows_are_kept_apart_and_forgotten_when_out_of_sight() {
        let booking = Booking::Slots { period: 10 * SECOND, parts: 1 };
        let mut owed = Owed::default();
        for second in [1, 2, 11, 12, 21, 45] {
            owed.add(booking, 1, at(second));
        }
        assert_eq!(owed.entries(), [Entry { at: at(45), amount: 1 }]);
        owed.add(booking, -1, at(46));
        assert!(owed.is_empty(), "given back in the same window");
    }

    #[test]
    fn more_than_a_charge_can_carry_goes_in_parts() {
        let entry = Entry { at: at(0), amount: 2_500_000_000 };
        let parts: Vec<_> = entry.charges(Booking::Late).map(|(part, _)| u64::from(part)).collect();
        assert_eq!((parts.len(), parts.iter().sum::<u64>()), (3, 2_500_000_000));
    }
}
