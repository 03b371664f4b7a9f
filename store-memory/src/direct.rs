//! One limit without keys: no hashing, no table, a single word.

use tollgate_core::{Charge, Clock, Decision, Flow, Limit, State, StoreError, SystemClock, Time};

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
    Word(AtomicU64),
    State(Mutex<State>),
}

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
            Some(_) => Cell::Word(AtomicU64::new(0)),
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
        self.decide(&self.limit.charge(NOBODY).cost(cost))
    }

    /// Any other charge: `with` gets one of cost 1 to change.
    pub fn charge(&self, with: impl FnOnce(Charge<'_>) -> Charge<'_>) -> Result<Decision, StoreError> {
        let charge = with(self.limit.charge(NOBODY));
        charge.supported()?;
        Ok(self.decide(&charge))
    }

    #[inline]
    fn decide(&self, charge: &Charge<'_>) -> Decision {
        let now = self.clock.now();
        match (&self.cell, self.limit.as_flow()) {
            (Cell::Word(word), Some(flow)) => {
                let mut seen = word.load(Ordering::Relaxed);
                if flow.is_plain(charge) && seen & 1 == 0 {
                    let take = flow.take(Time::from_nanos(seen >> 1), now, charge.get_cost());
                    let Some(next) = take.next() else { return take.answer(flow, charge.get_cost()) };
                    match word.compare_exchange(seen, next.nanos() << 1, Ordering::AcqRel, Ordering::Relaxed)
                    {
                        Ok(_) => return take.answer(flow, charge.get_cost()),
                        Err(changed) => seen = changed,
                    }
                }
                Self::decide_again(word, seen, flow, charge, now)
            }
            (Cell::State(state), _) => lock(state).apply(charge, now),
            (Cell::Word(_), None) => unreachable!("a word is made for flows only"),
        }
    }
}

impl<C> DirectLimiter<C> {
    /// Anything but a plain take, or somebody else was faster.
    #[inline(never)]
    fn decide_again(
        word: &AtomicU64,
        mut seen: u64,
        flow: &Flow,
        charge: &Charge<'_>,
        now: Time,
    ) -> Decision {
        loop {
            let (decision, next) = flow.apply(flow.state(seen >> 1, seen & 1 != 0), now, charge);
            let Some(next) = next else { return decision };
            let next = next.at.nanos() << 1 | u64::from(next.overdrawn);
            match word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return decision,
                Err(changed) => seen = changed,
            }
        }
    }
}

/// There is only one thing to count for.
const NOBODY: &[u8] = b"";
