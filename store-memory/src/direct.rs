//! One limit without keys: no hashing, no table, a single atomic word.

use std::fmt;

use tollgate_core::store::{Flow, RawDecision, State};
use tollgate_core::{Charge, Clock, Decision, Limit, Outcome, StoreError, SystemClock, Time};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A rate limiter without keys, for one resource such as the outgoing calls of a whole process.
///
/// Every algorithm works. For buckets, queues, GCRA and smooth limiters a check is one compare-and-swap on one atomic
/// word; for the others it takes a lock.
///
/// ```
/// # mod tollgate { pub use tollgate_core::*; pub mod memory { pub use tollgate_store_memory::*; } }
/// use tollgate::Limit;
/// use tollgate::memory::DirectLimiter;
///
/// let outgoing = DirectLimiter::new(Limit::per_second(50).build("outgoing")?);
/// assert!(outgoing.check().is_allowed());
/// # Ok::<(), tollgate::LimitError>(())
/// ```
pub struct DirectLimiter<C = SystemClock> {
    limit: Limit,
    clock: C,
    storage: Storage,
}

enum Storage {
    /// The theoretical arrival time in nanoseconds, shifted left by one, and the overdrawn bit.
    Tat(CachePadded),
    State(Mutex<State>),
}

/// Cache lines of its own. Otherwise every update would invalidate the limit's parameters and the clock in the caches
/// of other threads. Two lines, because processors prefetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded(AtomicU64);

impl DirectLimiter {
    /// Creates a limiter on the system clock.
    pub fn new(limit: Limit) -> Self {
        Self::with_clock(limit, SystemClock::new())
    }
}

impl<C: Clock> DirectLimiter<C> {
    /// Creates a limiter on another clock.
    pub fn with_clock(limit: Limit, clock: C) -> Self {
        let storage = match limit.as_flow() {
            Some(_) => Storage::Tat(CachePadded::default()),
            None => Storage::State(Mutex::new(State::default())),
        };
        Self { limit, clock, storage }
    }

    /// Returns the limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Checks whether one unit is allowed, and takes it.
    ///
    /// On a concurrency limit it takes no slot, because nobody could release it: the outcome is
    /// [`NeverFits`](Outcome::NeverFits). [`charge`](Self::charge) with a lease takes one.
    #[inline]
    pub fn check(&self) -> Decision {
        self.decide(&self.limit.charge(NO_KEY))
    }

    /// Checks whether `cost` units are allowed, and takes them.
    #[inline]
    pub fn check_cost(&self, cost: u32) -> Decision {
        self.decide(&self.limit.charge(NO_KEY).with_cost(cost))
    }

    /// Decides any other charge. `configure` receives a take of cost 1 and returns the charge to decide. An error if
    /// the limit's algorithm does not support it, and if it would take a slot of a concurrency limit without a lease.
    pub fn charge(&self, configure: impl FnOnce(Charge<'_>) -> Charge<'_>) -> Result<Decision, StoreError> {
        let charge = configure(self.limit.charge(NO_KEY));
        charge.supported()?;
        charge.releasable()?;
        Ok(self.decide(&charge))
    }

    #[inline]
    fn decide(&self, charge: &Charge<'_>) -> Decision {
        match (&self.storage, self.limit.as_flow()) {
            (Storage::Tat(CachePadded(word)), Some(flow)) if flow.is_plain(charge) => {
                let now = self.clock.now();
                let mut seen = word.load(Ordering::Relaxed);
                loop {
                    let take = flow.take(tat(seen), now, charge.cost());
                    let Some(next) = take.next() else { return take.answer(flow, charge.cost()) };
                    let next = next.nanos() << 1;
                    match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                        Ok(_) => return take.answer(flow, charge.cost()),
                        Err(changed) => seen = changed,
                    }
                }
            }
            (Storage::Tat(CachePadded(word)), Some(flow)) => self.decide_slow(word, flow, charge),
            (Storage::State(state), _) if charge.takes_unreleasable_slot() => {
                let peeked = lock(state).apply(&charge.with_cost(0), self.clock.now()).raw();
                RawDecision { outcome: Outcome::NeverFits, wait: 0, ..peeked }.into()
            }
            (Storage::State(state), _) => lock(state).apply(charge, self.clock.now()),
            (Storage::Tat(_), None) => unreachable!("only limits with a flow have a TAT"),
        }
    }

    /// Decides any charge but a plain take on a TAT.
    #[inline(never)]
    fn decide_slow(&self, word: &AtomicU64, flow: &Flow, charge: &Charge<'_>) -> Decision {
        let now = self.clock.now();
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let (decision, next) =
                flow.apply(flow.state(tat(seen).nanos(), seen & OVERDRAWN != 0), now, charge);
            let Some(next) = next else { return decision };
            let next = next.at.nanos() << 1 | u64::from(next.overdrawn);
            match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return decision,
                Err(changed) => seen = changed,
            }
        }
    }
}

/// Shows the limit and the clock; the state may be a log of a hundred thousand entries.
impl<C: fmt::Debug> fmt::Debug for DirectLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectLimiter")
            .field("limit", &self.limit)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// The lowest bit of the word.
const OVERDRAWN: u64 = 1;

#[inline]
fn tat(word: u64) -> Time {
    Time::from_nanos(word >> 1)
}

/// The only key.
const NO_KEY: &[u8] = b"";
