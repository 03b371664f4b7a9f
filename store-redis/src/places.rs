//! Requests whose charges live on several servers or slots: what core's `store::Places` asks of this store.

use tollgate_core::store::{Part, Places, Run, RunVerdict};
use tollgate_core::{Charge, ErrorKind, IdempotencyKey, Key, Request, StoreError, Time, Verdict};

use crate::call::Call;
use crate::script;
use crate::store::{Inner, MOST_CHARGES};
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
        if charges.len() > MOST_CHARGES - 1 {
            let why = format!(
                "{} charges in one request are too many for one step on redis; use at most {}",
                charges.len(),
                MOST_CHARGES - 1
            );
            return Err(StoreError::new(ErrorKind::Unsupported, why));
        }
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
            && !disown(self, part.place, first.key(), key).await?
        {
            return Ok(None);
        }
        // With a key of its own, so that a lost answer can be asked for again.
        let request = Request::new(charges).with_idempotency_key(IdempotencyKey::unique());
        let mut results = self.decide_at(part.place, &[Run::new(request, 1)], now).await;
        let verdict = results.pop().transpose()?.and_then(|run| run.into_verdicts().pop());
        Ok(verdict)
    }
}

/// Deletes the record of an idempotency key. Returns whether there was one.
async fn disown(inner: &Inner, place: Place, key: Key<'_>, id: IdempotencyKey) -> Result<bool, StoreError> {
    let call = Call {
        script: script::disown(),
        keys: vec![inner.names.operation(key, id)],
        arguments: Vec::new(),
        // A call whose answer is lost may have deleted it, and nobody else refunds it then.
        repeatable: false,
    };
    let answer = inner.topology.run(place, &call, inner.deadline()).await?;
    Ok(answer.bytes()? == b"1")
}
