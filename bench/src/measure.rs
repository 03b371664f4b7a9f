//! Threads, rounds, and which round counts.
//!
//! Subjects take turns, round after round, so that a slow moment of the machine affects all of them. On one thread the
//! best round counts: disturbances can only cost time. On several threads the median counts: a disturbance can also
//! reduce contention, and the processors of a virtual machine may for a moment share a core, where a contended word
//! costs a third.

use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::crowding;
use crate::keys::Keys;
use crate::subject::{Subject, Traffic};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: u32,
    /// A short run to see that everything works; its figures are imprecise.
    pub quick: bool,
}

impl Plan {
    /// Returns the approximate time of one subject in one round, in this process.
    fn lap(self) -> Duration {
        Duration::from_millis(if self.quick { 20 } else { 100 })
    }
}

/// A subject with too few undisturbed rounds gets more, up to this multiple of the planned ones.
const MAX_ROUNDS: u32 = 4;

/// The round that counts.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Per check and thread.
    pub nanoseconds: f64,
    /// Other programs disturbed all rounds: the figure may be too high or too low.
    pub crowded: bool,
}

/// The decisions differ from what the workload requires, so that their time is meaningless.
#[derive(Clone, Copy, Debug)]
pub struct WrongTraffic {
    wanted: Traffic,
    admitted: u32,
    checks: u32,
}

impl fmt::Display for WrongTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, admitted, checks } = self;
        write!(f, "{admitted} of {checks} checks were admitted; expected: all {wanted:?}")
    }
}

/// Brings a new subject into the initial state of the workload.
pub fn prepare(subject: &dyn Subject, traffic: Traffic, keys: &Keys) -> Result<(), WrongTraffic> {
    let (mut admitted, mut checks) = (0, 0);
    for key in keys.names() {
        match traffic {
            // Every key exists, so that no timed check creates one.
            Traffic::Admitted => {
                checks += 1;
                admitted += u32::from(subject.check(key));
            }
            // The quota of one is consumed. Some limiters grant one more. The timed checks verify that all are denied.
            Traffic::Denied => {
                let _consumed = (0..4).any(|_| !subject.check(key));
            }
        }
    }
    verify(traffic, admitted, checks)
}

/// Times all subjects side by side. The rounds of a subject use its instances in turn.
pub fn race(
    plan: Plan,
    subjects: &[&[Box<dyn Subject>]],
    traffic: Traffic,
    keys: &Keys,
    threads: usize,
) -> Vec<Result<Timing, WrongTraffic>> {
    let mut tracks: Vec<_> = subjects
        .iter()
        .map(|&instances| Track::calibrated(instances, traffic, keys, threads, plan.lap()))
        .collect();
    let enough = plan.rounds.div_ceil(2) as usize;
    for round in 0..MAX_ROUNDS * plan.rounds {
        for track in &mut tracks {
            let Ok(running) = track else { continue };
            if round >= plan.rounds && running.undisturbed.len() >= enough {
                continue;
            }
            if let Err(wrong) = running.round(round as usize) {
                *track = Err(wrong);
            }
        }
    }
    tracks.into_iter().map(|track| track.map(Track::timing)).collect()
}

/// One subject on one workload, from its calibration to its last round.
struct Track<'a> {
    instances: &'a [Box<dyn Subject>],
    traffic: Traffic,
    keys: &'a Keys,
    threads: usize,
    /// Per thread and lap.
    checks: u32,
    /// The number of keys that each thread has visited.
    walked: usize,
    /// Nanoseconds per check of the rounds in which each thread had a processor to itself.
    undisturbed: Vec<f64>,
    /// The same for the other rounds.
    crowded: Vec<f64>,
}

/// One round of all threads.
struct Lap {
    took: Duration,
    crowded: bool,
}

impl<'a> Track<'a> {
    /// Determines how many checks fill a lap. That also warms the subject up.
    fn calibrated(
        instances: &'a [Box<dyn Subject>],
        traffic: Traffic,
        keys: &'a Keys,
        threads: usize,
        lap: Duration,
    ) -> Result<Self, WrongTraffic> {
        let (undisturbed, crowded) = (Vec::new(), Vec::new());
        let mut track =
            Self { instances, traffic, keys, threads, checks: 1_000, walked: 0, undisturbed, crowded };
        loop {
            let took = track.lap(0)?.took;
            // A tenth of a lap is enough to estimate the speed.
            if took >= lap / 10 {
                let checks = u128::from(track.checks) * lap.as_nanos() / took.as_nanos();
                track.checks = u32::try_from(checks).unwrap_or(u32::MAX);
                return Ok(track);
            }
            track.checks = track.checks.saturating_mul(2);
        }
    }

    fn round(&mut self, round: usize) -> Result<(), WrongTraffic> {
        let lap = self.lap(round)?;
        let nanoseconds = lap.took.as_secs_f64() * 1e9 / f64::from(self.checks);
        let rounds = if lap.crowded { &mut self.crowded } else { &mut self.undisturbed };
        rounds.push(nanoseconds);
        Ok(())
    }

    fn timing(self) -> Timing {
        let crowded = self.undisturbed.is_empty();
        let mut rounds = if crowded { self.crowded } else { self.undisturbed };
        rounds.sort_unstable_by(f64::total_cmp);
        let counts = if self.threads == 1 { 0 } else { rounds.len() / 2 };
        Timing { nanoseconds: rounds[counts], crowded }
    }

    /// Runs all threads once.
    ///
    /// A lap lasts from the first start to the last end, so that no thread gains from running while another one has not
    /// started, or has ended.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    fn lap(&mut self, round: usize) -> Result<Lap, WrongTraffic> {
        let start = Barrier::new(self.threads);
        let subject = &*self.instances[round % self.instances.len()];
        let checks = self.checks;
        let runs: Vec<_> = thread::scope(|scope| {
            let runners: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let walk = self.keys.walk(thread, self.walked);
                    let start = &start;
                    scope.spawn(move || {
                        let waited = crowding::waited();
                        start.wait();
                        let started = Instant::now();
                        let admitted = subject.lap(walk, checks);
                        (started, Instant::now(), admitted, crowding::waited().saturating_sub(waited))
                    })
                })
                .collect();
            runners.into_iter().map(|runner| runner.join().expect("a subject panicked")).collect()
        });
        self.walked += checks as usize;
        let (mut first, mut last, _, mut longest_wait) = runs[0];
        for (started, ended, admitted, waited) in runs {
            verify(self.traffic, admitted, checks)?;
            first = first.min(started);
            last = last.max(ended);
            longest_wait = longest_wait.max(waited);
        }
        let took = last - first;
        Ok(Lap { took, crowded: longest_wait > took / 50 })
    }
}

fn verify(wanted: Traffic, admitted: u32, checks: u32) -> Result<(), WrongTraffic> {
    let expected = match wanted {
        Traffic::Admitted => checks,
        Traffic::Denied => 0,
    };
    if admitted == expected { Ok(()) } else { Err(WrongTraffic { wanted, admitted, checks }) }
}
