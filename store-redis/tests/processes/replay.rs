//! All records in the order of the server's clock, through the pure function.

use std::collections::HashMap;

use tollgate_conformance::Pure;
use tollgate_core::{Charge, Decision, IdempotencyKey};

use crate::limits::{Mix, Sample};
use crate::record::{Record, Turn};

/// What the server must have known.
#[derive(Clone, Default)]
struct Expected {
    states: Pure,
    operations: HashMap<IdempotencyKey, Vec<Decision>>,
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
        ties += group.len() - 1;
        expected = expected.after(sample, &group).unwrap_or_else(|difference| {
            panic!("{} at {}: {difference}", sample.name, group[0].at);
        });
    }
    // A server executes one script after the other, and each takes longer than its clock's microsecond, so equal
    // instants are next to impossible. Where there are some, any order of them will do; many would prove nothing.
    assert!(ties * 100 <= records.len(), "{ties} of {} calls at the same instant as another", records.len());
    let changes = records.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!(changes > 100, "the processes took turns {changes} times only: not at the same time");
    let (allowed, denied) = outcomes(&records);
    assert!(allowed > 100 && denied > 100, "{allowed} allowed, {denied} denied: too few of either to tell");
    if sample.mix == Mix::Takes {
        check_sum(sample, &records);
    }
}

impl Expected {
    /// What it is after records of one instant, in the first order that fits.
    fn after(&self, sample: &Sample, records: &[&Record]) -> Result<Self, String> {
        let Some(last) = records.len().checked_sub(1) else { return Ok(self.clone()) };
        let mut difference = String::new();
        for first in 0..=last {
            let mut rest = records.to_vec();
            let record = rest.remove(first);
            let mut next = self.clone();
            let answer = record
                .turns
                .iter()
                .try_for_each(|turn| next.turn(sample, turn, record))
                .and_then(|()| if last == 0 { Ok(next) } else { next.after(sample, &rest) });
            match answer {
                Ok(next) => return Ok(next),
                Err(problem) => difference = problem,
            }
        }
        Err(difference)
    }

    fn turn(&mut self, sample: &Sample, turn: &Turn, record: &Record) -> Result<(), String> {
        let known = turn.id.and_then(|id| self.operations.get(&id));
        if known.is_some_and(|known| *known == turn.told) {
            return Ok(());
        }
        if let Some(known) = known
            && known.iter().all(Decision::is_allowed)
        {
            return Err(format!("{turn:?}\nwas executed before: {known:?}"));
        }
        // A denial need not be remembered, and then it is decided anew.
        let charges: Vec<Charge<'_>> = turn.asks.iter().map(|ask| sample.charge(ask)).collect();
        let right: Vec<Decision> = (0..turn.count)
            .flat_map(|_| self.states.decide(&charges, record.at).decisions().to_vec())
            .collect();
        if turn.told != right {
            return Err(format!("{turn:?}\nthe pure function says: {right:?}"));
        }
        if let Some(id) = turn.id {
            self.operations.insert(id, right);
        }
        Ok(())
    }
}

fn outcomes(records: &[(usize, &Record)]) -> (usize, usize) {
    let told = || records.iter().flat_map(|(_, record)| &record.turns).flat_map(|turn| &turn.told);
    let allowed = told().filter(|decision| decision.is_allowed()).count();
    (allowed, told().count() - allowed)
}

/// By the server's clock: never more than the capacity and what has come in since.
fn check_sum(sample: &Sample, records: &[(usize, &Record)]) {
    let limit = &sample.limits[0];
    for key in 0..crate::limits::WHOM.len() {
        let of_key: Vec<_> = records
            .iter()
            .filter(|(_, record)| record.turns[0].asks[0].key == key)
            .map(|(_, record)| record)
            .collect();
        let admitted: u64 = of_key.iter().map(|record| u64::from(record.turns[0].told[0].granted())).sum();
        let elapsed = of_key[of_key.len() - 1].at.since(of_key[0].at);
        let refilled = elapsed.as_nanos() * u128::from(limit.count()) / limit.period().as_nanos();
        let most = u128::from(limit.capacity()) + refilled;
        assert!(u128::from(admitted) <= most, "{admitted} admitted, and {most} at most in {elapsed:?}");
    }
}
