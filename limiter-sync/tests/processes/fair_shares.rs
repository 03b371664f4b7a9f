//! Processes with equal demand that start one after the other.

use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::{Clock, IdempotencyKey, SystemClock, Timer};

use crate::fleet::{LIMITS, PER_SECOND, Process};
use crate::load::fairness::Division;
use crate::load::{PER_SECOND as SECOND, slot};

/// How many processes there are, and the time between two starts.
const PROCESSES: u32 = 4;
const APART: Duration = Duration::from_millis(150);
/// How long a process runs: until it has started and has its part, and six seconds that are judged.
const RUN: Duration = Duration::from_secs(9);
/// How often they are started until the whole limit passes, which takes a machine that is fast enough.
const ATTEMPTS: u32 = 10;

pub(crate) fn one_after_the_other(runtime: &Handle) {
    let url = runtime.block_on(tollgate_testkit::redis_url());
    let clock = SystemClock::new();
    for _ in 0..ATTEMPTS {
        let key = format!("{:032x}", IdempotencyKey::unique().get());
        let end = clock.now() + RUN;
        let each = 4 * PER_SECOND / PROCESSES;
        let processes: Vec<_> = (0..PROCESSES)
            .map(|_| {
                let process = Process::start(end, each, &key, std::slice::from_ref(&url));
                // What is tested: those that start first must not keep everything.
                runtime.block_on(clock.sleep(APART));
                process
            })
            .collect();
        let reports: Vec<_> = processes.into_iter().map(|process| process.report(1).remove(0)).collect();
        let judged = (0..LIMITS.len()).all(|limit| {
            let nodes: Vec<_> = reports.iter().map(|report| report.slots[limit].clone()).collect();
            let last_start =
                reports.iter().map(|report| report.first(limit)).max().expect("several processes");
            let division = Division {
                per_second: PER_SECOND.into(),
                asked: vec![each.into(); nodes.len()],
                most: f64::INFINITY,
            };
            division.judge(&nodes, last_start + 1 + SECOND..slot(end))
        });
        if judged {
            return;
        }
    }
    panic!("less than {PER_SECOND} per second pass, or the machine is too slow for the demand");
}
