//! Deciding a request of several charges here, all or nothing, without asking anybody.

use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;
use tollgate_core::store::{RawDecision, State, Store, settle, slots};
use tollgate_core::{Action, Charge, Clock, Decision, Outcome, Source, Time, Verdict};

use crate::here::{Missing, is_centres};
use crate::mirror::{deny, takes};
use crate::pool::Drawn;
use crate::shared::Shared;
use crate::table::{Ledger, Print, Replica, Shard};
use crate::terms::{Tracked, WhenStale};

impl<S: Store, C: Clock> Shared<S, C> {
    /// Decides several charges, all or nothing.
    pub(crate) fn decide_here(&self, charges: &[Charge<'_>], now: Time) -> Result<Verdict, Missing> {
        let now = self.to_centre(now);
        let (slots, count) = slots(charges);
        let prints: SmallVec<[Print; 4]> = charges.iter().map(|charge| self.table.print(charge)).collect();
        let mut held = Held::new(self, &prints);
        if self.is_closed() || charges.iter().any(is_centres) {
            return Err(Missing::Centre);
        }
        if self.lacks_task() {
            return Err(Missing::Task);
        }
        let mut places: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        let mut tracked: SmallVec<[Arc<Tracked>; 4]> = SmallVec::new();
        for (number, charge) in charges.iter().enumerate() {
            let shard = held.shard_of(self, prints[number]);
            let index = held.shards[shard].1.find(prints[number]).ok_or(Missing::Replica(number))?;
            let replica = held.shards[shard].1.get(index).ok_or(Missing::Replica(number))?;
            if replica.tracked.limit != *charge.limit() {
                return Err(Missing::Replica(number));
            }
            tracked.push(Arc::clone(&replica.tracked));
            places.push((shard, index));
        }
        let mut settling = Settling { held: &mut held, charges, slots: &slots, count, places: &places, now };
        let verdict = settling.settle(&tracked, |tracked| self.is_stale(tracked, now))?;
        for (shard, index) in &places {
            let shard = &mut held.shards[*shard].1;
            let is_due = |replica: &mut Replica| {
                self.is_stale(&replica.tracked, now)
                    || replica.wants_exchange()
                    || (verdict.is_denied() && replica.may_have_changed(now))
            };
            if shard.get(*index).is_some_and(is_due) {
                shard.make_due(*index);
            }
        }
        drop(held);
        for (charge, decision) in charges.iter().zip(verdict.decisions()) {
            self.fell_back(charge, decision);
        }
        Ok(verdict)
    }
}

/// The shards of a request, locked in one order.
struct Held<'s> {
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

impl<'s> Held<'s> {
    fn new<S: Store, C: Clock>(shared: &'s Shared<S, C>, prints: &[Print]) -> Self {
        let mut order: SmallVec<[usize; 4]> =
            prints.iter().map(|print| shared.table.shard_of(*print)).collect();
        order.sort_unstable();
        order.dedup();
        Self { shards: order.into_iter().map(|number| (number, shared.table.lock(number))).collect() }
    }

    fn shard_of<S: Store, C: Clock>(&self, shared: &Shared<S, C>, print: Print) -> usize {
        let number = shared.table.shard_of(print);
        self.shards.iter().position(|(known, _)| *known == number).unwrap_or_default()
    }
}

/// A request, with everything that it touches.
struct Settling<'r, 's, 'c> {
    held: &'r mut Held<'s>,
    charges: &'r [Charge<'c>],
    slots: &'r [usize],
    count: usize,
    places: &'r [(usize, usize)],
    now: Time,
}

impl Settling<'_, '_, '_> {
    fn ledger(&mut self, charge: usize) -> Option<&mut Ledger> {
        let (shard, index) = self.places[charge];
        self.held.shards[shard].1.get(index).map(|replica| &mut replica.ledger)
    }

    /// All of them pass, or nothing is taken.
    fn settle(
        &mut self,
        tracked: &[Arc<Tracked>],
        stale: impl Fn(&Tracked) -> bool,
    ) -> Result<Verdict, Missing> {
        let now = self.now;
        let mut told: SmallVec<[Option<Decision>; 4]> = SmallVec::from_elem(None, self.charges.len());
        let mut asked: SmallVec<[Charge<'_>; 4]> = SmallVec::from_slice(self.charges);
        let mut fallback: SmallVec<[bool; 4]> = SmallVec::from_elem(false, self.charges.len());
        let mut drawn: SmallVec<[(usize, u32); 4]> = SmallVec::new();
        let mut missing = None;
        for (number, tracked) in tracked.iter().enumerate() {
            let charge = self.charges[number];
            match self.ledger(number).ok_or(Missing::Centre)? {
                Ledger::Mirror(mirror) => {
                    fallback[number] = stale(tracked);
                    let policy =
                        if fallback[number] && takes(&charge) { tracked.when_stale } else { WhenStale::GoOn };
                    match (policy, &tracked.shrunk) {
                        (WhenStale::GoOn, _) => match mirror.within_share(&charge, tracked, now) {
                            Ok(part) => asked[number] = part,
                            Err(denial) => told[number] = Some(denial),
                        },
                        (WhenStale::Shrink { .. }, Some(shrunk)) => asked[number] = charge.with_limit(shrunk),
                        _ => told[number] = Some(deny(&charge, tracked)),
                    }
                }
                Ledger::Pool(pool) if !pool.decides(&charge) => missing = Some(Missing::Centre),
                Ledger::Pool(pool) => match pool.draw(&charge, now) {
                    Drawn::Decided(decision) => {
                        drawn.push((number, decision.granted()));
                        told[number] = Some(decision);
                    }
                    Drawn::Lacking => missing = missing.or(Some(Missing::Tokens(number))),
                },
            }
        }
        let refused = told.iter().flatten().any(Decision::is_denied);
        if let (Some(missing), false) = (missing, refused) {
            self.put_back(&drawn);
            return Err(missing);
        }
        let passed = self.settle_mirrors(tracked, &asked, &mut told, refused);
        if !passed {
            self.put_back(&drawn);
            for (number, _) in &drawn {
                told[*number] = told[*number].map(undrawn);
            }
        }
        let decisions = told.into_iter().zip(fallback).zip(self.charges).map(|((told, fallback), charge)| {
            // A pool that lacks something has nothing to say about a request that another charge stops.
            let told = told.unwrap_or_else(|| RawDecision::allow(&charge.with_cost(0), Source::Store).into());
            if fallback && told.source() == Source::Store {
                told.raw().with_source(Source::Fallback).into()
            } else {
                told
            }
        });
        Ok(Verdict::new(decisions, now))
    }

    /// Settles the charges that mirrors decide, among each other, as the pure function does; what is refused already changes
    /// nothing. Whether all of it passes.
    fn settle_mirrors(
        &mut self,
        tracked: &[Arc<Tracked>],
        asked: &[Charge<'_>],
        told: &mut [Option<Decision>],
        refused: bool,
    ) -> bool {
        let now = self.now;
        let mut numbers: SmallVec<[usize; 4]> = SmallVec::new();
        let mut states: SmallVec<[State; 4]> = SmallVec::from_elem(State::default(), self.count);
        for (number, told) in told.iter().enumerate() {
            if let (None, Some(Ledger::Mirror(mirror))) = (told, self.ledger(number)) {
                states[self.slots[number]] = mirror.state();
                numbers.push(number);
            }
        }
        if numbers.is_empty() {
            return !refused;
        }
        let charges: SmallVec<[Charge<'_>; 4]> = numbers.iter().map(|number| asked[*number]).collect();
        let slots: SmallVec<[usize; 4]> = numbers.iter().map(|number| self.slots[*number]).collect();
        let before = refused.then(|| states.clone());
        let verdict = settle(&charges, &slots, &mut states, now);
        for (number, decision) in numbers.iter().zip(verdict.decisions()) {
            if let Some(before) = &before {
                let mut state = before[self.slots[*number]].clone();
                told[*number] = Some(stopped(decision, &mut state, &asked[*number], now));
                continue;
            }
            told[*number] = Some(*decision);
            let state = states[self.slots[*number]].clone();
            let Some(Ledger::Mirror(mirror)) = self.ledger(*number) else { continue };
            mirror.set_state(state);
            if verdict.is_allowed() {
                mirror.note(&asked[*number], decision, &tracked[*number], now);
            }
        }
        !refused && verdict.is_allowed()
    }

    fn put_back(&mut self, drawn: &[(usize, u32)]) {
        for (number, tokens) in drawn {
            if let Some(Ledger::Pool(pool)) = self.ledger(*number) {
                pool.put_back(*tokens);
            }
        }
    }
}

/// What is told of a charge that had room, but was stopped by another: what is there.
fn stopped(decision: &Decision, state: &mut State, charge: &Charge<'_>, now: Time) -> Decision {
    if decision.is_denied() {
        return *decision;
    }
    let there = state.apply(&charge.with_cost(0).with_action(Action::Take { max_wait: None }), now).raw();
    RawDecision { outcome: Outcome::Allowed, granted: 0, wait: decision.raw().wait, ..there }.into()
}

/// The same of tokens that were drawn from a pool and put back.
fn undrawn(decision: Decision) -> Decision {
    if decision.is_denied() {
        return decision;
    }
    let raw = decision.raw();
    let left = raw.left.saturating_add(raw.granted.into());
    RawDecision { outcome: Outcome::Allowed, granted: 0, left, ..raw }.into()
}
