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
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::state::Snapshot;
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
/// - **A repeated [operation id](crate::OperationId)** is answered as the first call was, and not executed again, for at least
///   [`OPERATION_MEMORY`](crate::OPERATION_MEMORY) if [`Capability::operation_ids`] says so.
/// - **A failed call says whether it may have taken effect** ([`StoreError::effect`]). Without that doubt,
///   nothing was debited.
/// - What an algorithm cannot do ([`Request::supported`]) is an error of kind
///   [`Unsupported`](crate::ErrorKind::Unsupported), before anything is debited.
///
/// # For wrappers
///
/// A store around a store passes on what it does not change, `decide_batch` above all: the default would turn
/// one call into many. It reports the capabilities of the whole.
pub trait Store: Send + Sync {
    /// What this store can do.
    fn capability(&self) -> Capability;

    /// Decides one request. `now` is the caller's time; [`Capability::timekeeper`] says whether it counts.
    fn decide(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// Decides independent requests in order, each as often as it says. One answer per run, in the order of
    /// the runs; a run that fails fails alone.
    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
        async move {
            let mut answers = Vec::with_capacity(batch.len());
            for run in batch {
                answers.push(decide_run(self, run, now).await);
            }
            answers
        }
    }

    /// Decides a request whose answer nobody waits for, as far as that is possible without waiting: a
    /// cancelled caller giving back its reservation. What cannot be done that way is dropped, which errs on the
    /// side of the limit.
    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let _ = (request, now);
    }

    /// The state of a key, in raw words; `None` if it equals a fresh one.
    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Option<Snapshot>, StoreError>> + Send;

    /// Takes over what another view of the key knows: the tighter of both. Merging twice changes nothing.
    fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A run of equal requests, which may travel as one.
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

/// What became of a run: how many of its requests passed, and what the last of them and the first denied
/// one were told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunVerdict {
    /// How many passed.
    pub passed: u32,
    /// The verdict of the last one that passed.
    pub last_allowed: Option<Verdict>,
    /// The verdict of the first one that did not.
    pub first_denied: Option<Verdict>,
}

impl RunVerdict {
    /// Adds the next request's verdict.
    pub fn push(&mut self, verdict: Verdict) {
        if verdict.is_allowed() {
            self.passed += 1;
            self.last_allowed = Some(verdict);
        } else if self.first_denied.is_none() {
            self.first_denied = Some(verdict);
        }
    }
}

async fn decide_run<S: Store + ?Sized>(
    store: &S,
    run: &Run<'_>,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut answer = RunVerdict::default();
    for _ in 0..run.count {
        answer.push(store.decide(run.request, now).await?);
    }
    Ok(answer)
}

/// A store that never waits: it can be asked without a runtime.
pub trait ImmediateStore: Store {
    /// Decides one charge. What the algorithm cannot do is answered as a look.
    fn charge_now(&self, charge: &Charge<'_>, now: Time) -> Decision;

    /// Decides one request.
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
}

/// The erased twin of [`Store`], for configuration at run time: `Arc<dyn DynStore>` and `Box<dyn DynStore>` are stores.
#[async_trait]
pub trait DynStore: Send + Sync {
    /// See [`Store::capability`].
    fn dyn_capability(&self) -> Capability;
    /// See [`Store::decide`].
    async fn dyn_decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
    /// See [`Store::decide_batch`].
    async fn dyn_decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>>;
    /// See [`Store::decide_detached`].
    fn dyn_decide_detached(&self, request: Request<'_>, now: Time);
    /// See [`Store::export`].
    async fn dyn_export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> Result<Option<Snapshot>, StoreError>;
    /// See [`Store::merge`].
    async fn dyn_merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError>;
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

    fn dyn_decide_detached(&self, request: Request<'_>, now: Time) {
        self.decide_detached(request, now);
    }

    async fn dyn_export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> Result<Option<Snapshot>, StoreError> {
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
}

impl Store for dyn DynStore + '_ {
    fn capability(&self) -> Capability {
        self.dyn_capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.dyn_decide(request, now).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.dyn_decide_batch(batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.dyn_decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Option<Snapshot>, StoreError> {
        self.dyn_export(limit, key, now).await
    }

    async fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        self.dyn_merge(limit, key, snapshot, now).await
    }
}

/// A pointer to a store is a store.
macro_rules! pointer_store {
    ($($pointer:ident),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer<S> {
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

            fn decide_batch(
                &self,
                batch: &[Run<'_>],
                now: Time,
            ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
                (**self).decide_batch(batch, now)
            }

            fn decide_detached(&self, request: Request<'_>, now: Time) {
                (**self).decide_detached(request, now);
            }

            fn export(
                &self,
                limit: &Limit,
                key: Key<'_>,
                now: Time,
            ) -> impl Future<Output = Result<Option<Snapshot>, StoreError>> + Send {
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
        }

        impl<S: ImmediateStore + ?Sized> ImmediateStore for $pointer<S> {
            fn charge_now(&self, charge: &Charge<'_>, now: Time) -> Decision {
                (**self).charge_now(charge, now)
            }

            fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
                (**self).decide_now(request, now)
            }
        }
    )*};
}

pointer_store!(Arc, Box);
