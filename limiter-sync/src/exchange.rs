//! Tells the centre what was granted here, and takes back what there is.
//!
//! What one key owes travels as a parcel; parcels that the centre handles in one call make a shipment, under one operation id.
//! A shipment that has no answer is sent again as it is, with its id, until it has one: so nothing is lost, and nothing is
//! booked twice as long as the centre remembers the id. What the key owes meanwhile waits for the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_core::store::{Export, Run, State, Store};
use tollgate_core::{
    Action, Charge, Clock, Effect, ErrorKind, Event, IdempotencyKey, Request, StoreError, Time, Verdict,
};

use crate::mirror::Told;
use crate::owed::{Entry, Owed};
use crate::pool::Upkeep;
use crate::shared::{Shared, is_centres_own, lock};
use crate::table::{Ledger, Place, Replica, Whom};
use crate::terms::Tracked;

/// Charges in one call of the centre: enough to make the price of each small, and few enough for any store.
const MOST_CHARGES: usize = 250;
/// Calls of the centre at a time: few that carry much, or more that carry little, because each is for another place.
const IN_FLIGHT: std::ops::RangeInclusive<usize> = 4..=32;
/// How often a key is looked at after it was told, to see what others have told since. Their interval may begin with ours and
/// be a fifth longer, so that one look may come too early.
const LOOKS: u8 = 2;
/// How often a shipment in doubt is refused as it is, before its parcels go their own ways.
const MOST_REFUSALS: u8 = 4;
/// Keys that are handled under one lock before others get their turn.
const AT_A_TIME: usize = 256;

/// What one key owes, on its way.
#[derive(Debug)]
struct Parcel {
    place: Place,
    whom: Whom,
    tracked: Arc<Tracked>,
    owed: Owed,
    /// It took long to come to be told.
    late: bool,
    /// The centre has told something of the key before.
    is_told: bool,
    /// Its instants are those of the clock that decides.
    by_its_clock: bool,
}

impl Parcel {
    /// The charges that book it; a look if it owes nothing.
    fn charges(&self) -> impl Iterator<Item = Charge<'_>> {
        let charge = self.tracked.limit.charge(self.whom.key());
        let entries = self.owed.entries().flat_map(Entry::charges);
        let booked = entries.map(move |(cost, action)| charge.with_cost(cost).with_action(action));
        // Instants by our own clock mean nothing to the centre. What they belong to is an interval late at most.
        let mut booked =
            booked.map(|charge| if self.by_its_clock { charge } else { of_now(charge) }).peekable();
        // A debit of nothing changes nothing, and is never refused as a check might be.
        let look =
            booked.peek().is_none().then(|| charge.with_cost(0).with_action(Action::Debit { at: None }));
        look.into_iter().chain(booked)
    }
}

/// Parcels that are booked by one call, all or none.
#[derive(Debug)]
pub(crate) struct Shipment {
    id: IdempotencyKey,
    parcels: Vec<Parcel>,
    /// It may have been booked, and its answer lost: it must keep its id.
    in_doubt: bool,
    /// How often it was refused since, as if for one of its keys.
    refusals: u8,
}

impl Shipment {
    fn new(parcels: Vec<Parcel>) -> Self {
        Self { id: IdempotencyKey::unique(), parcels, in_doubt: false, refusals: 0 }
    }

    fn charges(&self) -> impl Iterator<Item = Charge<'_>> {
        self.parcels.iter().flat_map(Parcel::charges)
    }
}

/// What an exchange of tokens has to do for one key.
struct Errand {
    place: Place,
    whom: Whom,
    tracked: Arc<Tracked>,
    upkeep: Upkeep,
    action: Action,
    /// Callers wait for what it takes.
    is_filling: bool,
    /// The centre may have heard of it.
    is_sent: bool,
}

impl Errand {
    fn charge(&self) -> Charge<'_> {
        let charge = self.tracked.limit.charge(self.whom.key());
        match self.upkeep {
            Upkeep::Take(tokens) | Upkeep::Return(tokens) => {
                charge.with_cost(tokens).with_action(self.action)
            }
            Upkeep::Wait | Upkeep::Rest => charge.with_cost(0),
        }
    }
}

impl Replica {
    /// What it owes as a parcel, if that is how it is settled and nothing of it is under way.
    fn parcel(&mut self, place: Place, whom: &Whom, now: Time) -> Option<Parcel> {
        if self.is_busy() {
            return None;
        }
        let Ledger::Mirror(mirror) = &mut self.ledger else { return None };
        let (owed, late) = mirror.hand_out(&self.tracked, now);
        self.set_busy(true);
        Some(Parcel {
            place,
            whom: whom.clone(),
            tracked: Arc::clone(&self.tracked),
            owed,
            late,
            is_told: self.is_told(),
            by_its_clock: false,
        })
    }

    /// What has to be done for its tokens, if there are any.
    fn errand(&mut self, place: Place, whom: &Whom, closing: bool, now: Time) -> Option<Errand> {
        if self.is_busy() {
            return None;
        }
        let Ledger::Pool(pool) = &mut self.ledger else { return None };
        let upkeep = if closing { pool.hand_back() } else { pool.upkeep(&self.tracked, now) };
        let action = match upkeep {
            Upkeep::Take(_) => Action::TakeUpTo,
            Upkeep::Return(_) => pool.returning(&self.tracked),
            Upkeep::Wait | Upkeep::Rest => return None,
        };
        self.set_busy(true);
        let (whom, tracked, is_filling) =
            (whom.clone(), Arc::clone(&self.tracked), matches!(upkeep, Upkeep::Take(_)));
        Some(Errand { place, whom, tracked, upkeep, action, is_filling, is_sent: false })
    }

    /// Whether the next exchange has to look at it although this one has nothing to do for it.
    fn stays_due(&self) -> bool {
        self.is_busy() || matches!(&self.ledger, Ledger::Pool(pool) if !pool.rests())
    }
}

/// What an exchange came to.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    keys: usize,
    /// How far below zero a key was at most, in tokens.
    debt: u64,
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self { keys: self.keys + other.keys, debt: self.debt.max(other.debt) }
    }
}

impl<S: Store, C: Clock> Shared<S, C> {
    /// Exchanges what is due of a beat, and whatever has no answer yet. `closing` also gives back all that is leased.
    pub(crate) async fn exchange(&self, beat: usize, closing: bool) -> Result<(), StoreError> {
        // The task goes on when an instance is closed, and must not lease anything anew.
        let (parcels, errands) = self.gather(beat, closing || self.is_closed());
        self.deliver(parcels, errands).await
    }

    /// Exchanges what these charges' keys owe, before its time. What is under way already is not waited for.
    pub(crate) async fn exchange_of(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let parcels = charges.iter().filter_map(|charge| {
            let print = self.table.print(charge);
            let number = self.table.shard_of(print);
            let mut shard = self.table.lock(number);
            let index = shard.find(print)?;
            let (replica, whom) = shard.both(index)?;
            replica.parcel(Place { shard: number, index }, whom, self.now())
        });
        // Only these: what others could not tell is not for this caller to wait for.
        let ways = self.pack(parcels.collect()).into_iter().map(|shipment| OnItsWay::of(self, shipment));
        let ways: Vec<_> = ways.collect();
        self.asks(self.clock.now());
        let told = join_all(ways.into_iter().map(|way| self.send(way))).await;
        told.into_iter().try_for_each(|told| told.map(drop))
    }

    async fn deliver(&self, parcels: Vec<Parcel>, errands: Vec<Errand>) -> Result<(), StoreError> {
        let began = self.clock.now();
        let errands = Errands { shared: self, errands };
        // From here on they are in one place or another, even if nobody waits for the rest of this.
        let (round, in_flight) = {
            let shipments = self.pack(parcels);
            let mut waiting = lock(&self.waiting);
            waiting.extend(shipments);
            let largest = waiting.iter().map(|shipment| shipment.parcels.len()).max().unwrap_or(1);
            let in_flight = (IN_FLIGHT.start() * MOST_CHARGES / largest.max(1)).min(*IN_FLIGHT.end());
            (AtomicUsize::new(waiting.len()), in_flight.max(*IN_FLIGHT.start()))
        };
        if round.load(Ordering::Relaxed) == 0 && errands.errands.is_empty() {
            return Ok(());
        }
        self.asks(began);
        let (mut tally, mut failure) = (Tally::default(), None);
        for carried in join_all((0..in_flight).map(|_| self.carry(&round))).await {
            let (part, failed) = carried;
            tally = tally.and(part);
            failure = failure.or(failed);
        }
        let (kept, failed) = self.keep_up(errands).await;
        tally.keys += kept;
        failure = failure.or(failed);
        let took = self.clock.now().since(began);
        self.counters.exchanged(tally.keys, took, tally.debt, failure.is_some());
        if let Some(observer) = &self.observer {
            let (keys, debt, error) = (tally.keys, tally.debt, failure.as_ref());
            let silent = self.silent_since().map_or(Duration::ZERO, |since| self.clock.now().since(since));
            observer.observe(Event::Synchronized { keys, took, debt, stale_for: silent, error });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Sends one shipment after the other, until as many have been sent as there were.
    async fn carry(&self, round: &AtomicUsize) -> (Tally, Option<StoreError>) {
        let (mut tally, mut failure) = (Tally::default(), None);
        let more = |left: usize| left.checked_sub(1);
        while round.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            let Some(shipment) = lock(&self.waiting).pop_front() else { break };
            match self.send(OnItsWay::of(self, shipment)).await {
                Ok(part) => tally = tally.and(part),
                Err(error) => failure = Some(error),
            }
        }
        (tally, failure)
    }

    /// What is due, made busy.
    fn gather(&self, beat: usize, closing: bool) -> (Vec<Parcel>, Vec<Errand>) {
        let (mut parcels, mut errands) = (Vec::new(), Vec::new());
        let now = self.now();
        for number in self.table.shards() {
            let due = self.table.lock(number).due(beat);
            for part in due.chunks(AT_A_TIME) {
                let mut shard = self.table.lock(number);
                for index in part {
                    let place = Place { shard: number, index: *index };
                    let Some((replica, whom)) = shard.begin(*index) else { continue };
                    if let Some(parcel) = replica.parcel(place, whom, now) {
                        parcels.push(parcel);
                    } else if let Some(errand) = replica.errand(place, whom, closing, now) {
                        errands.push(errand);
                    } else if replica.stays_due() {
                        shard.make_due(*index);
                    }
                }
            }
        }
        (parcels, errands)
    }

    /// Parcels to shipments: those that one call of the centre handles, in as few calls as there can be.
    fn pack(&self, mut parcels: Vec<Parcel>) -> Vec<Shipment> {
        let lane = |parcel: &Parcel| self.store.route(&parcel.tracked.limit.charge(parcel.whom.key()));
        parcels.sort_by_cached_key(lane);
        let mut shipments: Vec<Shipment> = Vec::new();
        let (mut charges, mut last) = (0, None);
        for parcel in parcels {
            let (more, lane) = (parcel.charges().count(), lane(&parcel));
            if last != Some(lane) || charges + more > MOST_CHARGES {
                shipments.push(Shipment::new(Vec::new()));
                (charges, last) = (0, Some(lane));
            }
            charges += more;
            if let Some(shipment) = shipments.last_mut() {
                shipment.parcels.push(parcel);
            }
        }
        shipments
    }

    async fn send(&self, mut way: OnItsWay<'_, S, C>) -> Result<Tally, StoreError> {
        let sent_at = self.clock.now();
        let Some(shipment) = &mut way.shipment else { return Ok(Tally::default()) };
        for parcel in &mut shipment.parcels {
            parcel.by_its_clock = self.goes_by_centre(&parcel.tracked);
        }
        let answer = {
            let charges: Vec<_> = shipment.charges().collect();
            self.store
                .apply_deltas(
                    Request::new(&charges).with_idempotency_key(shipment.id),
                    self.to_centre(sent_at),
                )
                .await
        };
        let Some(shipment) = way.shipment.take() else { return Ok(Tally::default()) };
        match answer {
            Ok(exports) if exports.len() != shipment.charges().count() => {
                let why = "the centre answered an exchange without a state for each charge";
                let error = StoreError::new(ErrorKind::Internal, why).with_unknown_effect();
                self.keep(shipment, &error, sent_at);
                Err(error)
            }
            Ok(exports) => {
                if let Some(export) = exports.first() {
                    self.heard(export.at, sent_at);
                }
                Ok(self.unpack(shipment, exports))
            }
            Err(error) => {
                self.keep(shipment, &error, sent_at);
                Err(error)
            }
        }
    }

    /// Keeps what was not booked, or perhaps not, for the next exchange.
    fn keep(&self, mut shipment: Shipment, error: &StoreError, sent_at: Time) {
        let mut waiting = lock(&self.waiting);
        shipment.in_doubt |= error.effect() == Effect::Unknown;
        let about_a_key = self.refused(error, sent_at);
        shipment.refusals = if about_a_key { shipment.refusals.saturating_add(1) } else { 0 };
        // Something about one of the keys, perhaps: it must not hold up the others for ever. A centre recognises what it has booked
        // before it refuses anything, so that this was not, if it goes on saying no.
        let patience = if shipment.in_doubt { MOST_REFUSALS } else { 0 };
        if shipment.refusals <= patience || shipment.parcels.len() < 2 {
            waiting.push_back(shipment);
            return;
        }
        let Shipment { mut parcels, .. } = shipment;
        let half = parcels.split_off(parcels.len() / 2);
        for parcels in [parcels, half] {
            waiting.push_back(Shipment::new(parcels));
        }
    }

    /// Everything is booked: the keys learn what there is.
    fn unpack(&self, shipment: Shipment, exports: Vec<Export>) -> Tally {
        let mut exports = exports.into_iter();
        let mut tally = Tally { keys: shipment.parcels.len(), debt: 0 };
        for parcel in shipment.parcels {
            // One state for each of the charges; the last is as good as the others.
            let charges = parcel.charges().count();
            let Some(Export { state, at }) = exports.by_ref().take(charges).last() else { break };
            let limit = &parcel.tracked.limit;
            let state = match state {
                None => Ok(State::default()),
                Some(snapshot) => State::from_snapshot(limit, &snapshot),
            };
            let mut shard = self.table.lock(parcel.place.shard);
            let Some(replica) = shard.get(parcel.place.index) else { continue };
            replica.set_busy(false);
            replica.was_told(at.max(self.now()));
            let Ledger::Mirror(mirror) = &mut replica.ledger else { continue };
            if let Ok(state) = state {
                let sent = parcel.owed.sum();
                let (late, by_its_clock) = (parcel.late, parcel.is_told || parcel.by_its_clock);
                let told = Told { centre: state, sent, late, by_its_clock };
                let debt = mirror.told(told, &replica.tracked, at.max(self.now()), fastrand::f64());
                tally.debt = tally.debt.max(whole(debt));
                // What others tell after us is worth another look.
                let told_something = !parcel.owed.is_empty();
                replica.looks = if told_something { LOOKS } else { replica.looks.saturating_sub(1) };
            }
            if mirror.wants_exchange() || replica.looks > 0 {
                shard.make_due(parcel.place.index);
            }
        }
        tally
    }

    /// Tops up and gives back what is leased. How many keys were answered, and how it failed if it did.
    async fn keep_up(&self, mut all: Errands<'_, S, C>) -> (usize, Option<StoreError>) {
        let (mut kept, mut failure) = (0, None);
        while !all.errands.is_empty() {
            let rest = all.errands.len().saturating_sub(MOST_CHARGES);
            let mut part = Errands { shared: self, errands: all.errands.split_off(rest) };
            let sent_at = self.clock.now();
            part.errands.iter_mut().for_each(|errand| errand.is_sent = true);
            let answers = {
                let charges: Vec<[Charge<'_>; 1]> =
                    part.errands.iter().map(|errand| [errand.charge()]).collect();
                // Unnamed: what is lost on the way is lost to us, and never given twice.
                let runs: Vec<_> = charges.iter().map(|charge| Run::new(Request::new(charge), 1)).collect();
                self.store.decide_batch(&runs, self.to_centre(sent_at)).await
            };
            for (errand, answer) in part.errands.iter_mut().zip(answers) {
                match answer.map(|run| run.into_verdicts().pop()) {
                    Ok(Some(verdict)) if is_centres_own(&verdict) => {
                        kept += 1;
                        self.heard(verdict.decided_at(), sent_at);
                        self.done(errand, &verdict);
                    }
                    // Somebody stood in for the centre, which has heard nothing of it.
                    Ok(_) => errand.is_sent = false,
                    Err(error) => {
                        self.refused(&error, sent_at);
                        errand.is_sent = error.effect() == Effect::Unknown;
                        failure = Some(error);
                    }
                }
            }
        }
        (kept, failure)
    }

    /// The centre has answered an errand.
    fn done(&self, errand: &mut Errand, verdict: &Verdict) {
        let Some(decision) = verdict.decisions().first() else { return };
        errand.is_filling = false;
        self.table.with(errand.place, |replica| {
            if let (Ledger::Pool(pool), Upkeep::Take(_)) = (&mut replica.ledger, errand.upkeep) {
                pool.filled(&errand.charge(), decision, verdict.decided_at(), &replica.tracked);
            }
        });
    }
}

/// A shipment that somebody carries. Put down without an answer, it waits for the next exchange.
struct OnItsWay<'a, S: Store, C: Clock> {
    shared: &'a Shared<S, C>,
    shipment: Option<Shipment>,
}

impl<'a, S: Store, C: Clock> OnItsWay<'a, S, C> {
    fn of(shared: &'a Shared<S, C>, shipment: Shipment) -> Self {
        Self { shared, shipment: Some(shipment) }
    }
}

impl<S: Store, C: Clock> Drop for OnItsWay<'_, S, C> {
    fn drop(&mut self) {
        if let Some(mut shipment) = self.shipment.take() {
            // It may have arrived.
            shipment.in_doubt = true;
            lock(&self.shared.waiting).push_back(shipment);
        }
    }
}

/// Errands that somebody runs. Whatever became of them, their pools are free again, and what the centre certainly has not taken back
/// is still there.
struct Errands<'a, S: Store, C: Clock> {
    shared: &'a Shared<S, C>,
    errands: Vec<Errand>,
}

impl<S: Store, C: Clock> Drop for Errands<'_, S, C> {
    fn drop(&mut self) {
        let now = self.shared.now();
        for errand in &self.errands {
            let mut shard = self.shared.table.lock(errand.place.shard);
            if let Some(replica) = shard.get(errand.place.index) {
                replica.set_busy(false);
                let Ledger::Pool(pool) = &mut replica.ledger else { continue };
                if errand.is_filling {
                    pool.unreachable(&replica.tracked, now);
                }
                if let (Upkeep::Return(tokens), false) = (errand.upkeep, errand.is_sent) {
                    pool.not_returned(tokens);
                }
            }
            shard.make_due(errand.place.index);
        }
    }
}

/// The same, as if it had just happened.
fn of_now(charge: Charge<'_>) -> Charge<'_> {
    match charge.action() {
        Action::Debit { .. } => charge.with_action(Action::Debit { at: None }),
        Action::Refund { .. } => charge.with_action(Action::Refund { at: None }),
        _ => charge,
    }
}

/// Tokens, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn whole(tokens: f64) -> u64 {
    tokens.ceil() as u64
}

/// How long the next exchange is away: a random tenth less or more, so that nodes do not all come at once.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}
