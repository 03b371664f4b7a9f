//! Deciding here, without asking anybody.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_core::{
    Charge, Clock, Decision, Event, FallbackReason, Outcome, RawDecision, Source, State, Store, Time,
    Verdict, settle, slots,
};

use crate::copy::deny;
use crate::pool::{Drawn, Pool};
use crate::shared::Shared;
use crate::table::{Ledger, Shard};
use crate::terms::WhenStale;

/// What keeps a request from being decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing is known of this charge's key, or only under other numbers.
    Replica(usize),
    /// This charge needs more tokens than are leased.
    Tokens(usize),
    /// This is for the centre to decide.
    Centre,
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
        let hash = self.table.hash(charge);
        // Nothing is read from memory behind the lock yet that the clock could hold up.
        let now = self.to_centre(clock.now());
        let mut shard = self.table.lock(self.table.shard_of(hash));
        let index = shard.find(hash, charge.limit().id(), charge.key()).ok_or(Missing::Replica(0))?;
        let replica = shard.get(index).ok_or(Missing::Replica(0))?;
        if replica.tracked.limit != *charge.limit() {
            return Err(Missing::Replica(0));
        }
        let stale = self.is_stale(&replica.tracked, now);
        let decision = match &mut replica.ledger {
            Ledger::Copy(copy) if stale => copy.decide_stale(charge, &replica.tracked, now),
            Ledger::Copy(copy) => copy.decide(charge, &replica.tracked, now),
            Ledger::Pool(pool) if !Pool::decides(charge) => {
                let _ = pool;
                return Err(Missing::Centre);
            }
            Ledger::Pool(pool) => match if again { pool.redraw(charge, now) } else { pool.draw(charge, now) }
            {
                Drawn::Decided(decision) => decision,
                Drawn::Lacking => return Err(Missing::Tokens(0)),
            },
        };
        if decision.granted() > 0 || matches!(replica.ledger, Ledger::Pool(_)) {
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
    fn fell_back(&self, charge: &Charge<'_>, decision: &Decision) {
        if decision.source() == Source::Store {
            return;
        }
        self.counters.stale();
        if let Some(observer) = &self.observer {
            let (limit, reason) = (charge.limit().name(), FallbackReason::Stale);
            observer.observe(Event::FellBack { limit, reason, decision });
        }
    }

    /// Decides several charges, all or nothing.
    pub(crate) fn decide_here(&self, charges: &[Charge<'_>], now: Time) -> Result<Verdict, Missing> {
        let now = self.to_centre(now);
        let (slots, count) = slots(charges);
        let hashes: SmallVec<[u64; 4]> = charges.iter().map(|charge| self.table.hash(charge)).collect();
        let mut held = Held::new(self, &hashes);
        let mut places: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (number, charge) in charges.iter().enumerate() {
            let shard = held.shard_of(self, hashes[number]);
            let index = held.shards[shard]
                .1
                .find(hashes[number], charge.limit().id(), charge.key())
                .ok_or(Missing::Replica(number))?;
            let replica = held.shards[shard].1.get(index).ok_or(Missing::Replica(number))?;
            if replica.tracked.limit != *charge.limit() {
                return Err(Missing::Replica(number));
            }
            places.push((shard, index));
        }
        let verdict = Settling { held: &mut held, charges, slots: &slots, count, places: &places, now }
            .settle(|tracked| self.is_stale(tracked, now))?;
        for ((shard, index), decision) in places.iter().zip(verdict.decisions()) {
            if verdict.is_allowed() && decision.granted() > 0 {
                held.shards[*shard].1.make_due(*index);
            }
        }
        drop(held);
        for (charge, decision) in charges.iter().zip(verdict.decisions()) {
            self.fell_back(charge, decision);
        }
        Ok(verdict)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// The shards of a request, locked in one order.
struct Held<'s> {
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

impl<'s> Held<'s> {
    fn new<S: Store, C: Clock>(shared: &'s Shared<S, C>, hashes: &[u64]) -> Self {
        let mut order: SmallVec<[usize; 4]> =
            hashes.iter().map(|hash| shared.table.shard_of(*hash)).collect();
        order.sort_unstable();
        order.dedup();
        Self { shards: order.into_iter().map(|number| (number, shared.table.lock(number))).collect() }
    }

    fn shard_of<S: Store, C: Clock>(&self, shared: &Shared<S, C>, hash: u64) -> usize {
        let number = shared.table.shard_of(hash);
        self.shards.iter().position(|(known, _)| *known == number).unwrap_or_default()
    }
}

/// A request of several charges, with everything that it touches.
struct Settling<'r, 's, 'c> {
    held: &'r mut Held<'s>,
    charges: &'r [Charge<'c>],
    slots: &'r [usize],
    count: usize,
    places: &'r [(usize, usize)],
    now: Time,
}

impl Settling<'_, '_, '_> {
    fn ledger(&mut self, charge: usize) -> Option<(&mut Ledger, std::sync::Arc<crate::terms::Tracked>)> {
        let (shard, index) = self.places[charge];
        let replica = self.held.shards[shard].1.get(index)?;
        let tracked = std::sync::Arc::clone(&replica.tracked);
        Some((&mut replica.ledger, tracked))
    }

    /// All of them pass, or nothing is taken.
    fn settle(mut self, stale: impl Fn(&crate::terms::Tracked) -> bool) -> Result<Verdict, Missing> {
        let mut told: SmallVec<[Option<Decision>; 4]> = SmallVec::from_elem(None, self.charges.len());
        let mut drawn: SmallVec<[(usize, u32); 4]> = SmallVec::new();
        let mut asked: SmallVec<[Charge<'_>; 4]> = SmallVec::from_slice(self.charges);
        let (mut refused, mut fallback, mut missing, now) = (false, false, None, self.now);
        for number in 0..self.charges.len() {
            let charge = self.charges[number];
            let Some((ledger, tracked)) = self.ledger(number) else { return Err(Missing::Centre) };
            let told = &mut told[number];
            match ledger {
                Ledger::Copy(copy) => {
                    if stale(&tracked) {
                        fallback = true;
                        match (tracked.when_stale, &tracked.shrunk) {
                            (WhenStale::GoOn, _) => {}
                            (WhenStale::Shrink { .. }, Some(_)) => {}
                            _ => *told = Some(deny(&charge, &tracked)),
                        }
                    }
                    match copy.within_share(&charge, &tracked, now) {
                        Ok(part) => asked[number] = part,
                        Err(denial) => *told = Some(told.unwrap_or(denial)),
                    }
                }
                Ledger::Pool(_) if !Pool::decides(&charge) => missing = Some(Missing::Centre),
                Ledger::Pool(pool) => match pool.draw(&charge, now) {
                    Drawn::Decided(decision) => {
                        if decision.is_allowed() {
                            drawn.push((number, decision.granted()));
                        }
                        *told = Some(decision);
                    }
                    Drawn::Lacking => missing = missing.or(Some(Missing::Tokens(number))),
                },
            }
            refused |= told.is_some_and(|decision| decision.is_denied());
        }
        if let (Some(missing), false) = (missing, refused) {
            self.put_back(&drawn);
            return Err(missing);
        }
        let verdict = if refused { None } else { Some(self.settle_copies(&asked, &mut told, fallback)) };
        if refused || verdict.is_some_and(|allowed| !allowed) {
            self.put_back(&drawn);
            self.untaken(&mut told);
        }
        let told = told.into_iter().zip(self.charges);
        Ok(Verdict::new(
            told.map(|(told, charge)| {
                told.unwrap_or_else(|| Decision::passing(&charge.cost(0), Source::Store))
            }),
            now,
        ))
    }

    /// Settles the charges that copies decide, among each other, as the pure function does. Whether they pass.
    fn settle_copies(&mut self, asked: &[Charge<'_>], told: &mut [Option<Decision>], fallback: bool) -> bool {
        let now = self.now;
        let mut numbers: SmallVec<[usize; 4]> = SmallVec::new();
        let mut states: SmallVec<[State; 4]> = SmallVec::from_elem(State::default(), self.count);
        for number in 0..asked.len() {
            if let Some((Ledger::Copy(copy), _)) = self.ledger(number) {
                states[self.slots[number]] = copy.state().clone();
                numbers.push(number);
            }
        }
        let charges: SmallVec<[Charge<'_>; 4]> = numbers.iter().map(|number| asked[*number]).collect();
        let slots: SmallVec<[usize; 4]> = numbers.iter().map(|number| self.slots[*number]).collect();
        if charges.is_empty() {
            return true;
        }
        let verdict = settle(&charges, &slots, &mut states, now);
        for (number, decision) in numbers.iter().zip(verdict.decisions()) {
            let state = states[self.slots[*number]].clone();
            let Some((Ledger::Copy(copy), tracked)) = self.ledger(*number) else { continue };
            copy.set_state(state);
            if verdict.is_allowed() {
                copy.note(&asked[*number], decision, &tracked, now);
            }
            let source = if fallback { Source::Fallback } else { Source::Store };
            told[*number] = Some(decision.made_by(source));
        }
        verdict.is_allowed()
    }

    fn put_back(&mut self, drawn: &[(usize, u32)]) {
        for (number, tokens) in drawn {
            if let Some((Ledger::Pool(pool), _)) = self.ledger(*number) {
                pool.put_back(*tokens);
            }
        }
    }

    /// What had room but was stopped by another.
    fn untaken(&mut self, told: &mut [Option<Decision>]) {
        for decision in told.iter_mut().flatten() {
            if decision.is_allowed() && decision.granted() > 0 {
                let raw = decision.raw();
                let left = raw.left + i64::from(raw.granted) * i64::try_from(raw.unit).unwrap_or(i64::MAX);
                *decision = RawDecision { outcome: Outcome::Allowed, granted: 0, left, ..raw }.into();
            }
        }
    }
}
