//! The `rules` subcommand: how long it takes to match a request against many rules, and to load them.
//!
//! - `workload`: rule files and requests.

mod workload;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use tollgate::rules::{RuleSet, Source};

use crate::crowding;
use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::report::{Claim, Finding, Findings, Kind};
use workload::Request;

const FEW: usize = 10;
const MANY: usize = 10_000;

const MATCH_FEW: &str = "match, 10 rules";
const MATCH_MANY: &str = "match, 10,000 rules";
/// The floor: the path is looked up in a map with as many entries as there are rules.
const LOOKUP: &str = "lookup, 10,000 paths";
const LOAD: &str = "load, 10,000 rules";

const NANOSECONDS: &str = "ns";
const MILLISECONDS: &str = "ms";

/// A round has as many laps as fit in this time, and the best lap counts: it is short enough to run undisturbed.
const ROUND: Duration = Duration::from_millis(200);
const QUICK_ROUND: Duration = Duration::from_millis(20);

/// Measures everything and prints it.
pub fn run(plan: Plan) -> Result<(), String> {
    measure(plan).map_err(|failure| failure.to_string())
}

fn measure(plan: Plan) -> Result<(), Failure> {
    eprintln!("preparing");
    let (few, many) = (Matching::new(FEW)?, Matching::new(MANY)?);
    let lookup = Lookup::new(&many.requests);
    let file = workload::file(MANY);
    let mut subjects = [
        (MATCH_FEW, Best::default()),
        (MATCH_MANY, Best::default()),
        (LOOKUP, Best::default()),
        (LOAD, Best::default()),
    ];
    eprintln!("measuring");
    for _ in 0..plan.rounds {
        // In turns, so that a slow moment of the machine affects all of them.
        subjects[0].1.round(plan, || few.lap());
        subjects[1].1.round(plan, || many.lap());
        subjects[2].1.round(plan, || lookup.lap(&many.requests));
        subjects[3].1.round(plan, || drop(black_box(load(&file))));
    }
    let mut findings = Findings::default();
    for (subject, best) in &subjects {
        let nanoseconds = best.took.as_secs_f64() * 1e9;
        let (column, value) = if *subject == LOAD {
            (MILLISECONDS, nanoseconds / 1e6)
        } else {
            // All workloads have as many requests.
            (NANOSECONDS, nanoseconds / f64::from(u32::try_from(many.requests.len())?))
        };
        findings.record(subject, column.to_owned(), Finding::Figure { value, crowded: best.crowded });
    }
    println!("one thread, best lap of {} rounds; a request matches {} rules\n", plan.rounds, many.matches);
    let columns = [NANOSECONDS, MILLISECONDS].map(|column| (column, vec![column.to_owned()]));
    findings.print_table(&subjects.map(|(subject, _)| subject), &columns);
    findings.conclude(&claims());
    Ok(())
}

fn claims() -> Vec<Claim> {
    let claim = |kind, name: &str, against, ours, theirs, column: &str| Claim {
        kind,
        name: name.to_owned(),
        against,
        ours: (ours, column.to_owned()),
        theirs: (theirs, column.to_owned()),
    };
    vec![
        claim(Kind::Absolute, "match-10000-rules-ns", "lookup", MATCH_MANY, LOOKUP, NANOSECONDS),
        claim(Kind::Cost, "match-10000", "match-10", MATCH_MANY, MATCH_FEW, NANOSECONDS),
        claim(Kind::Cost, "match-10000", "lookup", MATCH_MANY, LOOKUP, NANOSECONDS),
        claim(Kind::Absolute, "load-10000-ms", "rules", LOAD, LOAD, MILLISECONDS),
    ]
}

fn load(file: &str) -> Result<RuleSet, Failure> {
    Ok(RuleSet::from_sources([Source::new("bench.yaml", file)])?)
}

/// Requests that are matched against rules.
struct Matching {
    rules: RuleSet,
    requests: Vec<Request>,
    /// How many rules each request matches.
    matches: usize,
}

impl Matching {
    fn new(count: usize) -> Result<Self, Failure> {
        /// Requests are built so that they match as many rules, whatever the number of rules.
        const MATCHES: usize = 4;
        let (rules, requests) = (load(&workload::file(count))?, workload::requests(count));
        let domain = rules.domain(workload::DOMAIN).ok_or("the file has another domain")?;
        for request in &requests {
            let matches = domain.match_attributes(request).iter().count();
            if matches != MATCHES {
                return Err(format!("{} matches {matches} of {count} rules", request.path()).into());
            }
        }
        Ok(Self { rules, requests, matches: MATCHES })
    }

    fn lap(&self) {
        if let Some(domain) = self.rules.domain(workload::DOMAIN) {
            for request in &self.requests {
                black_box(domain.match_attributes(black_box(request)));
            }
        }
    }
}

struct Lookup(HashMap<String, u32, RandomState>);

impl Lookup {
    /// Of the paths of all requests, and others.
    fn new(requests: &[Request]) -> Self {
        let others = (requests.len()..MANY).map(|index| format!("/v1/others/{index}"));
        let paths = requests.iter().map(|request| request.path().to_owned()).chain(others);
        Self(paths.zip(0..).collect())
    }

    fn lap(&self, requests: &[Request]) {
        for request in requests {
            black_box(self.0.get(black_box(request.path())));
        }
    }
}

/// The best lap of a subject.
struct Best {
    took: Duration,
    /// Other programs disturbed all laps.
    crowded: bool,
}

impl Default for Best {
    fn default() -> Self {
        Self { took: Duration::MAX, crowded: true }
    }
}

impl Best {
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    fn round(&mut self, plan: Plan, mut lap: impl FnMut()) {
        let started = Instant::now();
        let round = if plan.quick { QUICK_ROUND } else { ROUND };
        loop {
            let (waited, lap_started) = (crowding::waited(), Instant::now());
            lap();
            let took = lap_started.elapsed();
            let crowded = crowding::waited().saturating_sub(waited) > took / 50;
            // An undisturbed lap goes before any that was disturbed.
            if (crowded, took) < (self.crowded, self.took) {
                *self = Self { took, crowded };
            }
            if started.elapsed() >= round {
                return;
            }
        }
    }
}
