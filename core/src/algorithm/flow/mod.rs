//! The algorithms whose whole state is one theoretical arrival time (TAT): token bucket, leaky buckets, GCRA and the
//! smooth bursty limiter.
//!
//! The TAT is the instant at which the full capacity is available again. A debit moves it ahead by the time in which
//! its cost refills. The time from now until the TAT is what is used; the rest of the capacity is left. A TAT in the
//! past means the same as no state at all.
//!
//! - `decide`: takes, debits and refunds.
//! - `plain_take`: the fast path for the most frequent operation.
//! - `token_bucket`, `leaky_meter`, `leaky_queue`, `gcra`, `smooth_bursty`: a constructor and worked examples each.

mod decide;
mod gcra;
mod leaky_meter;
mod leaky_queue;
mod plain_take;
mod smooth_bursty;
mod token_bucket;

use alloc::vec;
use alloc::vec::Vec;

pub use gcra::RedisCellReply;
pub use plain_take::PlainTake;

use super::{AlgorithmKind, Decide};
use crate::charge::{Charge, Operation};
use crate::decision::Decision;
use crate::rate::Rate;
use crate::time::Time;

/// The state of a [`Flow`]: a theoretical arrival time (TAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores keep exactly this in their words")]
pub struct Tat {
    /// The instant at which the full capacity is available again. In the past, the state equals a fresh one.
    pub at: Time,
    /// Whether unconditional debits or reservations have exceeded the capacity.
    pub overdrawn: bool,
    /// The digest of the parameters under which the state was written ([`Flow::digest`]). Zero in a fresh state.
    ///
    /// Under other parameters, a TAT that lies further ahead than the new capacity reaches is clamped, unless it is
    /// overdrawn. A key that was out of tokens remains so, but only for as long as the new limit takes to refill.
    pub digest: u16,
}

/// Which charges a flow admits. The discriminants are part of the digest of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Charges that fit into the capacity. They start at once.
    Fits = 0,
    /// Charges that fit into the capacity. They start one after the other.
    Queued = 1,
    /// Any cost, once the debt of the preceding charges is repaid.
    Repaid = 2,
}

/// An algorithm whose whole state is one theoretical arrival time: a rate, a capacity and a rule for admission.
///
/// Stores can keep the state of such a limit ([`Limit::as_flow`](crate::Limit::as_flow)) in one atomic word.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    rate: Rate,
    /// The capacity on the scale of the rate.
    capacity_units: u64,
    capacity: u32,
    kind: AlgorithmKind,
    admission: Admission,
    digest: u16,
    /// Whether a take can be decided in nanoseconds, without conversion to another scale.
    plain: bool,
}

impl Flow {
    fn new(kind: AlgorithmKind, rate: Rate, capacity: u32, admission: Admission) -> Self {
        let parameters = [rate.count(), rate.period(), capacity.into(), admission as u64];
        let digest = parameters.iter().fold(0, |digest: u64, parameter| {
            (digest.rotate_left(23) ^ parameter).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        // Zero is the digest of a fresh state.
        let digest = ((digest >> 48) as u16).max(1);
        let plain = admission == Admission::Fits && rate.is_whole();
        let capacity_units = rate.tokens(u64::from(capacity));
        Self { rate, capacity_units, capacity, kind, admission, digest, plain }
    }

    /// Returns a short digest of the parameters, which is never zero. States that are written under these parameters
    /// carry it in [`Tat::digest`].
    #[inline]
    pub fn digest(&self) -> u16 {
        self.digest
    }

    /// Returns how much passes per period.
    pub fn count(&self) -> u64 {
        self.rate.count()
    }

    /// Returns the period in nanoseconds.
    pub fn period(&self) -> u64 {
        self.rate.period()
    }

    /// Creates a state that is written under these parameters, from a TAT in nanoseconds since the Unix epoch.
    #[inline]
    pub fn state(&self, nanos: u64, overdrawn: bool) -> Tat {
        Tat { at: Time::from_nanos(nanos), overdrawn, digest: self.digest }
    }

    /// Decides a charge. Returns the decision and the new state, which is `None` if the state does not change. The
    /// charge's key and limit are ignored.
    pub fn apply(&self, state: Tat, now: Time, charge: &Charge<'_>) -> (Decision, Option<Tat>) {
        self.decide_operation(state, now, &charge.operation)
    }
}

impl Decide for Flow {
    type State = Tat;

    fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    fn decide(&self, state: &mut Tat, now: Time, operation: &Operation) -> Decision {
        let (decision, next) = self.decide_operation(*state, now, operation);
        *state = next.unwrap_or(*state);
        decision
    }

    fn fresh_at(&self, state: &Tat) -> Time {
        state.at
    }

    fn to_words(state: &Tat) -> Vec<u64> {
        vec![state.at.nanos(), u64::from(state.overdrawn), state.digest.into()]
    }

    fn from_words(words: &[u64]) -> Option<Tat> {
        match *words {
            [at, overdrawn @ (0 | 1), digest] => Some(Tat {
                at: Time::from_nanos(at),
                overdrawn: overdrawn == 1,
                digest: u16::try_from(digest).ok()?,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::limit::{Limit, LimitBuilder};

    #[test]
    fn digests_never_change() {
        let digest = |limit: LimitBuilder| limit.build("api").expect("valid").parameters().digest;
        let limit = || Limit::per_second(10).burst(20);
        assert_eq!(digest(limit()), 1_193);
        assert_eq!(digest(limit().leaky_bucket()), 1_193);
        assert_eq!(digest(limit().gcra()), 1_193);
        assert_eq!(digest(Limit::per_second(10).queue(19)), 41_697);
        assert_eq!(digest(limit().smooth()), 51_258);
    }
}
