//! Requests over several entities: each is a partition of its own.

use std::sync::Arc;

use tollgate_core::{
    Charge, ErrorKind, OperationId, OwnedRequest, Part, Places, Request, Run, StoreError, Time, Verdict,
    decide_in_places,
};

use crate::decide;
use crate::key;
use crate::store::Inner;

/// Decides a request over several entities. In a task of its own: a caller that goes away leaves nothing half done.
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
        let message = "the task that decides for several entities ended before it was done";
        Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect().caused_by(gone))
    })
}

impl Places for Inner {
    type Place = Vec<u8>;

    fn place(&self, charge: &Charge<'_>) -> Vec<u8> {
        key::partition(charge.key())
    }

    async fn ask(&self, partition: &Vec<u8>, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let answer = decide::decide(self, partition, &[Run::new(request, 1)], now).await.pop();
        let verdict = answer.and_then(|answer| answer.map(|run| run.into_verdicts().pop()).transpose());
        verdict.unwrap_or_else(|| Err(StoreError::new(ErrorKind::Internal, "a request without a verdict")))
    }

    async fn give_back(
        &self,
        part: &Part<'_, Vec<u8>>,
        charges: &[Charge<'_>],
        id: Option<OperationId>,
        now: Time,
    ) -> Result<Option<Verdict>, StoreError> {
        decide::give_back(self, &part.place, &part.charges, charges, id, now).await
    }
}
