//! Requests whose charges live in several places.

use std::sync::Arc;

use tollgate_core::{
    Charge, ErrorKind, Key, OperationId, OwnedRequest, Part, Places, Request, Run, StoreError, Time, Verdict,
    decide_in_places,
};

use crate::call::Call;
use crate::script;
use crate::store::Inner;
use crate::topology::Place;

/// Decides a request in several places. In a task of its own: a caller that goes away leaves nothing half done.
pub(crate) async fn decide(
    inner: &Arc<Inner>,
    request: OwnedRequest,
    now: Time,
) -> Result<Verdict, StoreError> {
    let inner = Arc::clone(inner);
    let task = tokio::spawn(async move {
        let charges = request.charges();
        decide_in_places(&*inner, request.request(&charges), now).await
    });
    task.await.unwrap_or_else(|gone| {
        let message = "the task that decides in several places ended before it was done";
        Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect().caused_by(gone))
    })
}

impl Places for Inner {
    type Place = Place;

    fn place(&self, charge: &Charge<'_>) -> Place {
        Self::place(self, charge)
    }

    async fn ask(&self, place: &Place, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let mut answers = self.decide_at(*place, &[Run::new(request, 1)], now).await;
        let verdict =
            answers.pop().and_then(|answer| answer.map(|run| run.into_verdicts().pop()).transpose());
        verdict.unwrap_or_else(|| Err(StoreError::new(ErrorKind::Internal, "a request without a verdict")))
    }

    async fn give_back(
        &self,
        part: &Part<'_, Place>,
        charges: &[Charge<'_>],
        id: Option<OperationId>,
        now: Time,
    ) -> Result<Option<Verdict>, StoreError> {
        if let (Some(id), Some(first)) = (id, part.charges.first())
            && !disown(self, part.place, first.key(), id).await?
        {
            return Ok(None);
        }
        // Named, so that a lost answer can be asked for again.
        let request = Request::new(charges).with_id(OperationId::unique());
        self.ask(&part.place, request, now).await.map(Some)
    }
}

/// Forgets that an operation was granted. Says whether there was something to forget.
async fn disown(inner: &Inner, place: Place, key: Key<'_>, id: OperationId) -> Result<bool, StoreError> {
    let call = Call {
        script: script::disown(),
        keys: vec![inner.names.operation(key, id)],
        arguments: Vec::new(),
        // Whose answer is lost may have forgotten it, and nobody else gives it back then.
        repeatable: false,
    };
    let answer = inner.topology.run(place, &call, inner.deadline()).await?;
    Ok(answer.bytes()? == b"1")
}
