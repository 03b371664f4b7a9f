//! Admission of a request: any number of limits, some of them in shadow mode, some of them slots for work in flight.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{Limiter, Permit};
use crate::algorithm::AlgorithmKind;
use crate::charge::{Charge, LeaseId};
use crate::clock::Clock;
use crate::decision::{Decision, RawDecision, Source, Verdict};
use crate::error::{Effect, StoreError};
use crate::store::{Run, RunVerdict, Store};

/// The result of [`Limiter::admit`]: the verdict, and the slots of concurrency limits, which are released when the
/// admission is dropped. Keep it for as long as the work takes.
#[derive(Debug)]
#[must_use = "its slots are released when it is dropped"]
pub struct Admission {
    verdict: Verdict,
    shadowed: Vec<Option<Decision>>,
    shadow_error: Option<StoreError>,
    permits: Vec<Permit>,
}

impl Admission {
    /// Creates an admission by a verdict alone, for requests that need no slot or that no store was asked about.
    pub fn by(verdict: Verdict) -> Self {
        Self { verdict, shadowed: Vec::new(), shadow_error: None, permits: Vec::new() }
    }

    /// Returns the verdict on the enforced charges.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns whether the request may proceed.
    pub fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }

    /// Returns whether the request is denied; nothing was debited then.
    pub fn is_denied(&self) -> bool {
        self.verdict.is_denied()
    }

    /// Returns the decisions on the charges in shadow mode, in order; `None` for one that the store failed to decide.
    /// All of them are allowed; [`Decision::is_shadowed`] says which of them would have been denied.
    pub fn shadowed(&self) -> &[Option<Decision>] {
        &self.shadowed
    }

    /// Returns why the store failed to decide a charge in shadow mode; of several errors, the first. `None` if it has
    /// decided all of them.
    pub fn shadow_error(&self) -> Option<&StoreError> {
        self.shadow_error.as_ref()
    }

    /// Returns the slots of concurrency limits that the request holds.
    pub fn permits(&self) -> &[Permit] {
        &self.permits
    }

    /// Returns the slots, to hold them longer than the admission.
    pub fn into_permits(self) -> Vec<Permit> {
        self.permits
    }
}

/// Charges with leases for those that take a slot, and a permit for each slot with the index of its charge.
struct Asked<'a> {
    charges: SmallVec<[Charge<'a>; 4]>,
    permits: Vec<(usize, Permit)>,
}

impl Asked<'_> {
    /// Returns the permits of the slots that were taken. `decision` returns that on a charge, by its index; `None` if
    /// nothing was debited.
    fn into_permits(self, decision: impl Fn(usize) -> Option<Decision>) -> impl Iterator<Item = Permit> {
        self.permits.into_iter().filter_map(move |(index, permit)| permit.decided(decision(index)))
    }
}

impl<S: Store + 'static, C: Clock + 'static> Limiter<S, C> {
    /// Admits a request: debits all of `enforced` or nothing, and takes the slots of concurrency limits among them,
    /// which the returned admission holds. Each charge of `shadowed` is counted by itself and never denies; if the
    /// request is not admitted, it is refunded. All of it is one call of the store.
    ///
    /// ```
    /// # extern crate tollgate_core as tollgate;
    /// use std::sync::Arc;
    /// # use tollgate::{Limit, Limiter, StoreError, store::Store};
    ///
    /// # async fn export<S: Store + 'static>(
    /// #     limiter: Arc<Limiter<S>>, daily: &Limit, slots: &Limit, planned: &Limit,
    /// # ) -> Result<(), StoreError> {
    /// // daily: Limit::per_day(100), slots: Limit::concurrent(3), planned: Limit::per_minute(5)
    /// let enforced = [daily.charge("user:42"), slots.charge("user:42")];
    /// let admission = limiter.admit(&enforced, &[planned.charge("user:42")]).await?;
    /// if admission.is_denied() {
    ///     return Ok(()); // 429 Too Many Requests
    /// }
    /// // … the export; the slot is free again when `admission` is dropped
    /// # Ok(())
    /// # }
    /// ```
    pub async fn admit(
        self: &Arc<Self>,
        enforced: &[Charge<'_>],
        shadowed: &[Charge<'_>],
    ) -> Result<Admission, StoreError> {
        let (asked, mut shadow) = (self.ask(enforced), self.ask(shadowed));
        let (verdict, counted) = self.decide_both(&asked.charges, &shadow.charges).await;
        if !verdict.as_ref().is_ok_and(Verdict::is_allowed) {
            self.reverse(&shadow.charges, &counted);
        }
        let count = |index| decision(&counted, index);
        let charges = shadow.charges.iter().enumerate();
        let shadowed = charges.map(|(index, charge)| Some(count(index)?.shadowed(charge))).collect();
        let shadow_error = counted.iter().find_map(|verdict| verdict.as_ref().err()).cloned();
        // Dropped as they are: the slots may have been taken.
        let is_unknown = |error: &StoreError| error.effect() == Effect::Unknown;
        let is_known = |index: usize| !counted[index].as_ref().is_err_and(is_unknown);
        shadow.permits.retain(|(index, _)| is_known(*index));
        // Dropped, and thereby released, unless the request is admitted.
        let shadow_permits: Vec<_> = shadow.into_permits(count).collect();
        let permits = match &verdict {
            Ok(verdict) if verdict.is_allowed() => {
                let taken = asked.into_permits(|index| verdict.decisions().get(index).copied());
                taken.chain(shadow_permits).collect()
            }
            // Dropped as they are: the slots may have been taken.
            Err(error) if error.effect() == Effect::Unknown => Vec::new(),
            Ok(_) | Err(_) => asked.into_permits(|_| None).collect(),
        };
        Ok(Admission { verdict: verdict?, shadowed, shadow_error, permits })
    }

    /// Gives each charge that takes a slot a lease and a permit. The slot is held from before the call on, so that it
    /// is released as well if the caller goes away during the call, or if the call fails with an unknown effect.
    fn ask<'a>(self: &Arc<Self>, charges: &[Charge<'a>]) -> Asked<'a> {
        let mut asked = Asked { charges: charges.into(), permits: Vec::new() };
        for (index, charge) in asked.charges.iter_mut().enumerate() {
            if charge.takes_unreleasable_slot() {
                *charge = charge.with_lease(LeaseId::unique());
                let held = RawDecision::allow(charge, Source::Store).into();
                asked.permits.push((index, Permit::new(Arc::clone(self) as _, charge, held)));
            }
        }
        asked
    }

    /// Decides both parts in one call. The verdicts of the second part are one per charge.
    async fn decide_both(
        &self,
        enforced: &[Charge<'_>],
        shadowed: &[Charge<'_>],
    ) -> (Result<Verdict, StoreError>, Vec<Result<Verdict, StoreError>>) {
        let now = self.clock.now();
        if shadowed.is_empty() {
            let verdict = match enforced {
                [] => Ok(Verdict::new([], now)),
                charges => self.check_all(charges).await,
            };
            return (verdict, Vec::new());
        }
        let parts = core::iter::once(enforced).chain(shadowed.iter().map(core::slice::from_ref));
        let requests = parts.filter(|charges| !charges.is_empty());
        let runs: Vec<Run<'_>> = requests.map(|charges| Run::new(self.request(charges), 1)).collect();
        let results = self.store.decide_batch(&runs, now).await.into_iter();
        let mut verdicts = results.map(|run| run.and_then(RunVerdict::into_single));
        let verdict = if enforced.is_empty() {
            Ok(Verdict::new([], now))
        } else {
            let verdict = verdicts.next().unwrap_or_else(|| Err(StoreError::no_decision()));
            self.report(enforced, verdict).map(|verdict| verdict.with_names(enforced))
        };
        let mut counted = Vec::with_capacity(shadowed.len());
        counted.resize_with(shadowed.len(), || {
            verdicts.next().unwrap_or_else(|| Err(StoreError::no_decision()))
        });
        for (charge, counted) in shadowed.iter().zip(&counted) {
            match counted.as_ref().map(|verdict| verdict.decisions().first()) {
                Ok(Some(decision)) => self.report_decision(charge, &decision.shadowed(charge)),
                Ok(None) => self.report_error(core::slice::from_ref(charge), &StoreError::no_decision()),
                Err(error) => self.report_error(core::slice::from_ref(charge), error),
            }
        }
        (verdict, counted)
    }

    /// Refunds what shadow mode counted for a request that is not admitted. Slots are released by their permits.
    fn reverse(&self, shadowed: &[Charge<'_>], counted: &[Result<Verdict, StoreError>]) {
        for (charge, verdict) in shadowed.iter().zip(counted) {
            let Ok(verdict) = verdict else { continue };
            let decision = verdict.decisions().first();
            let refund = decision.and_then(|decision| charge.compensation(decision, verdict.decided_at()));
            if let Some(refund) = refund
                && charge.limit.kind() != AlgorithmKind::Concurrency
            {
                self.decide_detached(&[refund]);
            }
        }
    }
}

/// Returns the decision on a charge in shadow mode. `None` if it failed.
fn decision(counted: &[Result<Verdict, StoreError>], index: usize) -> Option<Decision> {
    counted.get(index)?.as_ref().ok()?.decisions().first().copied()
}
