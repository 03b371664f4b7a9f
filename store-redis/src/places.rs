//! Requests whose charges live on several servers or slots: the [`Places`] implementation.

use tollgate_core::store::{Part, Places, Run, RunVerdict};
use tollgate_core::{Charge, ErrorKind, IdempotencyKey, Key, Request, StoreError, Time, Verdict};

use crate::script;
use crate::script_call::ScriptCall;
use crate::store::{Inner, MAX_CHARGES};
use crate::stored_form::StoredForm;
use crate::topology::Place;

impl Places for Inner {
    type Place = Place;

    fn place(&self, charge: &Charge<'_>) -> Place {
        if self.topology.is_one_place() {
            return Place::default();
        }
        self.topology.place(&self.names.state(charge))
    }

    fn check_run(&self, run: &Run<'_>) -> Result<(), StoreError> {
        let charges = run.request().charges();
        if charges.len() > MAX_CHARGES - 1 {
            let why = format!(
                "{} charges in one request are too many for one script call; use at most {}",
                charges.len(),
                MAX_CHARGES - 1
            );
            return Err(StoreError::new(ErrorKind::Unsupported, why));
        }
        charges.iter().try_for_each(|charge| StoredForm::of(charge.limit()).map(drop))?;
        run.request().supported()
    }

    async fn decide_runs(
        &self,
        place: &Place,
        runs: &[Run<'_>],
        now: Time,
    ) -> Vec<Result<RunVerdict, StoreError>> {
        self.decide_at(*place, runs, now).await
    }

    async fn compensate(
        &self,
        part: &Part<'_, Place>,
        charges: &[Charge<'_>],
        key: Option<IdempotencyKey>,
        now: Time,
    ) -> Result<Option<Verdict>, StoreError> {
        if let (Some(key), Some(first)) = (key, part.charges.first())
            && !delete_record(self, part.place, first.key(), key).await?
        {
            return Ok(None);
        }
        // With an idempotency key of its own, so that the refund can be repeated if its reply is lost.
        let request = Request::new(charges).with_idempotency_key(IdempotencyKey::unique());
        let mut results = self.decide_at(part.place, &[Run::new(request, 1)], now).await;
        let verdict = results.pop().transpose()?.and_then(|run| run.into_verdicts().pop());
        let missing = || StoreError::new(ErrorKind::Internal, "redis returned no verdict for a refund");
        verdict.map(Some).ok_or_else(missing)
    }
}

/// Deletes the record of an idempotency key. Returns whether there was one.
async fn delete_record(
    inner: &Inner,
    place: Place,
    key: Key<'_>,
    idempotency_key: IdempotencyKey,
) -> Result<bool, StoreError> {
    let call = ScriptCall {
        script: script::delete_record(),
        keys: vec![inner.names.idempotency_record(key, idempotency_key)],
        arguments: Vec::new(),
        // If the reply is lost, the record may be deleted, and a repetition would not refund.
        repeatable: false,
    };
    let reply = inner.topology.run(place, &call, inner.deadline()).await?;
    Ok(reply.bytes()? == b"1")
}
