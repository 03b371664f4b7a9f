//! The interface between limiters and stores, for authors of stores and of wrappers around stores.
//!
//! Applications need little of this module: they hold a [`Limiter`](crate::Limiter), and name [`Store`] or
//! [`ImmediateStore`] as a bound where their own code is generic over the store.
//!
//! # Layout
//!
//! - [`Store`], [`ImmediateStore`]: the contract; [`DynStore`]: its object-safe form;
//!   [`AnyStore`]: a store chosen at run time.
//! - [`Run`], [`RunVerdict`], [`decide_one_by_one`] (`batch`): ordered batches of independent requests.
//! - [`Export`], [`apply_then_export`] (`export`): states that leave a store, for wrappers that keep replicas.
//! - [`Places`], [`Part`] (`places`): requests over several servers or partitions, for stores that are atomic in
//!   each of them only; `across` decides them (feature `tokio`).
//! - [`Capability`] (`capability`): what a store can do, as data.
//! - [`State`], [`Snapshot`], [`settle`], [`state_indexes`]: the pure functions that every store agrees with.
//! - [`Flow`], [`Tat`], [`PlainTake`]: algorithms whose whole state is one theoretical arrival time.
//! - [`WindowLimit`], [`Windows`], [`WindowTake`]: fixed and sliding windows, whose state is a few plain numbers.
//! - [`Parameters`]: a limit's parameters, to send to a server.
//! - [`RawDecision`]: decisions from raw numbers, and decisions that no store was asked for.
//! - [`OwnedRequest`], [`OwnedCharge`], [`OwnedKey`] (`owned`): requests that outlive their caller.

#[cfg(feature = "tokio")]
mod across;
mod any;
mod batch;
mod capability;
mod export;
mod owned;
mod places;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

#[cfg(feature = "tokio")]
pub use across::{decide_across, decide_batch_across, decide_detached_across};
pub use any::{AnyStore, DynStore};
pub use batch::{Run, RunVerdict, decide_one_by_one};
pub use capability::{AlgorithmSet, Atomicity, Capability, ClockSource, IdempotencyRetention};
pub use export::{Export, apply_then_export};
pub use owned::{OwnedCharge, OwnedKey, OwnedRequest};
pub use places::{Part, Places};

pub use crate::algorithm::{Flow, PlainTake, Tat, WindowLimit, WindowTake, Windows};
pub use crate::decision::RawDecision;
pub use crate::limit::Parameters;
pub use crate::settle::{settle, state_indexes};
pub use crate::state::{Snapshot, State};

use crate::charge::{Charge, IdempotencyKey, Request};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::event::Observer;
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Time;

/// Keeps the state of limits, and decides requests atomically.
///
/// Only data is passed to a store, never closures. A call carries one request or an ordered batch of independent ones,
/// and each request gets its own verdict.
///
/// # What every store promises
///
/// - **Decisions are those of the pure function** ([`State::apply`], and [`settle`] for requests), for some order of
///   all calls: never more is admitted than that function admits for the same arrivals. A store that trades this for
///   something else says so in its [`Capability`].
/// - **All charges of a request are debited or none is.** [`Capability::atomicity`] says whether that is one atomic
///   step, or is kept across entities by compensating refunds. The same key twice in one request counts twice.
/// - **State belongs to a limit's name, algorithm and whether it has a block time ([`id`](Limit::id)), and to a key.**
///   Keys are any bytes of any length, and different keys never share state. A limit whose parameters change continues
///   with the state it finds, and never grants more than its new capacity.
/// - **Idle state expires by itself**, as soon as it equals a fresh one and never earlier. Whether it is dropped then
///   or later makes no difference to a caller, with one exception that is stated below.
/// - **A clock that runs backwards** never adds tokens and never causes a panic.
/// - **A repeated [idempotency key](crate::IdempotencyKey)** is not executed again, for as long as
///   [`Capability::idempotency`] says. Outcome and granted amount are those of the first call; the other fields may
///   be current. A call that changed nothing need not be remembered.
/// - **A failed call says whether it may have taken effect** ([`StoreError::effect`]). With [`Effect::None`] nothing
///   was debited.
/// - **A future that is dropped** may have taken effect or not, but never partially: a store that compensates across
///   entities does so even then.
/// - **Instants are those of the deciding clock** ([`Capability::clock_source`]): in [`Action`](crate::Action), in
///   snapshots, and in [`Verdict::decided_at`]. A debit dated in the past counts in full if the bucket
///   has been used since then. Otherwise the tokens refilled since its instant are subtracted. The exception: a store
///   may drop the state of a bucket that is full again, and with it when the bucket was last used. A debit that is
///   dated before that use may count from either instant. No trial of the conformance suite depends on which.
/// - What an algorithm does not support ([`Request::supported`]) is an error of kind
///   [`Unsupported`](crate::ErrorKind::Unsupported), before anything is debited.
///
/// [`Effect::None`]: crate::Effect::None
///
/// # For wrappers
///
/// A wrapper is a store around a store. It forwards what it does not change, reports the capabilities of the whole,
/// and marks decisions that the store did not make ([`RawDecision::with_source`]). Its `impl Store` carries
/// `#[deny(clippy::missing_trait_methods)]`, so that a default method never becomes a silent slow path.
pub trait Store: Send + Sync {
    /// Returns what this store can do.
    fn capability(&self) -> Capability;

    /// Decides one request. `now` is the caller's time; [`Capability::clock_source`] says whether it is used.
    fn decide(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// Decides a single charge: the same as a request of that charge without an idempotency key.
    ///
    /// A fast path: it avoids building a [`Verdict`], and lets the store read the clock itself
    /// ([`ImmediateStore::charge_now`] says why). To decide at a given instant, pass a [`Time`], which is a [`Clock`].
    fn decide_one(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move {
            let charges = [*charge];
            self.decide(Request::new(&charges), clock.now()).await?.into_single()
        }
    }

    /// Decides independent requests in order, each as often as its run says. Returns exactly one result per run, in
    /// order; a run that fails does not affect the others. A store for which a batch is no cheaper than its requests
    /// calls [`decide_one_by_one`].
    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send;

    /// Returns where a charge is decided: charges with the same route (a server, a partition) go into the same call.
    /// For wrappers that batch. Default: 0 for every charge, so that all charges share one
    /// route.
    fn route(&self, charge: &Charge<'_>) -> u64 {
        let _ = charge;
        0
    }

    /// Sends the events of this store to `observer` from now on. For wrappers, which keep the first observer that they
    /// get, and attach it to the store that they wrap, too. Default: drops it, for a store without events.
    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        let _ = observer;
    }

    /// Decides a request whose result nobody awaits: the compensating refund of a cancelled caller, or the release of a
    /// dropped permit. A store that cannot do that without blocking drops the request, which over-counts and never
    /// over-admits. Default: drops it.
    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let _ = (request, now);
    }

    /// Returns the state of a key, as raw words.
    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Export, StoreError>> + Send;

    /// Applies deltas that were granted elsewhere, and returns the resulting state of each charge's key, in order.
    ///
    /// For wrappers that decide on a replica of the state: deltas are debits and refunds, which are never denied. As
    /// [`decide`](Self::decide) otherwise; a repeated [idempotency key](crate::IdempotencyKey) applies nothing and
    /// returns the current states. Default: [`apply_then_export`], one call after the other. Stores that can do both in
    /// one round trip override it.
    fn apply_deltas(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
        apply_then_export(self, request, now)
    }

    /// Forgets idempotency keys of requests and deltas that this store has answered, so that it need not keep them until
    /// they expire. Each comes with the key of the first charge of its request; all charges of that request have the
    /// same [`route`](Self::route). For wrappers that make many such calls.
    ///
    /// The caller promises that no copy of the request may still arrive: it was sent once, and answered. No state
    /// changes, and other idempotency keys remain. A store need not do it, or not for all of them, and a wrapper may
    /// drop the call: keys that are not forgotten expire. Default: does nothing.
    fn forget_idempotency_keys(
        &self,
        answered: &[(Key<'_>, IdempotencyKey)],
    ) -> impl Future<Output = ()> + Send {
        let _ = answered;
        core::future::ready(())
    }
}

/// A store that never waits: it can be called without a runtime.
pub trait ImmediateStore: Store {
    /// Decides one charge. An action that the algorithm does not support is answered like a peek.
    ///
    /// The store reads the clock itself, after it has hashed the key: the later the reading, the less it is out of
    /// date, and reading a processor's counter stalls the instructions that follow.
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision;

    /// Decides one request.
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
}
