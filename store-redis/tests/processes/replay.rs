//! Replays all records with the pure function, in the order of the server's time.

use std::collections::HashMap;

use tollgate_conformance::Pure;
use tollgate_core::{Charge, Decision, IdempotencyKey};

use crate::limits::{Mix, Sample};
use crate::record::{Record, RecordedRun};

/// The state that the server must have had.
#[derive(Clone, Default)]
struct Expected {
    states: Pure,
    results: HashMap<IdempotencyKey, Vec<Decision>>,
}

pub(crate) fn check(sample: &Sample, processes: &[Vec<Record>]) {
    let mut records: Vec<(usize, &Record)> = processes
        .iter()
        .enumerate()
        .flat_map(|(process, records)| records.iter().map(move |record| (process, record)))
        .collect();
    records.sort_by_key(|(_, record)| record.at);
    let (mut expected, mut ties) = (Expected::default(), 0);
    for group in records.chunk_by(|(_, one), (_, other)| one.at == other.at) {
        let group: Vec<_> = group.iter().map(|(_, record)| *record).collect();
        // A repeated request has the time of the first one.
        let decided = |record: &&&Record| record.runs.iter().all(|run| run.key.is_none());
        ties += group.iter().filter(decided).count().saturating_sub(1);
        expected = expected.after(sample, &group).unwrap_or_else(|difference| {
            panic!("{} at {}: {difference}", sample.name, group[0].at);
        });
    }
    // A server executes one script at a time, and each takes longer than a microsecond of its clock, so equal times are
    // rare. Among equal times, any order that fits is accepted; many of them would prove nothing.
    assert!(ties * 100 <= records.len(), "{ties} of {} calls at the same instant as another", records.len());
    let changes = records.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!(changes > 100, "only {changes} changes between processes: they did not run concurrently");
    let (allowed, denied) = outcomes(&records);
    assert!(allowed > 100 && denied > 100, "{allowed} allowed, {denied} denied: too few of either");
    if sample.mix == Mix::Takes {
        check_sum(sample, &records);
    }
}

impl Expected {
    /// Returns the state after records of one instant, in the first order that fits.
    fn after(&self, sample: &Sample, records: &[&Record]) -> Result<Self, String> {
        let Some(last) = records.len().checked_sub(1) else { return Ok(self.clone()) };
        let mut difference = String::new();
        for first in 0..=last {
            let mut rest = records.to_vec();
            let record = rest.remove(first);
            let mut next = self.clone();
            let result = record
                .runs
                .iter()
                .try_for_each(|run| next.run(sample, run, record))
                .and_then(|()| if last == 0 { Ok(next) } else { next.after(sample, &rest) });
            match result {
                Ok(next) => return Ok(next),
                Err(problem) => difference = problem,
            }
        }
        Err(difference)
    }

    fn run(&mut self, sample: &Sample, run: &RecordedRun, record: &Record) -> Result<(), String> {
        let known = run.key.and_then(|key| self.results.get(&key));
        if known.is_some_and(|known| *known == run.decisions) {
            return Ok(());
        }
        if let Some(known) = known
            && known.iter().all(Decision::is_allowed)
        {
            return Err(format!("{run:?}\nwas executed before: {known:?}"));
        }
        // A denial may have no idempotency record, and is decided again then.
        let charges: Vec<Charge<'_>> = run.asks.iter().map(|ask| sample.charge(ask)).collect();
        let expected: Vec<Decision> = (0..run.count)
            .flat_map(|_| self.states.decide(&charges, record.at).decisions().to_vec())
            .collect();
        if run.decisions != expected {
            return Err(format!("{run:?}\nthe pure function returns: {expected:?}"));
        }
        if let Some(key) = run.key {
            self.results.insert(key, expected);
        }
        Ok(())
    }
}

fn outcomes(records: &[(usize, &Record)]) -> (usize, usize) {
    let decisions = || records.iter().flat_map(|(_, record)| &record.runs).flat_map(|run| &run.decisions);
    let allowed = decisions().filter(|decision| decision.is_allowed()).count();
    (allowed, decisions().count() - allowed)
}

/// Asserts that no more than the capacity and the refill was admitted, by the server's clock.
fn check_sum(sample: &Sample, records: &[(usize, &Record)]) {
    let limit = &sample.limits[0];
    for entity in 0..crate::limits::ENTITIES.len() {
        let of_entity: Vec<_> = records
            .iter()
            .filter(|(_, record)| record.runs[0].asks[0].entity == entity)
            .map(|(_, record)| record)
            .collect();
        let admitted: u64 =
            of_entity.iter().map(|record| u64::from(record.runs[0].decisions[0].granted())).sum();
        let elapsed = of_entity[of_entity.len() - 1].at.since(of_entity[0].at);
        let refilled = elapsed.as_nanos() * u128::from(limit.count()) / limit.period().as_nanos();
        let max = u128::from(limit.capacity()) + refilled;
        assert!(u128::from(admitted) <= max, "{admitted} admitted in {elapsed:?}, at most {max} expected");
    }
}
