//! The seam: what a limiter may rely on from a store.
//!
//! Data crosses it, never closures. A call carries one request or an ordered batch of independent ones,
//! and each gets its own verdict.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use async_trait::async_trait;

use crate::capability::Capability;
use crate::charge::{Charge, Request};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::settle::{settle, slots};
use crate::state::{Snapshot, State};
use crate::time::Time;

/// Where the state of limits lives, and where it is decided.
///
/// # What every store promises
///
/// - **Decisions are those of the pure function** ([`State::apply`](crate::State::apply), and
///   [`settle`](crate::settle) for requests), for some order of all calls: never more is admitted than that function
///   admits for the same arrivals. A store that trades this for something else says so in its
///   [`Capability`].
/// - **All charges of a request are debited or none is.** [`Capability::atomicity`] says whether that
///   is one atomic step, or across entities is kept by giving back. The same key twice in one request
///   counts twice.
/// - **State belongs to a limit's [`id`](Limit::id) and a key.** Keys are any bytes of any length, and different keys
///   never meet. A limit that changes its numbers goes on with the state it finds, and never grants more than
///   its new capacity.
/// - **Idle state goes by itself**, as soon as it equals a fresh one and never earlier.
/// - **Time that runs backwards** never gives anything back and never panics.
/// - **A repeated [operation id](crate::OperationId)** is not executed again, as far back as
///   [`Capability::operation_ids`] says. Its outcome and what it granted are those of the first call; the other
///   numbers may be of now. A call that changed nothing need not be remembered.
/// - **A failed call says whether it may have taken effect** ([`StoreError::effect`]). Without that doubt,
///   nothing was debited.
/// - **A future that is dropped** may have taken effect or not, but not by half: a store that gives back across
///   entities does so even then.
/// - **Instants are those of the clock that decides** ([`Capability::timekeeper`]): in [`Action`](crate::Action), in
///   snapshots, and in [`Verdict::decided_at`]. A debit that belongs to the past counts in full on a bucket
///   that has been in use since, and counts less the longer ago it was on one that has not. What a bucket that is full again
///   was used for before may be forgotten: then such a debit counts from its own instant, and not from the last use.
/// - What an algorithm cannot do ([`Request::supported`]) is an error of kind
///   [`Unsupported`](crate::ErrorKind::Unsupported), before anything is debited.
///
/// # For wrappers
///
/// A store around a store passes on what it does not change, and reports the capabilities of the whole. What others than the
/// store decided is marked so ([`Decision::made_by`]).
pub trait Store: Send + Sync {
    /// What this store can do.
    fn capability(&self) -> Capability;

    /// Decides one request. `now` is the caller's time; [`Capability::timekeeper`] says whether it counts.
    fn decide(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// Decides a single charge: the same as a request of it without an operation id. A shortcut for stores
    /// that answer faster than a verdict can be put together, and that read the clock when they decide
    /// ([`ImmediateStore::charge_now`] says why). An instant is a clock, too.
    fn decide_one(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move {
            let charges = [*charge];
            let verdict = self.decide(Request::new(&charges), clock.now()).await?;
            verdict.into_first().ok_or_else(StoreError::no_decision)
        }
    }

    /// Decides independent requests in order, each as often as it says. Exactly one answer per run, in the
    /// order of the runs; a run that fails fails alone. A store for which a batch is no cheaper than its requests
    /// calls [`decide_one_by_one`].
    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send;

    /// Which charges are decided by the same call of a batch, as a number that they share: those of one server, or of
    /// one partition. For wrappers that gather calls; 0 for all where every batch is one call.
    fn lane(&self, charge: &Charge<'_>) -> u64 {
        let _ = charge;
        0
    }

    /// Decides a request whose answer nobody waits for, as far as that is possible without waiting: a
    /// cancelled caller giving back its reservation. What cannot be done that way is dropped, which errs on the
    /// side of the limit.
    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let _ = (request, now);
    }

    /// The state of a key, in raw words.
    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Export, StoreError>> + Send;

    /// Takes over what another view of the key knows: the tighter of both. Merging twice changes nothing.
    fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Books what was decided elsewhere, and brings back what there is then: the state of each charge's key once all
    /// of them are booked, in order. For wrappers that decide by a copy of the state: what they send are debits and
    /// refunds, which nothing refuses. As [`decide`](Self::decide) otherwise; a repeated [operation
    /// id](crate::OperationId) books nothing and brings back what there is.
    ///
    /// Stores that can do both in one trip do.
    fn exchange(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
        book_and_export(self, request, now)
    }
}

/// Answers an [`exchange`](Store::exchange) by a [`decide`](Store::decide), and one [`export`](Store::export) after the other.
pub async fn book_and_export<S: Store + ?Sized>(
    store: &S,
    request: Request<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let _ = store.decide(request, now).await?;
    let mut states = Vec::with_capacity(request.charges().len());
    for charge in request.charges() {
        let export = store.export(charge.limit(), charge.key(), now).await;
        // It is booked by now.
        states.push(export.map_err(StoreError::with_unknown_effect)?);
    }
    Ok(states)
}

/// Answers a batch by one [`decide`](Store::decide) after the other.
pub async fn decide_one_by_one<S: Store + ?Sized>(
    store: &S,
    batch: &[Run<'_>],
    now: Time,
) -> Vec<Result<RunVerdict, StoreError>> {
    let mut answers = Vec::with_capacity(batch.len());
    for run in batch {
        answers.push(decide_run(store, run, now).await);
    }
    answers
}

async fn decide_run<S: Store + ?Sized>(
    store: &S,
    run: &Run<'_>,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut verdicts = Vec::new();
    for index in 0..run.count {
        let request = match run.request.id() {
            // The id names the run; each of its requests is a call of its own.
            Some(id) => run.request.with_id(id.part(index)),
            None => run.request,
        };
        let verdict = store.decide(request, now).await;
        // Those before it have taken effect.
        verdicts.push(verdict.map_err(|error| if index > 0 { error.with_unknown_effect() } else { error })?);
    }
    Ok(RunVerdict::from_verdicts(verdicts))
}

/// A state, and when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a state and its time, and nothing else")]
pub struct Export {
    /// The state; `None` if it equals a fresh one.
    pub state: Option<Snapshot>,
    /// When it was read, by the clock that decides.
    pub at: Time,
}

/// A run of equal requests, which may travel as one. An operation id names the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    request: Request<'a>,
    count: u32,
}

impl<'a> Run<'a> {
    /// `request`, `count` times in a row.
    pub fn new(request: Request<'a>, count: u32) -> Self {
        Self { request, count }
    }

    /// The request.
    pub fn request(&self) -> Request<'a> {
        self.request
    }

    /// How often.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// What became of a run: a verdict for each of its requests, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVerdict {
    verdicts: Vec<Verdict>,
}

impl RunVerdict {
    /// From one verdict per request.
    pub fn from_verdicts(verdicts: Vec<Verdict>) -> Self {
        Self { verdicts }
    }

    /// From the states that the run found: what the pure function makes of them. A store that decided
    /// elsewhere need not send every verdict back. `states` has one state per [slot](slots).
    pub fn replay(run: &Run<'_>, states: &mut [State], now: Time) -> Self {
        let charges = run.request.charges();
        let (slots, _) = slots(charges);
        Self { verdicts: (0..run.count).map(|_| settle(charges, &slots, states, now)).collect() }
    }

    /// How many passed.
    pub fn passed(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.is_allowed()).count()
    }

    /// The verdicts, in order.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The verdicts, to hand out.
    pub fn into_verdicts(self) -> Vec<Verdict> {
        self.verdicts
    }
}

/// A store that never waits: it can be asked without a runtime.
pub trait ImmediateStore: Store {
    /// Decides one charge. What the algorithm cannot do is answered as a look.
    ///
    /// The store reads the clock itself, so that it can do so after it has hashed the key: the later the reading,
    /// the less it is out of date, and reading a processor's counter holds up the instructions that follow.
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision;

    /// Decides one request.
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
}

/// The erased twin of [`Store`], for configuration at run time. Every store has it; [`AnyStore`] makes a store of it
/// again.
#[async_trait]
pub trait DynStore: Send + Sync {
    /// See [`Store::capability`].
    fn dyn_capability(&self) -> Capability;
    /// See [`Store::decide`].
    async fn dyn_decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
    /// See [`Store::decide_batch`].
    async fn dyn_decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>>;
    /// See [`Store::lane`].
    fn dyn_lane(&self, charge: &Charge<'_>) -> u64;
    /// See [`Store::decide_detached`].
    fn dyn_decide_detached(&self, request: Request<'_>, now: Time);
    /// See [`Store::export`].
    async fn dyn_export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError>;
    /// See [`Store::merge`].
    async fn dyn_merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError>;
    /// See [`Store::exchange`].
    async fn dyn_exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError>;
}

#[async_trait]
impl<S: Store> DynStore for S {
    fn dyn_capability(&self) -> Capability {
        self.capability()
    }

    async fn dyn_decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide(request, now).await
    }

    async fn dyn_decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.decide_batch(batch, now).await
    }

    fn dyn_lane(&self, charge: &Charge<'_>) -> u64 {
        self.lane(charge)
    }

    fn dyn_decide_detached(&self, request: Request<'_>, now: Time) {
        self.decide_detached(request, now);
    }

    async fn dyn_export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.export(limit, key, now).await
    }

    async fn dyn_merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        self.merge(limit, key, snapshot, now).await
    }

    async fn dyn_exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.exchange(request, now).await
    }
}

/// Any store, chosen at run time.
#[derive(Clone)]
pub struct AnyStore(Arc<dyn DynStore>);

impl AnyStore {
    /// Erases the type of a store.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }
}

impl From<Arc<dyn DynStore>> for AnyStore {
    fn from(store: Arc<dyn DynStore>) -> Self {
        Self(store)
    }
}

impl core::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("AnyStore").finish_non_exhaustive()
    }
}

impl Store for AnyStore {
    fn capability(&self) -> Capability {
        self.0.dyn_capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.0.dyn_decide(request, now).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.0.dyn_decide_batch(batch, now).await
    }

    fn lane(&self, charge: &Charge<'_>) -> u64 {
        self.0.dyn_lane(charge)
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.0.dyn_decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.0.dyn_export(limit, key, now).await
    }

    async fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        self.0.dyn_merge(limit, key, snapshot, now).await
    }

    async fn exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.0.dyn_exchange(request, now).await
    }
}

/// A pointer to a store is a store.
macro_rules! pointer_store {
    ($($pointer:ident),*) => {$(
        impl<S: Store> Store for $pointer<S> {
            fn capability(&self) -> Capability {
                (**self).capability()
            }

            fn decide(
                &self,
                request: Request<'_>,
                now: Time,
            ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
                (**self).decide(request, now)
            }

            fn decide_one(
                &self,
                charge: &Charge<'_>,
                clock: &impl Clock,
            ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
                (**self).decide_one(charge, clock)
            }

            fn decide_batch(
                &self,
                batch: &[Run<'_>],
                now: Time,
            ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
                (**self).decide_batch(batch, now)
            }

            fn lane(&self, charge: &Charge<'_>) -> u64 {
                (**self).lane(charge)
            }

            fn decide_detached(&self, request: Request<'_>, now: Time) {
                (**self).decide_detached(request, now);
            }

            fn export(
                &self,
                limit: &Limit,
                key: Key<'_>,
                now: Time,
            ) -> impl Future<Output = Result<Export, StoreError>> + Send {
                (**self).export(limit, key, now)
            }

            fn merge(
                &self,
                limit: &Limit,
                key: Key<'_>,
                snapshot: &Snapshot,
                now: Time,
            ) -> impl Future<Output = Result<(), StoreError>> + Send {
                (**self).merge(limit, key, snapshot, now)
            }

            fn exchange(
                &self,
                request: Request<'_>,
                now: Time,
            ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
                (**self).exchange(request, now)
            }
        }

        impl<S: ImmediateStore> ImmediateStore for $pointer<S> {
            fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
                (**self).charge_now(charge, clock)
            }

            fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
                (**self).decide_now(request, now)
            }
        }
    )*};
}

pointer_store!(Arc);
