//! Every algorithm on many keys, beside the floor of the shape that its state has.

use ::tollgate::LimitBuilder;

use super::workload::{HOT, MANY, MILLION, THREADS, column};
use super::{BYTES_PER_KEY, FLOOR, TOLLGATE};
use crate::floor;
use crate::report::{Claim, Kind};
use crate::subject::{Contestant, Keyed};
use crate::tollgate;

/// The name of the table.
pub const TABLE: &str = "algorithms";

/// A sliding window, which is measured on a hot key, too.
const WINDOW: &str = "sliding window";
const FLOOR_OF_WINDOWS: &str = "floor of windows";
const FLOOR_OF_RECORDS: &str = "floor of records";
const FLOOR_OF_LOGS: &str = "floor of logs";

const MANY_KEYS: &[&str] = &[MANY, MILLION];
/// The peers that have windows.
const PEERS: [&str; 2] = ["limitador", "trypema"];

/// An algorithm, and the floor of the shape of its state.
struct Algorithm {
    name: &'static str,
    keyed: Keyed,
    floor: &'static str,
}

/// Builds a subject with the limit that `$with` makes of a bucket.
macro_rules! by {
    ($with:expr) => {
        |traffic, keys| tollgate::keyed_by(traffic, keys, $with)
    };
}

const ALGORITHMS: [Algorithm; 12] = [
    // One unit takes no whole number of nanoseconds.
    Algorithm { name: "uneven bucket", keyed: tollgate::uneven, floor: FLOOR },
    Algorithm { name: "queue", keyed: by!(|limit| limit.queue(1_000_000)), floor: FLOOR },
    Algorithm { name: "smooth", keyed: by!(LimitBuilder::smooth), floor: FLOOR },
    Algorithm { name: "fixed window", keyed: by!(LimitBuilder::fixed_window), floor: FLOOR_OF_WINDOWS },
    Algorithm {
        name: "anchored window",
        keyed: by!(|limit| limit.fixed_window().anchored()),
        floor: FLOOR_OF_WINDOWS,
    },
    Algorithm { name: WINDOW, keyed: by!(LimitBuilder::sliding_window), floor: FLOOR_OF_WINDOWS },
    Algorithm {
        name: "interval bucket",
        keyed: by!(LimitBuilder::refill_by_interval),
        floor: FLOOR_OF_RECORDS,
    },
    Algorithm { name: "blocking bucket", keyed: tollgate::blocking, floor: FLOOR_OF_RECORDS },
    Algorithm { name: "warming up", keyed: tollgate::warming_up, floor: FLOOR_OF_RECORDS },
    Algorithm {
        name: "sliding counter",
        keyed: by!(|limit| limit.sliding_counter(10)),
        floor: FLOOR_OF_RECORDS,
    },
    Algorithm { name: "sliding log", keyed: tollgate::log, floor: FLOOR_OF_LOGS },
    Algorithm { name: "concurrency", keyed: tollgate::concurrency, floor: FLOOR_OF_LOGS },
];

/// Returns the rows: every algorithm but the even bucket, which is the row of Tollgate, and their floors.
pub fn contestants() -> Vec<Contestant> {
    let row = |name, keyed| {
        let workloads: &[_] = if name == WINDOW { &[HOT, MANY, MILLION] } else { MANY_KEYS };
        Contestant { name, direct: None, keyed: Some(keyed), workloads: Some(workloads), peer: false }
    };
    let algorithms = ALGORITHMS.into_iter().map(|algorithm| row(algorithm.name, algorithm.keyed));
    let floors: [(_, Keyed); 3] = [
        (FLOOR_OF_WINDOWS, floor::windows),
        (FLOOR_OF_RECORDS, floor::records),
        (FLOOR_OF_LOGS, floor::logs),
    ];
    algorithms.chain(floors.map(|(name, keyed)| row(name, keyed))).collect()
}

pub fn claims() -> Vec<Claim> {
    let claim = |kind, name, against, column: String, (ours, theirs)| Claim {
        kind,
        name,
        against,
        ours: (ours, column.clone()),
        theirs: (theirs, column),
    };
    let window = |threads: &[usize], workload: &str| {
        let columns = threads.iter().map(|threads| column(workload, *threads)).collect::<Vec<_>>();
        columns
            .into_iter()
            .map(|column| claim(Kind::Cost, format!("window-{column}"), "bucket", column, (WINDOW, TOLLGATE)))
    };
    let mut claims: Vec<_> =
        window(&THREADS, HOT).chain(window(&[1], MANY)).chain(window(&[1], MILLION)).collect();
    for column in THREADS.map(|threads| column(MANY, threads)) {
        claims.extend(PEERS.map(|peer| {
            claim(Kind::Ratio, format!("window-{column}"), peer, column.clone(), (WINDOW, peer))
        }));
    }
    for Algorithm { name, floor, .. } in ALGORITHMS {
        for workload in MANY_KEYS {
            let column = column(workload, 1);
            let name_of_claim = format!("{}-{column}", name.replace(' ', "-"));
            claims.push(claim(Kind::Cost, name_of_claim, "floor", column, (name, floor)));
        }
    }
    let bytes = |peer| {
        let name = format!("window-{BYTES_PER_KEY}");
        claim(Kind::Ratio, name, peer, BYTES_PER_KEY.to_owned(), (WINDOW, peer))
    };
    claims.extend(PEERS.map(bytes));
    claims
}
