//! Decisions on a request of several charges, all or nothing, without a call to the central store.

use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;
use tollgate_core::store::{RawDecision, State, Store, settle, state_indexes};
use tollgate_core::{Action, Charge, Clock, Decision, Outcome, Source, Time, Verdict};

use super::decide::{NotLocal, requires_central};
use super::entry::Entry;
use super::state::{LocalState, Prepared};
use super::table::{EntryTable, KeyHash, Shard};
use crate::config::LimitConfig;
use crate::node::Node;

impl<S: Store, C: Clock> Node<S, C> {
    /// Decides a request locally, all or nothing. `local_now` is by the local clock.
    pub(crate) fn decide_locally(
        &self,
        charges: &[Charge<'_>],
        local_now: Time,
    ) -> Result<Verdict, NotLocal> {
        let now = self.to_central(local_now);
        let (indexes, state_count) = state_indexes(charges);
        let hashes: SmallVec<[KeyHash; 4]> = charges.iter().map(|charge| self.table.hash(charge)).collect();
        let mut locked = LockedShards::new(&self.table, &hashes);
        if self.is_closed() || charges.iter().any(requires_central) {
            return Err(NotLocal::Central);
        }
        if self.staleness.is_suspect(local_now) && self.needs_task(local_now) {
            return Err(NotLocal::TaskStopped);
        }
        let mut positions: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        let mut configs: SmallVec<[Arc<LimitConfig>; 4]> = SmallVec::new();
        for (number, charge) in charges.iter().enumerate() {
            let unknown = NotLocal::UnknownKey(number);
            let position = locked.position(&self.table, hashes[number]);
            let shard = &mut locked.shards[position].1;
            let index = shard.find(hashes[number]).ok_or(unknown)?;
            let entry = shard.get(index).ok_or(unknown)?;
            if entry.config.limit != *charge.limit() {
                return Err(unknown);
            }
            configs.push(Arc::clone(&entry.config));
            positions.push((position, index));
        }
        let mut request = LockedRequest {
            locked: &mut locked,
            charges,
            indexes: &indexes,
            state_count,
            positions: &positions,
            configs: &configs,
            now,
        };
        let verdict = request.decide(|config| self.is_stale(config, local_now))?;
        for ((position, index), config) in positions.iter().zip(&configs) {
            let shard = &mut locked.shards[*position].1;
            let is_due = |entry: &mut Entry| {
                self.is_stale(&entry.config, local_now)
                    || entry.state.needs_sync(&entry.config, now)
                    || (verdict.is_denied() && entry.is_outdated(now))
            };
            if shard.get(*index).is_some_and(is_due) {
                self.staleness.made_due(config, local_now);
                shard.make_due(*index);
            }
        }
        drop(locked);
        for (charge, decision) in charges.iter().zip(verdict.decisions()) {
            self.report_fallback(charge, decision);
        }
        Ok(verdict)
    }
}

/// The shards of a request, locked in ascending order.
struct LockedShards<'t> {
    shards: SmallVec<[(usize, MutexGuard<'t, Shard>); 4]>,
}

impl<'t> LockedShards<'t> {
    fn new(table: &'t EntryTable, hashes: &[KeyHash]) -> Self {
        let mut order: SmallVec<[usize; 4]> = hashes.iter().map(|hash| table.shard_of(*hash)).collect();
        order.sort_unstable();
        order.dedup();
        Self { shards: order.into_iter().map(|number| (number, table.lock(number))).collect() }
    }

    /// Returns the position of a key's shard among the locked ones.
    fn position(&self, table: &EntryTable, hash: KeyHash) -> usize {
        let number = table.shard_of(hash);
        self.shards.iter().position(|(known, _)| *known == number).unwrap_or_default()
    }
}

/// A request, with the locked entries of its charges.
struct LockedRequest<'r, 't, 'c> {
    locked: &'r mut LockedShards<'t>,
    charges: &'r [Charge<'c>],
    indexes: &'r [usize],
    state_count: usize,
    /// The shard, among the locked ones, and the index of each charge's entry.
    positions: &'r [(usize, usize)],
    configs: &'r [Arc<LimitConfig>],
    now: Time,
}

/// A charge on its way to a decision.
struct Item<'a> {
    /// What its replica decides, which may be a part of it.
    charge: Charge<'a>,
    decision: Option<Decision>,
    /// The decision is a fallback.
    fallback: bool,
    /// How many leased tokens were drawn for it, if a lease decided it.
    drawn: Option<u32>,
}

impl<'r> LockedRequest<'r, '_, '_> {
    fn state(&mut self, charge: usize) -> Option<&mut LocalState> {
        let (position, index) = self.positions[charge];
        self.locked.shards[position].1.get(index).map(|entry| &mut entry.state)
    }

    /// Decides all charges. If one is denied, nothing is taken.
    fn decide(&mut self, stale: impl Fn(&LimitConfig) -> bool) -> Result<Verdict, NotLocal> {
        let mut items: SmallVec<[Item<'r>; 4]> = SmallVec::new();
        let mut not_local = None;
        for (number, charge) in self.charges.iter().enumerate() {
            let (configs, now) = (self.configs, self.now);
            let config = &configs[number];
            let state = self.state(number).ok_or(NotLocal::Central)?;
            let (prepared, fallback) = state.prepare(charge, config, now, stale(config));
            let mut item = Item { charge: *charge, decision: None, fallback, drawn: None };
            match prepared {
                Prepared::Replica(part) => item.charge = part,
                Prepared::Denied(denial) => item.decision = Some(denial),
                Prepared::Drawn(decision) => {
                    (item.decision, item.drawn) = (Some(decision), Some(decision.granted()));
                }
                Prepared::NotLocal(NotLocal::NeedsTokens(_)) => {
                    not_local = not_local.or(Some(NotLocal::NeedsTokens(number)));
                }
                Prepared::NotLocal(reason) => not_local = Some(reason),
            }
            items.push(item);
        }
        let denied = items.iter().filter_map(|item| item.decision).any(|decision| decision.is_denied());
        if let (Some(reason), false) = (not_local, denied) {
            self.put_back(&items);
            return Err(reason);
        }
        let allowed = self.settle_replicas(&mut items, denied);
        if !allowed {
            self.put_back(&items);
            for item in items.iter_mut().filter(|item| item.drawn.is_some()) {
                item.decision = item.decision.map(undrawn);
            }
        }
        let decisions = items.iter().zip(self.charges).map(|(item, charge)| {
            // A lease without enough tokens has no decision on a request that another charge stops.
            let unknown = || RawDecision::allow(&charge.with_cost(0), Source::Store).into();
            let decision = item.decision.unwrap_or_else(unknown);
            if item.fallback && decision.source() == Source::Store {
                decision.raw().with_source(Source::Fallback).into()
            } else {
                decision
            }
        });
        Ok(Verdict::new(decisions, self.now))
    }

    /// Decides the charges of replicas together, as the pure function does. If the request is denied already, their
    /// states stay as they are. Returns whether the request is allowed.
    fn settle_replicas(&mut self, items: &mut [Item<'r>], denied: bool) -> bool {
        let now = self.now;
        let mut numbers: SmallVec<[usize; 4]> = SmallVec::new();
        let mut states: SmallVec<[State; 4]> = SmallVec::from_elem(State::default(), self.state_count);
        for (number, item) in items.iter().enumerate() {
            if item.decision.is_none()
                && let Some(state) = self.state(number).and_then(|state| state.replica_state())
            {
                states[self.indexes[number]] = state;
                numbers.push(number);
            }
        }
        if numbers.is_empty() {
            return !denied;
        }
        let charges: SmallVec<[Charge<'_>; 4]> = numbers.iter().map(|number| items[*number].charge).collect();
        let indexes: SmallVec<[usize; 4]> = numbers.iter().map(|number| self.indexes[*number]).collect();
        let before = denied.then(|| states.clone());
        let verdict = settle(&charges, &indexes, &mut states, now);
        for (number, decision) in numbers.iter().zip(verdict.decisions()) {
            let (item, index) = (&mut items[*number], self.indexes[*number]);
            if let Some(before) = &before {
                item.decision = Some(stopped(decision, before[index].clone(), &item.charge, now));
                continue;
            }
            item.decision = Some(*decision);
            let configs = self.configs;
            let Some(state) = self.state(*number) else { continue };
            state.set_replica_state(states[index].clone());
            if verdict.is_allowed() {
                state.record(&item.charge, decision, &configs[*number], now);
            }
        }
        !denied && verdict.is_allowed()
    }

    fn put_back(&mut self, items: &[Item<'_>]) {
        for (number, item) in items.iter().enumerate() {
            if let (Some(tokens), Some(state)) = (item.drawn, self.state(number)) {
                state.put_back(tokens);
            }
        }
    }
}

/// Returns the decision on a charge that fits, but that another charge stops: what remains.
fn stopped(decision: &Decision, mut state: State, charge: &Charge<'_>, now: Time) -> Decision {
    if decision.is_denied() {
        return *decision;
    }
    let peek = state.apply(&charge.with_cost(0).with_action(Action::Take { max_wait: None }), now).raw();
    RawDecision { outcome: Outcome::Allowed, granted: 0, wait: decision.raw().wait, ..peek }.into()
}

/// Returns the same for leased tokens that were put back.
fn undrawn(decision: Decision) -> Decision {
    if decision.is_denied() {
        return decision;
    }
    let raw = decision.raw();
    let left = raw.left.saturating_add(raw.granted.into());
    RawDecision { outcome: Outcome::Allowed, granted: 0, left, ..raw }.into()
}
