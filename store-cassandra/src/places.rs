//! Requests over several entities, each of which is a partition.

use tollgate_core::store::{Part, Places, Run, RunVerdict};
use tollgate_core::{Charge, IdempotencyKey, StoreError, Time, Verdict};

use crate::decide;
use crate::key;
use crate::store::Inner;

impl Places for Inner {
    type Place = Vec<u8>;

    fn place(&self, charge: &Charge<'_>) -> Vec<u8> {
        key::partition(charge.key())
    }

    fn common_place(&self, charges: &[Charge<'_>]) -> Option<Vec<u8>> {
        let (first, rest) = charges.split_first()?;
        rest.iter().all(|charge| charge.key() == first.key()).then(|| key::partition(first.key()))
    }

    fn check_run(&self, run: &Run<'_>) -> Result<(), StoreError> {
        decide::check_run(run)
    }

    async fn decide_runs(
        &self,
        partition: &Vec<u8>,
        runs: &[Run<'_>],
        now: Time,
    ) -> Vec<Result<RunVerdict, StoreError>> {
        decide::decide_runs(self, partition, runs, now).await
    }

    async fn compensate(
        &self,
        part: &Part<'_, Vec<u8>>,
        charges: &[Charge<'_>],
        key: Option<IdempotencyKey>,
        now: Time,
    ) -> Result<Option<Verdict>, StoreError> {
        decide::compensate(self, &part.place, &part.charges, charges, key, now).await
    }
}
