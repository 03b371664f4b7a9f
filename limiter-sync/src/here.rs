//! Deciding a single charge here, without asking anybody.

use std::sync::atomic::Ordering;

use tollgate_core::store::Store;
use tollgate_core::{Action, Charge, Clock, Decision, Event, FallbackReason, Source};

use crate::pool::Drawn;
use crate::shared::Shared;
use crate::table::Ledger;

/// What keeps a request from being decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing is known of this charge's key, or only under other numbers.
    Replica(usize),
    /// This charge needs more tokens than are leased.
    Tokens(usize),
    /// This is for the centre to decide.
    Centre,
    /// The task that exchanges is gone, and should be started again.
    Task,
}

/// Whether a charge is the centre's to decide, whatever its limit: what forgets a key must count everywhere, and what is promised
/// for later must not be promised by somebody else as well.
pub(crate) fn is_centres(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Reset | Action::Take { max_wait: Some(_) })
}

impl<S: Store, C: Clock> Shared<S, C> {
    /// Decides a single charge, if everything for it is here. What nearly every call does, and nothing else.
    #[inline]
    pub(crate) fn decide_one_here(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
        again: bool,
    ) -> Result<Decision, Missing> {
        let print = self.table.print(charge);
        let plain = charge.limit().as_flow().filter(|flow| flow.is_plain(charge));
        // Nothing is read from memory behind the lock yet that the clock could hold up.
        let now = self.to_centre(clock.now());
        let mut shard = self.table.lock(self.table.shard_of(print));
        // Under the lock: whoever closes looks at each shard afterwards.
        if self.is_closed() || is_centres(charge) {
            return Err(Missing::Centre);
        }
        let index = shard.find(print).ok_or(Missing::Replica(0))?;
        let replica = shard.get(index).ok_or(Missing::Replica(0))?;
        if replica.tracked.limit != *charge.limit() {
            return Err(Missing::Replica(0));
        }
        if self.lacks_task() {
            return Err(Missing::Task);
        }
        let stale = self.is_stale(&replica.tracked, now);
        if let (false, Ledger::Mirror(mirror), Some(flow)) = (stale, &mut replica.ledger, plain)
            && let Some(take) = mirror.take(flow, charge.cost(), &replica.tracked, now)
        {
            if take.next().is_some() || replica.may_have_changed(now) {
                shard.make_due(index);
            }
            drop(shard);
            // What the caller is told is worked out while others may go on.
            return Ok(take.answer(flow, charge.cost()));
        }
        let decision = match &mut replica.ledger {
            Ledger::Mirror(mirror) if stale => mirror.decide_stale(charge, &replica.tracked, now),
            Ledger::Mirror(mirror) => mirror.decide(charge, &replica.tracked, now),
            Ledger::Pool(pool) if !pool.decides(charge) => return Err(Missing::Centre),
            Ledger::Pool(pool) => {
                let drawn = if again { pool.redraw(charge, now) } else { pool.draw(charge, now) };
                match drawn {
                    Drawn::Decided(decision) => decision,
                    Drawn::Lacking => return Err(Missing::Tokens(0)),
                }
            }
        };
        // Somebody has to find out that the centre is back.
        let worth_a_look = decision.is_denied() && replica.may_have_changed(now);
        if stale || worth_a_look || replica.wants_exchange() {
            shard.make_due(index);
        }
        if stale {
            drop(shard);
            self.fell_back(charge, &decision);
        }
        Ok(decision)
    }

    /// Says that a charge was decided while the centre was silent.
    #[cold]
    pub(crate) fn fell_back(&self, charge: &Charge<'_>, decision: &Decision) {
        if decision.source() == Source::Store {
            return;
        }
        self.counters.stale();
        if let Some(observer) = &self.observer {
            let (limit, reason) = (charge.limit().name(), FallbackReason::Stale);
            observer.observe(Event::FellBack { limit, reason, decision });
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}
