//! Requests and batches over several places, for stores that are atomic in each of them only.
//!
//! A request over several places is decided in all of them at the same time; if one denies, the others are refunded.
//! Never more than the limits passes; for a moment, a debit may be visible that is refunded right after. What cannot be
//! refunded (a reset, a release) is done last, when all other places have granted. A request in which several places do
//! so and may still deny is unsupported.

use alloc::vec::Vec;
use core::future::Future;

use super::{Run, RunVerdict};
use crate::charge::{Charge, IdempotencyKey};
use crate::decision::Verdict;
use crate::error::StoreError;
use crate::time::Time;

/// A store that is atomic in each of several places: servers, slots or partitions.
pub trait Places: Send + Sync + 'static {
    /// Where charges are decided together.
    type Place: PartialEq + Send + Sync;

    /// Returns where a charge is decided.
    fn place(&self, charge: &Charge<'_>) -> Self::Place;

    /// Returns where all of these charges are decided, if that is one place.
    fn common_place(&self, charges: &[Charge<'_>]) -> Option<Self::Place> {
        let (first, rest) = charges.split_first()?;
        let place = self.place(first);
        rest.iter().all(|charge| self.place(charge) == place).then_some(place)
    }

    /// Returns an error if this store cannot decide the run, before anything is sent.
    fn check_run(&self, run: &Run<'_>) -> Result<(), StoreError>;

    /// Decides runs whose charges all live in one place, in order.
    fn decide_runs(
        &self,
        place: &Self::Place,
        runs: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send;

    /// Refunds what a part was granted, by these charges. If the request has an idempotency key, its record is deleted
    /// first: a repetition must not get an answer that no longer holds. `None` if there was no record, because a
    /// repetition has been refunded already.
    fn compensate(
        &self,
        part: &Part<'_, Self::Place>,
        charges: &[Charge<'_>],
        key: Option<IdempotencyKey>,
        now: Time,
    ) -> impl Future<Output = Result<Option<Verdict>, StoreError>> + Send;
}

/// The charges of a request that live in one place.
#[derive(Debug)]
#[non_exhaustive]
pub struct Part<'a, P> {
    /// The place.
    pub place: P,
    /// The charges, in the order of the request.
    pub charges: Vec<Charge<'a>>,
    /// Their indexes in the request.
    #[cfg_attr(
        not(feature = "tokio"),
        expect(dead_code, reason = "requests over several places need tasks")
    )]
    pub(super) indexes: Vec<usize>,
}
