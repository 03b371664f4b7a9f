//! Tokens taken from the central store in advance of the next sync round, because this node's share was used up while
//! there was no shortage: the callers that need them wait for one call.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::{Charge, Time};

use super::pending::PendingDeltas;
use super::refill::Refill;

/// Tokens taken from the central store in advance.
#[derive(Debug, Default)]
pub(super) struct Advance {
    /// Tokens that the central store has debited, and that no caller has spent. When the last of them were.
    tokens: u32,
    debited_at: Time,
    /// What the callers need that wait for the call in flight.
    waiting_for: u32,
    /// Present while a call is in flight; notifies the callers that wait for it.
    in_flight: Option<Arc<Notify>>,
    /// How many calls may have taken tokens, although their answers were lost. They are being repeated.
    pub(super) in_doubt: u32,
    /// No call is made before.
    paused_until: Time,
    /// What callers have spent of such tokens since the last sync round: no delta reports it.
    spent: u64,
}

impl Advance {
    /// Returns whether there are tokens, or a call for some is in flight or in doubt.
    pub(super) fn is_held(&self) -> bool {
        self.tokens > 0 || self.in_flight.is_some() || self.in_doubt > 0
    }

    /// Returns whether the next sync round need not know anything of it.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_held() && self.spent == 0
    }

    /// Returns the tokens that can still be spent.
    pub(super) fn tokens(&mut self, refill: Refill, now: Time) -> u32 {
        if self.tokens > 0 && !refill.same_period(self.debited_at, now) {
            // They ended with their window.
            self.tokens = 0;
        }
        self.tokens
    }

    /// Returns whether a caller may ask for tokens now.
    pub(super) fn is_possible(&self, now: Time) -> bool {
        now >= self.paused_until
    }

    /// Returns the notification to wait for, if a call is in flight. `again`: the caller has waited before.
    pub(super) fn join(&mut self, cost: u32, again: bool) -> Option<Arc<Notify>> {
        let in_flight = self.in_flight.clone()?;
        if !again {
            self.waiting_for = self.waiting_for.saturating_add(cost);
        }
        Some(in_flight)
    }

    /// Starts a call, and returns how many tokens to take: for this caller, for those that have waited for the call
    /// before, and what was granted locally since the last round.
    pub(super) fn start(&mut self, charge: &Charge<'_>, pending: &PendingDeltas) -> u32 {
        self.in_flight = Some(Arc::default());
        let waiting_for = std::mem::take(&mut self.waiting_for);
        let pending = u32::try_from(pending.taken()).unwrap_or(u32::MAX);
        charge.cost().max(waiting_for).saturating_add(pending)
    }

    /// Adds what the central store granted at an instant, which may be long ago if the answer was lost.
    pub(super) fn add(&mut self, granted: u32, at: Time, refill: Refill) {
        // Only what counts in the same window can be spent together.
        if at >= self.debited_at {
            (self.tokens, self.debited_at) = (self.tokens(refill, at).saturating_add(granted), at);
        } else if refill.same_period(at, self.debited_at) {
            self.tokens = self.tokens.saturating_add(granted);
        }
    }

    /// Ends a call, and wakes the callers that wait for it.
    pub(super) fn stop(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            in_flight.notify_waiters();
        }
    }

    /// Makes no call until an instant.
    pub(super) fn pause(&mut self, until: Time) {
        self.paused_until = until;
    }

    /// Covers pending takes by tokens that the central store has debited already. Returns how many.
    #[inline]
    pub(super) fn cover(&mut self, pending: &mut PendingDeltas, refill: Refill, now: Time) -> u32 {
        if self.tokens == 0 {
            return 0;
        }
        let covered = pending.cover(self.tokens(refill, now));
        self.tokens -= covered;
        self.spent = self.spent.saturating_add(covered.into());
        covered
    }

    /// Takes what callers have spent since the last sync round.
    pub(super) fn take_spent(&mut self) -> u64 {
        std::mem::take(&mut self.spent)
    }

    /// Takes the tokens that were not spent, to return them.
    pub(super) fn take_unspent(&mut self, refill: Refill, now: Time) -> u32 {
        if self.in_flight.is_some() {
            return 0;
        }
        let unspent = self.tokens(refill, now);
        self.tokens = 0;
        unspent
    }
}

impl Drop for Advance {
    /// Wakes the callers that wait: they decide again.
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Limit;

    use super::*;

    const BUCKET: Refill = Refill::Continuous { token: 1_000_000 };
    const MINUTES: Refill = Refill::Windows { period: 60_000_000_000, parts: 1 };

    fn at(second: u64) -> Time {
        Time::from_secs(600 + second)
    }

    #[test]
    fn tokens_are_spent_and_the_rest_is_returned() {
        let (mut advance, mut pending) = (Advance::default(), PendingDeltas::default());
        advance.add(10, at(0), BUCKET);
        pending.take(BUCKET, 4, at(1));
        assert_eq!(advance.cover(&mut pending, BUCKET, at(1)), 4);
        assert_eq!((pending.taken(), advance.tokens(BUCKET, at(1))), (0, 6));
        assert_eq!((advance.take_spent(), advance.take_spent()), (4, 0), "reported once");
        pending.take(BUCKET, 9, at(2));
        assert_eq!(advance.cover(&mut pending, BUCKET, at(2)), 6);
        assert_eq!((pending.taken(), advance.take_unspent(BUCKET, at(2))), (3, 0));
        advance.add(5, at(3), BUCKET);
        assert_eq!((advance.take_unspent(BUCKET, at(3)), advance.take_unspent(BUCKET, at(3))), (5, 0));
    }

    #[test]
    fn tokens_end_with_their_window() {
        let mut advance = Advance::default();
        advance.add(10, at(0), MINUTES);
        assert_eq!(advance.tokens(MINUTES, at(59)), 10);
        assert_eq!((advance.tokens(MINUTES, at(60)), advance.take_unspent(MINUTES, at(60))), (0, 0));
        // Neither are they spent with those of another window, whichever answer comes first.
        for (first, second) in [(0, 60), (60, 0)] {
            let mut advance = Advance::default();
            advance.add(10, at(first), MINUTES);
            advance.add(10, at(second), MINUTES);
            assert_eq!(advance.tokens(MINUTES, at(61)), 10);
        }
    }

    #[test]
    fn one_call_for_all_that_wait() {
        let limit = Limit::per_second(100).build("api").expect("valid");
        let (mut advance, pending) = (Advance::default(), PendingDeltas::default());
        assert!(advance.join(3, false).is_none(), "there is none yet");
        assert_eq!(advance.start(&limit.charge("").with_cost(3), &pending), 3);
        assert!(advance.join(4, false).is_some() && advance.join(5, false).is_some());
        assert_eq!(advance.take_unspent(BUCKET, at(0)), 0, "those on their way are not known yet");
        advance.stop();
        assert!(advance.join(4, true).is_none());
        assert_eq!(advance.start(&limit.charge("").with_cost(4), &pending), 9, "for both that waited");
        // One of them waits again, and is counted already.
        assert!(advance.join(5, true).is_some());
        advance.stop();
        assert_eq!(advance.start(&limit.charge("").with_cost(5), &pending), 5);
    }
}
