//! Subjects in this process, side by side: a row of the table per subject, a column per number of keys and threads.

use crate::keys::Keys;
use crate::measure::{self, Plan};
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};
use crate::subject::{Subject, Traffic};

/// A column of the table.
#[derive(Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub keys: usize,
    pub threads: usize,
}

/// Measures all rows in all columns. `build` creates the subject of a row for a column, both by their index. A wrong
/// decision is an error, unless the row `is_peer`.
pub fn measure(
    plan: Plan,
    rows: &[&'static str],
    columns: &[Column],
    build: impl Fn(usize, usize) -> Result<Box<dyn Subject>, Failure>,
    is_peer: impl Fn(&str) -> bool,
    findings: &mut Findings,
) -> Result<(), Failure> {
    for (index, &Column { name: column, keys, threads }) in columns.iter().enumerate() {
        eprintln!("{column}: preparing");
        // With one key, one instance per round: the address of the key matters.
        let instances = if keys == 1 { plan.rounds } else { 1 };
        let keys = Keys::new(keys, threads);
        let mut prepared = Vec::new();
        for (row, name) in rows.iter().enumerate() {
            let subjects = (0..instances).map(|_| build(row, index)).collect::<Result<Vec<_>, _>>()?;
            for subject in &subjects {
                measure::prepare(&**subject, Traffic::Admitted, &keys)
                    .map_err(|wrong| format!("{name} on {column}: {wrong}"))?;
            }
            prepared.push(subjects);
        }
        eprintln!("{column}: measuring");
        let subjects: Vec<&[Box<dyn Subject>]> = prepared.iter().map(Vec::as_slice).collect();
        let timings = measure::race(plan, &subjects, Traffic::Admitted, &keys, threads);
        for (name, timing) in rows.iter().zip(timings) {
            let finding = match timing {
                Ok(timing) => Finding::Figure { value: timing.nanoseconds, crowded: timing.crowded },
                Err(wrong) if is_peer(name) => Finding::Cannot(wrong.to_string()),
                Err(wrong) => return Err(format!("{name} on {column}: {wrong}").into()),
            };
            findings.record(name, column.to_owned(), finding);
        }
    }
    Ok(())
}

pub fn print(findings: &Findings, rows: &[&'static str], columns: &[Column]) {
    let columns: Vec<_> = columns.iter().map(|column| (column.name, vec![column.name.to_owned()])).collect();
    findings.print_table(rows, &columns);
}
