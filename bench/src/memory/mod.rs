//! The `memory` subcommand: subjects and claims.
//!
//! - `workload`: the workloads; `algorithms`: every algorithm on many keys.

mod algorithms;
mod workload;

use crate::alloc;
use crate::floor;
use crate::keys::Keys;
use crate::measure::{self, Plan, Timing, WrongTraffic};
use crate::report::{Claim, Finding, Findings, Kind};
use crate::selection::Selection;
use crate::subject::{Contestant, Subject};
use crate::tollgate;
use workload::{Form, HOT, KEYED_PEERS, MANY, MILLION, THREADS, WORKLOADS, Workload, column};

const BYTES_PER_KEY: &str = "bytes-per-key";

const TOLLGATE: &str = "tollgate";
const ASYNC: &str = "tollgate async";
const FLOOR: &str = "floor";

/// Measures everything and prints it. Fails if a Tollgate subject does not decide as the workload requires. `only` are
/// the names of claims or tables, if not all are wanted.
pub fn run(plan: Plan, only: &[String]) -> Result<(), String> {
    let (limiters, algorithms) = (limiters(), algorithms::contestants());
    let mut tables: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
    tables.push(algorithms::TABLE);
    let selection = Selection::of(only, &claims(), &tables)?;
    let mut findings = Findings::default();
    for workload in &WORKLOADS {
        let mut contestants = Vec::new();
        for (table, of_table) in [(workload.name, &limiters), (algorithms::TABLE, &algorithms)] {
            contestants.extend(of_table.iter().filter(|contestant| {
                let mut columns: Vec<_> = workload.columns().collect();
                if workload.name == MILLION {
                    columns.push(BYTES_PER_KEY.to_owned());
                }
                workload.has(contestant)
                    && selection.includes(table, contestant.name, columns.iter().map(String::as_str))
            }));
        }
        if !contestants.is_empty() {
            measure_workload(plan, workload, &contestants, &mut findings)?;
        }
    }

    let rounds = plan.rounds;
    println!(
        "ns per check and thread: best of {rounds} rounds on 1 thread / median on 2 threads; heap bytes per key\n"
    );
    let bytes = || (BYTES_PER_KEY, vec![BYTES_PER_KEY.to_owned()]);
    let columns = |names: &[&str]| {
        let named = WORKLOADS.iter().filter(|workload| names.contains(&workload.name));
        let mut columns: Vec<_> =
            named.map(|workload| (workload.name, workload.columns().collect())).collect();
        columns.push(bytes());
        columns
    };
    let names = |contestants: &[Contestant]| contestants.iter().map(|one| one.name).collect::<Vec<_>>();
    findings.print_table(&names(&limiters), &columns(&WORKLOADS.map(|workload| workload.name)));
    println!();
    findings.print_table(&names(&algorithms), &columns(&[HOT, MANY, MILLION]));
    findings.conclude(&claims());
    Ok(())
}

fn limiters() -> Vec<Contestant> {
    let ours = |name, direct, keyed, workloads| Contestant {
        name,
        direct,
        keyed: Some(keyed),
        workloads,
        peer: false,
    };
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "peers are added below"))]
    let mut limiters = vec![
        ours(TOLLGATE, Some(tollgate::direct as _), tollgate::keyed as _, None),
        ours(ASYNC, None, tollgate::async_keyed, Some(&[HOT])),
        ours(FLOOR, Some(floor::direct), floor::keyed, None),
    ];
    #[cfg(feature = "peers")]
    limiters.extend(crate::peers::all());
    limiters
}

fn measure_workload(
    plan: Plan,
    workload: &Workload,
    contestants: &[&Contestant],
    findings: &mut Findings,
) -> Result<(), String> {
    let max_threads = THREADS[THREADS.len() - 1];
    let keys = Keys::new(workload.keys, max_threads);
    eprintln!("{}: preparing", workload.name);
    let mut prepared = Vec::new();
    for &contestant in contestants {
        let (instances, bytes) = alloc::bytes_kept(|| instances(plan, workload, contestant, &keys));
        let instances = match instances {
            Err(wrong) => {
                for column in workload.columns() {
                    record(findings, contestant, column, Err(wrong))?;
                }
                continue;
            }
            Ok(instances) => instances,
        };
        if workload.name == MILLION {
            let per_key = bytes / i64::try_from(workload.keys).expect("fits");
            let value = f64::from(i32::try_from(per_key).expect("fits"));
            let figure = Finding::Figure { value, crowded: false };
            findings.record(contestant.name, BYTES_PER_KEY.to_owned(), figure);
        }
        prepared.push((contestant, instances));
    }

    let subjects: Vec<&[Box<dyn Subject>]> = prepared.iter().map(|(_, instances)| &instances[..]).collect();
    for threads in THREADS {
        let column = column(workload.name, threads);
        eprintln!("{column}: measuring");
        let timings = measure::race(plan, &subjects, workload.traffic, &keys, threads);
        for ((contestant, _), result) in prepared.iter().zip(timings) {
            record(findings, contestant, column.clone(), result)?;
        }
    }
    Ok(())
}

/// Builds and prepares the instances of a contestant.
///
/// With one key, one instance per round: the address of the key changes the time of a check by a tenth, and this way
/// every subject gets a good one.
fn instances(
    plan: Plan,
    workload: &Workload,
    contestant: &Contestant,
    keys: &Keys,
) -> Result<Vec<Box<dyn Subject>>, WrongTraffic> {
    let build = || match workload.form {
        Form::Direct => contestant.direct.map(|direct| direct(workload.traffic)),
        Form::Keyed => contestant.keyed.map(|keyed| keyed(workload.traffic, workload.keys)),
    };
    let count = if workload.keys == 1 { plan.rounds } else { 1 };
    let instances: Vec<_> = (0..count).filter_map(|_| build()).collect();
    instances.iter().try_for_each(|instance| measure::prepare(&**instance, workload.traffic, keys))?;
    Ok(instances)
}

fn record(
    findings: &mut Findings,
    contestant: &Contestant,
    column: String,
    result: Result<Timing, WrongTraffic>,
) -> Result<(), String> {
    let finding = match result {
        Ok(Timing { nanoseconds, crowded }) => Finding::Figure { value: nanoseconds, crowded },
        Err(wrong) if contestant.peer => Finding::Cannot(wrong.to_string()),
        Err(wrong) => return Err(format!("{} on {column}: {wrong}", contestant.name)),
    };
    findings.record(contestant.name, column, finding);
    Ok(())
}

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for workload in &WORKLOADS {
        for threads in THREADS {
            let column = column(workload.name, threads);
            claims.extend(workload.peers.iter().map(|peer| Claim {
                kind: Kind::Ratio,
                name: workload::column(workload.claimed_as, threads),
                against: peer,
                ours: (TOLLGATE, column.clone()),
                theirs: (peer, column.clone()),
            }));
        }
    }
    claims.extend(KEYED_PEERS.iter().map(|peer| Claim {
        kind: Kind::Ratio,
        name: BYTES_PER_KEY.to_owned(),
        against: peer,
        ours: (TOLLGATE, BYTES_PER_KEY.to_owned()),
        theirs: (peer, BYTES_PER_KEY.to_owned()),
    }));
    let hot = column(HOT, 1);
    let cost = |name: &str, against, ours, theirs| Claim {
        kind: Kind::Cost,
        name: name.to_owned(),
        against,
        ours: (ours, hot.clone()),
        theirs: (theirs, hot.clone()),
    };
    claims.push(cost("hot-1t", "floor", TOLLGATE, FLOOR));
    claims.push(cost("async-hot-1t", "sync", ASYNC, TOLLGATE));
    claims.extend(algorithms::claims());
    claims
}
