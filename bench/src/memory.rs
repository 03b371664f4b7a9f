//! The `memory` subcommand: subjects, workloads and claims.

use crate::alloc;
use crate::floor;
use crate::keys::Keys;
use crate::measure::{self, Plan, Timing, WrongTraffic};
use crate::report::{Claim, Finding, Findings, Kind};
use crate::subject::{Contestant, Subject, Traffic};
use crate::tollgate;

const THREADS: [usize; 2] = [1, 2];
const BYTES_PER_KEY: &str = "bytes-per-key";

const TOLLGATE: &str = "tollgate";
const ASYNC: &str = "tollgate async";
const WINDOW: &str = "tollgate window";
const FLOOR: &str = "floor";

/// The form of a limiter that a workload needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Direct,
    Keyed,
}

struct Workload {
    name: &'static str,
    form: Form,
    traffic: Traffic,
    keys: usize,
    /// The peers that have this form.
    peers: &'static [&'static str],
    /// The name of the workload in claim lines.
    claimed_as: &'static str,
}

const KEYED_PEERS: &[&str] = &["governor", "limitador", "throttlecrab", "trypema"];

const HOT: &str = "hot";
/// The workload whose preparation measures the bytes per key.
const MILLION: &str = "1m";

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "direct",
        form: Form::Direct,
        traffic: Traffic::Admitted,
        keys: 1,
        peers: &["governor", "leaky-bucket"],
        claimed_as: "direct",
    },
    Workload {
        name: HOT,
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 1,
        peers: KEYED_PEERS,
        claimed_as: HOT,
    },
    Workload {
        name: "100k",
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 100_000,
        peers: KEYED_PEERS,
        claimed_as: "100k",
    },
    Workload {
        name: MILLION,
        form: Form::Keyed,
        traffic: Traffic::Admitted,
        keys: 1_000_000,
        peers: KEYED_PEERS,
        claimed_as: MILLION,
    },
    Workload {
        name: "denied",
        form: Form::Keyed,
        traffic: Traffic::Denied,
        keys: 1,
        peers: KEYED_PEERS,
        claimed_as: "denied",
    },
    // A peer without keys is compared with Tollgate's limiter without keys, under the name of the keyed workload.
    Workload {
        name: "denied-direct",
        form: Form::Direct,
        traffic: Traffic::Denied,
        keys: 1,
        peers: &["leaky-bucket"],
        claimed_as: "denied",
    },
];

/// Measures everything and prints it. Fails if a Tollgate subject does not decide as the workload requires.
pub fn run(plan: Plan) -> Result<(), String> {
    let contestants = contestants();
    let mut findings = Findings::default();
    for workload in &WORKLOADS {
        measure_workload(plan, workload, &contestants, &mut findings)?;
    }

    let rounds = plan.rounds;
    println!(
        "ns per check and thread: best of {rounds} rounds on 1 thread / median on 2 threads; heap bytes per key\n"
    );
    let mut columns: Vec<_> = WORKLOADS
        .iter()
        .map(|workload| (workload.name, THREADS.map(|threads| column(workload.name, threads)).to_vec()))
        .collect();
    columns.push((BYTES_PER_KEY, vec![BYTES_PER_KEY.to_owned()]));
    let names: Vec<_> = contestants.iter().map(|contestant| contestant.name).collect();
    findings.print_table(&names, &columns);
    findings.conclude(&claims());
    Ok(())
}

fn contestants() -> Vec<Contestant> {
    let variation =
        |name, keyed| Contestant { name, direct: None, keyed: Some(keyed), hot_only: true, peer: false };
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "peers are added below"))]
    let mut contestants = vec![
        Contestant {
            name: TOLLGATE,
            direct: Some(tollgate::direct),
            keyed: Some(tollgate::keyed),
            hot_only: false,
            peer: false,
        },
        variation(ASYNC, tollgate::async_keyed),
        variation(WINDOW, tollgate::window),
        Contestant {
            name: FLOOR,
            direct: Some(floor::direct),
            keyed: Some(floor::keyed),
            hot_only: false,
            peer: false,
        },
    ];
    #[cfg(feature = "peers")]
    contestants.extend(crate::peers::all());
    contestants
}

fn measure_workload(
    plan: Plan,
    workload: &Workload,
    contestants: &[Contestant],
    findings: &mut Findings,
) -> Result<(), String> {
    let max_threads = THREADS[THREADS.len() - 1];
    let keys = Keys::new(workload.keys, max_threads);
    eprintln!("{}: preparing", workload.name);
    let mut prepared = Vec::new();
    for contestant in contestants {
        let (instances, bytes) = alloc::bytes_kept(|| instances(plan, workload, contestant, &keys));
        let instances = match instances {
            None => continue,
            Some(Err(wrong)) => {
                for threads in THREADS {
                    record(findings, contestant, column(workload.name, threads), Err(wrong))?;
                }
                continue;
            }
            Some(Ok(instances)) => instances,
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

/// Builds and prepares the instances of a contestant. `None` if it does not have the form that the workload needs.
///
/// With one key, one instance per round: the address of the key changes the time of a check by a tenth, and this way
/// every subject gets a good one.
fn instances(
    plan: Plan,
    workload: &Workload,
    contestant: &Contestant,
    keys: &Keys,
) -> Option<Result<Vec<Box<dyn Subject>>, WrongTraffic>> {
    if contestant.hot_only && workload.name != HOT {
        return None;
    }
    let build = || match workload.form {
        Form::Direct => contestant.direct.map(|direct| direct(workload.traffic)),
        Form::Keyed => contestant.keyed.map(|keyed| keyed(workload.traffic, workload.keys)),
    };
    let count = if workload.keys == 1 { plan.rounds } else { 1 };
    let instances: Vec<_> = (0..count).map(|_| build()).collect::<Option<_>>()?;
    let prepared =
        instances.iter().try_for_each(|instance| measure::prepare(&**instance, workload.traffic, keys));
    Some(prepared.map(|()| instances))
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

fn column(workload: &str, threads: usize) -> String {
    format!("{workload}-{threads}t")
}

fn claims() -> Vec<Claim> {
    let mut claims = Vec::new();
    for workload in &WORKLOADS {
        for threads in THREADS {
            let column = column(workload.name, threads);
            claims.extend(workload.peers.iter().map(|peer| Claim {
                kind: Kind::Ratio,
                name: self::column(workload.claimed_as, threads),
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
    claims.push(cost("window-hot-1t", "bucket", WINDOW, TOLLGATE));
    claims
}
