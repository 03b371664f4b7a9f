//! The store: what is decided here, and what is passed on.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollgate_core::store::{
    AlgorithmSet, Capability, Export, IdempotencyRetention, Run, RunVerdict, State, Store, decide_one_by_one,
};
use tollgate_core::{
    AlgorithmKind, Charge, Clock, Decision, ErrorKind, Key, Limit, Observer, Request, StoreError,
    SystemClock, Time, Timer, Verdict,
};

use crate::background::Running;
use crate::here::Missing;
use crate::insight::Insight;
use crate::mirror::Mirror;
use crate::shared::Shared;
use crate::table::{Ledger, empty_ledger};
use crate::terms::{ColdKeys, Mode, Settings, Terms, Tracked, WhenStale};

/// How many keys are known here at a time, unless said.
const MOST_KEYS: usize = 1_000_000;
/// How often a call tries to get what it needs to be decided here before it asks the centre.
const TRIES: usize = 8;

/// A store that decides here, at memory speed, and exchanges what it granted with a central store every so often. See the
/// [crate's documentation](crate) for what passes when.
pub struct Synced<S: Store + 'static, C: Timer + 'static = SystemClock> {
    store: Arc<S>,
    clock: Arc<C>,
    observer: Option<Arc<dyn Observer>>,
    most_keys: usize,
    settings: Settings,
    by_hand: bool,
    running: OnceLock<Running<S, C>>,
}

impl<S: Store + 'static> Synced<S> {
    /// Decides here what `store` is the truth of, and exchanges every 100 ms.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock::new())
    }
}

impl<S: Store + 'static, C: Timer + 'static> Synced<S, C> {
    /// The same by another clock, such as one that moves by hand.
    pub fn with_clock(store: S, clock: C) -> Self {
        Self {
            store: Arc::new(store),
            clock: Arc::new(clock),
            observer: None,
            most_keys: MOST_KEYS,
            settings: Settings::default(),
            by_hand: false,
            running: OnceLock::new(),
        }
    }

    /// The time between two exchanges ([`Terms::every`]).
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        self.terms(|terms| terms.every(interval))
    }

    /// Decides by tokens that are leased from the centre ahead of need ([`Mode::Lease`]).
    #[must_use]
    pub fn leasing(self) -> Self {
        self.terms(|terms| terms.mode(Mode::Lease))
    }

    /// What to do once the centre has been silent for too long ([`Terms::when_stale`]).
    #[must_use]
    pub fn when_stale(self, then: WhenStale) -> Self {
        self.terms(|terms| terms.when_stale(then))
    }

    /// Changes the terms of all limits that have none of their own.
    #[must_use]
    pub fn terms(mut self, change: impl FnOnce(Terms) -> Terms) -> Self {
        self.settings.usual = change(self.settings.usual);
        self.begun_anew()
    }

    /// The terms of the limit of this name, made from the usual ones as they are by then: say those first.
    #[must_use]
    pub fn terms_of(mut self, limit: &str, change: impl FnOnce(Terms) -> Terms) -> Self {
        self.settings.by_name.insert(limit.into(), change(self.settings.usual));
        self.begun_anew()
    }

    /// At most so many keys are known here at a time; a million unless said. Each takes about 140 bytes, of a window 220. When more are in
    /// use, those go that the centre knows all about, and it is asked when they come back; if there is none to go, the key is decided
    /// at the centre. [`Insight::forgotten`] and [`Insight::at_centre`] count that.
    #[must_use]
    pub fn keys(mut self, most: usize) -> Self {
        self.most_keys = most.max(1);
        self.begun_anew()
    }

    /// Tells `observer` about exchanges.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self.begun_anew()
    }

    /// Nothing is exchanged but by [`sync_now`](Self::sync_now): for tests, simulations, and programs with a schedule of
    /// their own.
    #[must_use]
    pub fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self.begun_anew()
    }

    /// What was running by other settings ends.
    fn begun_anew(mut self) -> Self {
        self.running = OnceLock::new();
        self
    }

    /// The central store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock that exchanges go by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What has been going on.
    pub fn insight(&self) -> Insight {
        let shared = self.shared();
        let now = shared.clock.now();
        let mut insight = shared.counters.read(now);
        insight.silent = shared.silent_since().map_or(Duration::ZERO, |since| now.since(since));
        for number in shared.table.shards() {
            let shard = shared.table.lock(number);
            insight.keys += shard.len();
            insight.forgotten += shard.forgotten();
            insight.owing += shard.iter().filter(|(_, replica)| replica.owes()).count();
        }
        insight
    }

    /// Exchanges everything that is due with the centre, now. An error if the centre did not answer all of it; what it did
    /// not answer stays due.
    pub async fn sync_now(&self) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for beat in 0..self.settings.beats().len() {
            let exchanged = self.shared().exchange(beat, false).await;
            outcome = outcome.and(exchanged);
        }
        outcome
    }

    /// Books everything at the centre and gives back what is leased, for as long as `patience` lasts. From then on
    /// everything is decided at the centre. An error says for how many keys it did not succeed; it can be called again.
    pub async fn close(&self, patience: Duration) -> Result<(), StoreError> {
        let shared = self.shared();
        shared.closed.store(true, Ordering::Relaxed);
        if tokio::time::timeout(patience, shared.flush(self.settings.beats().len())).await.is_ok() {
            return Ok(());
        }
        let owing = self.insight().owing;
        let why = format!(
            "{owing} keys owe the centre something it has not taken within {patience:?}; close again when it is there"
        );
        Err(StoreError::new(ErrorKind::Timeout, why))
    }

    fn running(&self) -> &Running<S, C> {
        self.running.get_or_init(|| {
            let observer = self.observer.clone();
            let shared =
                Shared::new(Arc::clone(&self.store), Arc::clone(&self.clock), observer, self.most_keys);
            Running::new(Arc::new(shared), self.settings.beats())
        })
    }

    #[inline]
    fn shared(&self) -> &Arc<Shared<S, C>> {
        self.running().shared()
    }

    /// Everything but what nearly every call does: gets what is missing, and tries again.
    #[cold]
    #[inline(never)]
    fn decide_after_all<'a>(
        &'a self,
        request: Request<'a>,
        now: Time,
        mut missing: Missing,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send + 'a {
        Box::pin(async move {
            let charges = request.charges();
            let shared = self.shared();
            for _ in 0..TRIES {
                let there = match missing {
                    Missing::Centre => false,
                    Missing::Task => {
                        self.running().start();
                        true
                    }
                    Missing::Replica(number) => self.know(&charges[number], now).await?,
                    Missing::Tokens(number) => shared.fill(&charges[number], now).await,
                };
                if !there {
                    break;
                }
                let again = matches!(missing, Missing::Tokens(_));
                let decided = match charges {
                    [charge] => shared
                        .decide_one_here(charge, &now, again)
                        .map(|decision| Verdict::one(decision, shared.to_centre(now))),
                    charges => shared.decide_here(charges, now),
                };
                match decided {
                    Ok(verdict) => return Ok(verdict),
                    Err(still) => missing = still,
                }
            }
            self.decide_at_centre(request, now).await
        })
    }

    /// Sees to it that something is known of a charge's key. Whether that is so.
    async fn know(&self, charge: &Charge<'_>, now: Time) -> Result<bool, StoreError> {
        let shared = self.shared();
        let Some(tracked) = shared.limits.of(charge.limit(), &self.settings) else { return Ok(false) };
        if !self.by_hand {
            self.running().start();
        }
        let (mut ledger, mut is_told) = (empty_ledger(&tracked), false);
        if tracked.mode == Mode::Deltas && self.should_ask(charge, tracked.cold_keys, now) {
            match self.ask_for(charge, now).await {
                Ok(state) => (ledger, is_told) = (Ledger::Mirror(Mirror::from_centre(state)), true),
                Err(error) if tracked.when_stale == WhenStale::Deny => return Err(error),
                // Nobody knows better; the next exchange tells.
                Err(_) => {}
            }
        }
        let print = shared.table.print(charge);
        let mut shard = shared.table.lock(shared.table.shard_of(print));
        if let Some(index) = shard.find(print) {
            if let Some(replica) = shard.get(index) {
                // The limit has other numbers now; what is known goes on under them.
                match (&mut replica.ledger, tracked.mode) {
                    (Ledger::Mirror(_), Mode::Deltas) => {}
                    (Ledger::Pool(pool), Mode::Lease) => pool.keep_at_most(tracked.most_leased),
                    (Ledger::Mirror(_), Mode::Lease) | (Ledger::Pool(_), Mode::Deltas) => return Ok(false),
                }
                replica.tracked = tracked;
            }
            return Ok(true);
        }
        let now = shared.to_centre(now);
        let Some(index) = shard.insert(print, charge.key(), tracked, ledger, now) else { return Ok(false) };
        if let Some(replica) = shard.get(index).filter(|_| is_told) {
            replica.was_told(now);
        }
        Ok(true)
    }

    /// Whether the centre should be asked what there is of a key: nothing is known of it here, and perhaps only because it had to go.
    fn should_ask(&self, charge: &Charge<'_>, cold_keys: ColdKeys, now: Time) -> bool {
        let shared = self.shared();
        let print = shared.table.print(charge);
        let shard = shared.table.lock(shared.table.shard_of(print));
        let asks = cold_keys == ColdKeys::AskFirst || shard.may_have_forgotten(shared.to_centre(now));
        asks && shard.find(print).is_none()
    }

    async fn ask_for(&self, charge: &Charge<'_>, now: Time) -> Result<State, StoreError> {
        let shared = self.shared();
        let sent_at = shared.clock.now();
        let export = self.store.export(charge.limit(), charge.key(), shared.to_centre(now)).await?;
        shared.heard(export.at, sent_at);
        match export.state {
            None => Ok(State::default()),
            Some(snapshot) => State::from_snapshot(charge.limit(), &snapshot),
        }
    }

    /// Decides at the centre, which is told first what it does not know yet of these keys.
    async fn decide_at_centre(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let shared = self.shared();
        shared.counters.at_centre(request.charges().len());
        self.book(request.charges()).await.map_err(not_asked)?;
        let verdict = self.store.decide(request, shared.to_centre(now)).await?;
        if verdict.is_allowed() {
            for (charge, decision) in request.charges().iter().zip(verdict.decisions()) {
                let at = verdict.decided_at();
                self.with_mirror(charge, |mirror, _| mirror.granted_by_centre(charge, decision, at));
            }
        }
        Ok(verdict)
    }

    /// Books what these keys owe, before somebody asks the centre about them.
    async fn book(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let shared = self.shared();
        let owing =
            charges.iter().any(|charge| self.with_mirror(charge, |mirror, _| mirror.owes()) == Some(true));
        if !owing {
            return Ok(());
        }
        shared.exchange_of(charges).await
    }

    fn with_mirror<T>(&self, charge: &Charge<'_>, act: impl FnOnce(&mut Mirror, &Tracked) -> T) -> Option<T> {
        let table = &self.shared().table;
        let print = table.print(charge);
        let mut shard = table.lock(table.shard_of(print));
        let index = shard.find(print)?;
        let replica = shard.get(index)?;
        let Ledger::Mirror(mirror) = &mut replica.ledger else { return None };
        Some(act(mirror, &replica.tracked))
    }

    /// Whether a charge is about a limit that cannot be decided here.
    fn is_for_centre(&self, charge: &Charge<'_>) -> bool {
        self.shared().limits.of(charge.limit(), &self.settings).is_none()
    }
}

impl<S: Store + 'static, C: Timer + 'static> Store for Synced<S, C> {
    /// Exact only for what the centre decides itself. Named calls are recognised only there, too: a decision that is made
    /// here cannot be lost on the way.
    fn capability(&self) -> Capability {
        let centre = self.store.capability();
        centre.with_exact(centre.exact.and(AT_CENTRE)).with_idempotency(IdempotencyRetention::None)
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        if let ([charge], None) = (request.charges(), request.idempotency_key()) {
            let decision = self.decide_one(charge, &now).await?;
            return Ok(Verdict::one(decision, self.shared().to_centre(now)));
        }
        if request.charges().is_empty() {
            return Ok(Verdict::new([], now));
        }
        let missing = match self.shared().decide_here(request.charges(), now) {
            Ok(verdict) => return Ok(verdict),
            Err(_) if request.charges().iter().any(|charge| self.is_for_centre(charge)) => Missing::Centre,
            Err(missing) => missing,
        };
        self.decide_after_all(request, now, missing).await
    }

    #[inline]
    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        charge.supported()?;
        let missing = match self.shared().decide_one_here(charge, clock, false) {
            Ok(decision) => return Ok(decision),
            Err(missing) => missing,
        };
        let charges = [*charge];
        let verdict = self.decide_after_all(Request::new(&charges), clock.now(), missing).await?;
        let none = || StoreError::new(ErrorKind::Internal, "a charge without a decision");
        verdict.decisions().first().copied().ok_or_else(none)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let mut charges = batch.iter().flat_map(|run| run.request().charges());
        if charges.all(|charge| self.is_for_centre(charge)) {
            return self.store.decide_batch(batch, self.shared().to_centre(now)).await;
        }
        decide_one_by_one(self, batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let shared = self.shared();
        if request.supported().is_err() {
            return;
        }
        if shared.decide_here(request.charges(), now).is_err() {
            self.store.decide_detached(request, shared.to_centre(now));
        }
    }

    /// What the centre has, once it knows what is owed to it.
    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.book(&[limit.charge(key)]).await.map_err(not_asked)?;
        self.store.export(limit, key, self.shared().to_centre(now)).await
    }
}

/// The centre could not even be told what is owed to it, so it was not asked. What is owed is kept.
fn not_asked(error: StoreError) -> StoreError {
    let why =
        format!("the centre was not asked, because it could not be told first what is owed to it: {error}");
    StoreError::new(error.kind(), why).with_source(error)
}

/// What is always decided at the centre.
const AT_CENTRE: AlgorithmSet = AlgorithmSet::of(&[
    AlgorithmKind::SlidingLog,
    AlgorithmKind::Concurrency,
    AlgorithmKind::LeakyQueue,
    AlgorithmKind::SmoothBursty,
    AlgorithmKind::SmoothWarmingUp,
]);

impl<S: Store + 'static, C: Timer + 'static> fmt::Debug for Synced<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synced").field("settings", &self.settings).finish_non_exhaustive()
    }
}
