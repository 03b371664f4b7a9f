//! One limit without keys: no hashing, no table, a single word.

use tollgate_core::store::{Flow, State};
use tollgate_core::{Charge, Clock, Decision, Limit, StoreError, SystemClock, Time};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A limiter for one thing, such as a whole process's calls to another service.
///
/// ```
/// use tollgate_core::Limit;
/// use tollgate_store_memory::DirectLimiter;
///
/// let outgoing = DirectLimiter::new(Limit::per_second(50).build("outgoing")?);
/// assert!(outgoing.check().is_allowed());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug)]
pub struct DirectLimiter<C = SystemClock> {
    limit: Limit,
    clock: C,
    cell: Cell,
}

#[derive(Debug)]
enum Cell {
    /// When the flow is full again, and whether it is overdrawn.
    Word(Apart),
    State(Mutex<State>),
}

/// On cache lines of its own, or every change would take the limit's numbers and the clock away from the other
/// threads. Two lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

impl DirectLimiter {
    /// A limiter of `limit`, by the machine's clock.
    pub fn new(limit: Limit) -> Self {
        Self::with_clock(limit, SystemClock::new())
    }
}

impl<C: Clock> DirectLimiter<C> {
    /// A limiter of `limit`, by `clock`.
    pub fn with_clock(limit: Limit, clock: C) -> Self {
        let cell = match limit.as_flow() {
            Some(_) => Cell::Word(Apart::default()),
            None => Cell::State(Mutex::new(State::default())),
        };
        Self { limit, clock, cell }
    }

    /// The limit.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// May one pass?
    #[inline]
    pub fn check(&self) -> Decision {
        self.decide(&self.limit.charge(NOBODY))
    }

    /// May `cost` pass?
    #[inline]
    pub fn check_cost(&self, cost: u32) -> Decision {
        self.decide(&self.limit.charge(NOBODY).with_cost(cost))
    }

    /// Any other charge: `with` gets one of cost 1 to change.
    pub fn charge(&self, with: impl FnOnce(Charge<'_>) -> Charge<'_>) -> Result<Decision, StoreError> {
        let charge = with(self.limit.charge(NOBODY));
        charge.supported()?;
        Ok(self.decide(&charge))
    }

    #[inline]
    fn decide(&self, charge: &Charge<'_>) -> Decision {
        match (&self.cell, self.limit.as_flow()) {
            (Cell::Word(Apart(word)), Some(flow)) if flow.is_plain(charge) => {
                let now = self.clock.now();
                let mut seen = word.load(Ordering::Relaxed);
                loop {
                    let take = flow.take(at(seen), now, charge.cost());
                    let Some(next) = take.next() else { return take.answer(flow, charge.cost()) };
                    let next = next.nanos() << 1;
                    match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                        Ok(_) => return take.answer(flow, charge.cost()),
                        Err(changed) => seen = changed,
                    }
                }
            }
            (Cell::Word(Apart(word)), Some(flow)) => self.decide_other(word, flow, charge),
            (Cell::State(state), _) => lock(state).apply(charge, self.clock.now()),
            (Cell::Word(_), None) => unreachable!("a word is made for flows only"),
        }
    }

    /// Anything but a plain take.
    #[inline(never)]
    fn decide_other(&self, word: &AtomicU64, flow: &Flow, charge: &Charge<'_>) -> Decision {
        let now = self.clock.now();
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let (decision, next) =
                flow.apply(flow.state(at(seen).nanos(), seen & OVERDRAWN != 0), now, charge);
            let Some(next) = next else { return decision };
            let next = next.at.nanos() << 1 | u64::from(next.overdrawn);
            match word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return decision,
                Err(changed) => seen = changed,
            }
        }
    }
}

/// The mark beside the instant.
const OVERDRAWN: u64 = 1;

#[inline]
fn at(word: u64) -> Time {
    Time::from_nanos(word >> 1)
}

/// There is only one thing to count for.
const NOBODY: &[u8] = b"";
