//! Decisions that need the central store: keys without a local entry, charges that need more tokens than are leased,
//! and requests that the central store decides itself.

use tollgate_core::store::{Export, Snapshot, State, Store};
use tollgate_core::{Charge, Clock, Limit, Request, StoreError, Time, Timer, Verdict};

use crate::config::{ColdKeys, Mode, WhenStale};
use crate::local::decide::NotLocal;
use crate::local::replica::Update;
use crate::local::state::LocalState;
use crate::local::usage::LateGrants;
use crate::node::Node;
use crate::synced::Synced;

/// How often a request tries to become decidable locally before the central store decides it.
const MAX_ATTEMPTS: usize = 8;

impl<S: Store + 'static, C: Timer + 'static> Synced<S, C> {
    /// Decides a request that cannot be decided locally as it is: gets what is missing, and tries again.
    #[cold]
    #[inline(never)]
    pub(crate) fn decide_with_central<'a>(
        &'a self,
        request: Request<'a>,
        now: Time,
        mut reason: NotLocal,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send + 'a {
        Box::pin(async move {
            let (node, charges) = (self.node(), request.charges());
            let mut again = false;
            for _ in 0..MAX_ATTEMPTS {
                let resolved = match reason {
                    NotLocal::Central => false,
                    NotLocal::TaskStopped => {
                        self.task().restart().await;
                        true
                    }
                    NotLocal::UnknownKey(number) => self.add_entry(&charges[number], now).await?,
                    NotLocal::NeedsTokens(number) => node.acquire(&charges[number], now, again).await,
                };
                if !resolved {
                    break;
                }
                again = matches!(reason, NotLocal::NeedsTokens(_));
                let decided = match charges {
                    [charge] => node
                        .decide_one_locally(charge, &now, again)
                        .map(|decision| Verdict::one(decision, node.to_central(now))),
                    charges => node.decide_locally(charges, now),
                };
                match decided {
                    Ok(verdict) => return Ok(verdict),
                    Err(next) => reason = next,
                }
            }
            node.decide_centrally(request, now).await
        })
    }

    /// Adds a local entry for a charge's key, or updates it to the parameters of the limit. Returns whether there is
    /// one.
    async fn add_entry(&self, charge: &Charge<'_>, now: Time) -> Result<bool, StoreError> {
        let node = self.node();
        let Some(config) = node.limits.of(charge.limit()) else { return Ok(false) };
        if node.needs_task(now) {
            self.task().start();
        }
        let (mut state, mut fetched) = (LocalState::new(config.mode), false);
        if config.mode == Mode::Deltas && node.should_fetch(charge, config.cold_keys, now) {
            match node.fetch(charge, now).await {
                Ok(central) => (state, fetched) = (LocalState::from_central(central), true),
                Err(error) if config.when_stale == WhenStale::Deny => return Err(error),
                // Decided as if the key were unused; the next sync round corrects it.
                Err(_) => {}
            }
        }
        let hash = node.table.hash(charge);
        let mut shard = node.table.lock(node.table.shard_of(hash));
        if let Some(index) = shard.find(hash) {
            if let Some(entry) = shard.get(index) {
                return Ok(entry.reconfigure(config));
            }
            return Ok(true);
        }
        let now = node.to_central(now);
        let Some(index) = shard.insert(hash, charge.key(), config, state, now) else {
            return Ok(false);
        };
        if let Some(entry) = shard.get(index).filter(|_| fetched) {
            entry.mark_synced(now);
        }
        Ok(true)
    }
}

impl<S: Store, C: Clock> Node<S, C> {
    /// Returns whether the state of a charge's key should be fetched: it has no local entry, perhaps because that was
    /// evicted.
    fn should_fetch(&self, charge: &Charge<'_>, cold_keys: ColdKeys, now: Time) -> bool {
        let hash = self.table.hash(charge);
        let shard = self.table.lock(self.table.shard_of(hash));
        let fetches = match cold_keys {
            ColdKeys::FetchFirst => true,
            ColdKeys::Optimistic => shard.may_have_evicted(self.to_central(now)),
        };
        fetches && shard.find(hash).is_none()
    }

    async fn fetch(&self, charge: &Charge<'_>, now: Time) -> Result<State, StoreError> {
        let sent_at = self.clock.now();
        let export = self.store.export(charge.limit(), charge.key(), self.to_store(now)).await?;
        self.answered(export.at, sent_at);
        state_of(charge.limit(), export.state.as_ref())
    }

    /// Lets the central store decide a request, after it has received the pending deltas of its keys.
    async fn decide_centrally(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.counters.decided_centrally(request.charges().len());
        self.send_pending(request.charges()).await?;
        let verdict = self.store.decide(request, self.to_store(now)).await?;
        if verdict.is_allowed() {
            for (charge, decision) in request.charges().iter().zip(verdict.decisions()) {
                self.table.with(self.table.hash(charge), |shard, index| {
                    let state = &mut shard.get(index)?.state;
                    state.granted_centrally(charge, decision, verdict.decided_at());
                    Some(())
                });
            }
        }
        Ok(verdict)
    }

    /// Sends the pending deltas of these charges' keys, before the central store is called for them.
    pub(crate) async fn send_pending(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let has_deltas = |charge: &Charge<'_>| {
            let hash = self.table.hash(charge);
            self.table.with(hash, |shard, index| Some(shard.get(index)?.state.has_deltas())) == Some(true)
        };
        // Late grants are only recorded by the first round; the second one debits what is owed of them.
        for _ in 0..2 {
            if charges.iter().any(has_deltas) {
                self.sync_keys(charges).await.map_err(not_called)?;
            }
        }
        Ok(())
    }

    /// Updates the local replicas after the central store has applied deltas for a caller.
    pub(crate) fn deltas_applied(&self, deltas: &[Charge<'_>], exports: &[Export]) {
        for (number, (charge, Export { state, at })) in deltas.iter().zip(exports).enumerate() {
            if deltas[..number].iter().any(|earlier| earlier.same_state(charge)) {
                continue;
            }
            let Some(config) = self.limits.of(charge.limit()) else { continue };
            let of_this_key = deltas.iter().filter(|delta| delta.same_state(charge));
            self.table.with(self.table.hash(charge), |shard, index| {
                let entry = shard.get(index)?;
                if !entry.reconfigure(config) {
                    return None;
                }
                let now = self.now().max(*at);
                let sent = of_this_key.map(|delta| entry.state.applied_centrally(delta, now)).sum();
                // Deltas in flight may be missing in the central state. The next sync round adopts it then.
                if !entry.is_in_flight()
                    && let Ok(state) = state_of(charge.limit(), state.as_ref())
                {
                    let dated = self.offset.dates_deltas(entry.config.interval, self.clock.now());
                    let comparable = entry.was_synced() || dated;
                    let update = Update {
                        state,
                        sent,
                        late: LateGrants::default(),
                        failed_before: false,
                        collected_at: now,
                        comparable,
                        usage: None,
                        demand: None,
                    };
                    entry.state.update_if_lower(update, &entry.config, now);
                }
                shard.make_due(index);
                Some(())
            });
        }
    }

    /// Returns whether a charge's limit is always decided centrally.
    pub(crate) fn is_always_central(&self, charge: &Charge<'_>) -> bool {
        self.limits.of(charge.limit()).is_none()
    }
}

/// Returns the state of an export.
pub(crate) fn state_of(limit: &Limit, snapshot: Option<&Snapshot>) -> Result<State, StoreError> {
    match snapshot {
        None => Ok(State::default()),
        Some(snapshot) => State::from_snapshot(limit, snapshot),
    }
}

/// The error of a call that was not made, because the pending deltas could not be sent before it. They stay pending.
fn not_called(error: StoreError) -> StoreError {
    let why =
        format!("the central store was not called, because pending deltas could not be sent first: {error}");
    StoreError::new(error.kind(), why).with_source(error)
}
