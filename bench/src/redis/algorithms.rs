//! Every algorithm beside a hand-written script, 50 checks in flight.
//!
//! Each algorithm is a race of its own: on the bare store, through `tollgate::connect`, and the hand-written script.
//! The keys of the last race are removed before the next, so that no algorithm pays for the memory of another.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limit, LimitBuilder};

use super::handwritten::{self, ByHand, Handwritten};
use super::load::{Figure, Lap, Track, best};
use super::race::{self, load};
use super::server::Server;
use super::subject::{Failure, Later, QUOTA, Runner, runner};
use super::tollgate::{Check, bucket};
use super::workload::{Workload, thousands};
use crate::measure::Plan;
use crate::report::{Claim, Finding, Findings, Kind};
use crate::selection::Selection;

/// The name of the table.
pub const TABLE: &str = "algorithms-50";

const STORE: &str = "store";
const CONNECT: &str = "connect()";
const BY_HAND: &str = "handwritten";
/// The subjects of a race, in this order.
const SUBJECTS: [&str; 3] = [STORE, CONNECT, BY_HAND];

const FIGURES: [(&str, Figure); 5] = [
    ("thousands/s", thousands),
    ("µs", Lap::time),
    ("client-cpu", Lap::client),
    ("server-cpu", Lap::server),
    ("script", Lap::scripts),
];
/// The figure that claims compare.
const TIME: &str = FIGURES[1].0;

/// A row of the table.
struct Algorithm {
    /// Also the name of its claim line.
    name: &'static str,
    limit: fn() -> LimitBuilder,
    handwritten: Handwritten,
}

/// The arguments of `tat.lua` for [`bucket`].
const TAT: Handwritten = by_hand(handwritten::TAT, &[1_000_000, 1_000_000_000, 1_000_000, 1]);
/// The arguments of the windows for [`bucket`].
const WINDOW: &[u64] = &[1_000_000, 1_000_000, 1];
/// Room for every hit of a key in a run. An entry per hit is why such limits are low.
const ENTRIES: u32 = 1_000;
const SORTED_SET: Handwritten =
    Handwritten { identified: true, ..by_hand(handwritten::SORTED_SET, &[1_000, 1_000_000_000]) };

const ALGORITHMS: [Algorithm; 10] = [
    Algorithm {
        name: "fixed-window-50",
        limit: || bucket().fixed_window(),
        handwritten: by_hand(handwritten::FIXED_WINDOW, WINDOW),
    },
    Algorithm {
        name: "sliding-window-50",
        limit: || bucket().sliding_window(),
        handwritten: by_hand(handwritten::SLIDING_WINDOW, WINDOW),
    },
    Algorithm {
        name: "interval-bucket-50",
        limit: || bucket().refill_by_interval(),
        handwritten: by_hand(handwritten::INTERVAL_BUCKET, WINDOW),
    },
    Algorithm {
        // One unit takes no whole number of nanoseconds.
        name: "uneven-bucket-50",
        limit: || Limit::per(999_999, Duration::from_secs(7)),
        handwritten: by_hand(handwritten::TAT, &[999_999, 7_000_000, 999_999, 1]),
    },
    Algorithm { name: "queue-50", limit: || bucket().queue(1_000_000), handwritten: TAT },
    Algorithm { name: "smooth-50", limit: || bucket().smooth(), handwritten: TAT },
    Algorithm {
        name: "blocking-50",
        limit: || bucket().block_for(Duration::from_secs(60)),
        handwritten: by_hand(handwritten::BLOCKING, &[1_000_000, 1_000_000_000, 1_000_000, 1, 60_000_000]),
    },
    Algorithm {
        name: "sliding-counter-50",
        limit: || bucket().sliding_counter(10),
        handwritten: by_hand(handwritten::SLIDING_COUNTER, &[1_000_000, 100_000, 10, 1]),
    },
    Algorithm {
        name: "sliding-log-50",
        limit: || Limit::per(ENTRIES, QUOTA.period).sliding_log(),
        handwritten: SORTED_SET,
    },
    Algorithm {
        name: "concurrency-50",
        limit: || Limit::concurrent(ENTRIES).lease(QUOTA.period),
        handwritten: SORTED_SET,
    },
];

const fn by_hand(script: &'static str, arguments: &'static [u64]) -> Handwritten {
    Handwritten { script, arguments, identified: false }
}

impl Algorithm {
    fn workload(&self) -> Workload {
        Workload {
            name: self.name,
            in_flight: 50,
            keys: 100_000,
            checks: 25_000,
            rank: Lap::time,
            columns: &FIGURES,
        }
    }

    /// Returns the runners of [`SUBJECTS`].
    fn runners(&self, server: &Server) -> [Later<Arc<dyn Runner>>; 3] {
        let (limit, handwritten) = (self.limit, self.handwritten);
        [
            runner(Check::on_store(server.place(0), limit())),
            runner(Check::by_url(server.place(1), limit())),
            runner(ByHand::build(server.place(2), handwritten)),
        ]
    }

    async fn measure(&self, plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
        let workload = self.workload();
        let load = load(plan, &workload);
        eprintln!("{}: preparing", self.name);
        let mut tracks = Vec::new();
        for runner in self.runners(server) {
            tracks.push(Track::prepared(runner.await?, &load).await);
        }
        eprintln!("{}: measuring", self.name);
        race::laps(plan, server, &load, &mut tracks).await?;
        for (subject, track) in SUBJECTS.iter().zip(tracks) {
            let track = track.map_err(|failure| format!("{} by {subject}: {failure}", self.name))?;
            let lap = best(&track.laps, workload.rank).expect("at least one round");
            for (name, figure) in workload.columns {
                let figure = Finding::Figure { value: figure(&lap), crowded: lap.crowded };
                findings.record(self.name, column(name, subject), figure);
            }
        }
        server.clean().await
    }
}

/// Returns the name of a subject's figure in the row of an algorithm.
fn column(figure: &str, subject: &str) -> String {
    format!("{figure} {subject}")
}

pub async fn measure(
    plan: Plan,
    server: &Server,
    selection: &Selection,
    findings: &mut Findings,
) -> Result<(), Failure> {
    for algorithm in &ALGORITHMS {
        if selection.includes(TABLE, algorithm.name, [column(TIME, STORE).as_str()]) {
            algorithm.measure(plan, server, findings).await?;
        }
    }
    Ok(())
}

pub fn print(findings: &Findings, selection: &Selection) {
    let measured = |name: &&'static str| selection.includes(TABLE, name, [column(TIME, STORE).as_str()]);
    let rows: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).filter(measured).collect();
    if rows.is_empty() {
        return;
    }
    println!("\n{TABLE}: 50 in flight; {}", SUBJECTS.join(" / "));
    let columns =
        FIGURES.map(|(figure, _)| (figure, SUBJECTS.map(|subject| column(figure, subject)).to_vec()));
    findings.print_table(&rows, &columns);
}

pub fn claims() -> impl Iterator<Item = Claim> {
    ALGORITHMS.iter().map(|algorithm| Claim {
        kind: Kind::Ratio,
        name: algorithm.name.to_owned(),
        against: BY_HAND,
        ours: (algorithm.name, column(TIME, STORE)),
        theirs: (algorithm.name, column(TIME, BY_HAND)),
    })
}
