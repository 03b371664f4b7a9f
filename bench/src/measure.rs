//! Threads, rounds, and which round counts.
//!
//! Subjects take turns, round after round, so that a slow moment of the machine meets
//! all of them. On one thread the best round counts: whatever disturbs can only cost time.
//! On several it is the middle one: a disturbance can also keep threads out of each other's
//! way, and a virtual machine's processors may for a moment be two halves of one core, where
//! a contended word costs a third.

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
    /// To see that everything works; the figures are rough.
    pub quick: bool,
}

impl Plan {
    /// About how long one subject is measured in one round, in this process.
    fn lap(self) -> Duration {
        Duration::from_millis(if self.quick { 20 } else { 100 })
    }
}

/// A subject with too few undisturbed rounds gets more, up to so many times the plan.
const MOST_ROUNDS: u32 = 4;

/// The round that counts.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Per check and thread.
    pub nanoseconds: f64,
    /// No round was without other programs in the way: the figure may be wrong either way.
    pub crowded: bool,
}

/// The workload was not what its name says, so that its time says nothing.
#[derive(Clone, Copy, Debug)]
pub struct WrongTraffic {
    wanted: Traffic,
    admitted: u32,
    checks: u32,
}

impl fmt::Display for WrongTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, admitted, checks } = self;
        write!(f, "{admitted} of {checks} checks were admitted, all should have been {wanted:?}")
    }
}

/// Brings a new subject into the state that the workload starts from.
pub fn prepare(subject: &dyn Subject, traffic: Traffic, keys: &Keys) -> Result<(), WrongTraffic> {
    let (mut admitted, mut checks) = (0, 0);
    for key in keys.names() {
        match traffic {
            // Every key exists, so that a check under the clock never creates one.
            Traffic::Admitted => {
                checks += 1;
                admitted += u32::from(subject.check(key));
            }
            // The allowance is spent. It is one, but some limiters grant one more; whether
            // it stays spent is seen under the clock.
            Traffic::Denied => {
                let _spent = (0..4).any(|_| !subject.check(key));
            }
        }
    }
    verify(traffic, admitted, checks)
}

/// Times all subjects side by side, each in rounds that go over its instances in turn.
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
    for round in 0..MOST_ROUNDS * plan.rounds {
        for track in &mut tracks {
            let Ok(running) = track else { continue };
            if round >= plan.rounds && running.alone.len() >= enough {
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
    /// How far each thread has walked.
    walked: usize,
    /// Nanoseconds per check of the rounds in which each thread had a processor to itself.
    alone: Vec<f64>,
    /// The same of the other rounds.
    crowded: Vec<f64>,
}

/// What all threads together did.
struct Lap {
    took: Duration,
    crowded: bool,
}

impl<'a> Track<'a> {
    /// Finds how many checks fill a lap. That also warms the subject up.
    fn calibrated(
        instances: &'a [Box<dyn Subject>],
        traffic: Traffic,
        keys: &'a Keys,
        threads: usize,
        lap: Duration,
    ) -> Result<Self, WrongTraffic> {
        let (alone, crowded) = (Vec::new(), Vec::new());
        let mut track = Self { instances, traffic, keys, threads, checks: 1_000, walked: 0, alone, crowded };
        loop {
            let took = track.lap(0)?.took;
            // A tenth of a lap is enough to tell the speed by.
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
        let rounds = if lap.crowded { &mut self.crowded } else { &mut self.alone };
        rounds.push(nanoseconds);
        Ok(())
    }

    fn timing(self) -> Timing {
        let crowded = self.alone.is_empty();
        let mut rounds = if crowded { self.crowded } else { self.alone };
        rounds.sort_unstable_by(f64::total_cmp);
        let counts = if self.threads == 1 { 0 } else { rounds.len() / 2 };
        Timing { nanoseconds: rounds[counts], crowded }
    }

    /// Runs all threads once.
    ///
    /// A lap lasts from the first start to the last end, so that no thread gains by running
    /// while another one has not begun, or is done.
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
                        let began = Instant::now();
                        let admitted = subject.lap(walk, checks);
                        (began, Instant::now(), admitted, crowding::waited().saturating_sub(waited))
                    })
                })
                .collect();
            runners.into_iter().map(|runner| runner.join().expect("a subject panicked")).collect()
        });
        self.walked += checks as usize;
        let (mut first, mut last, _, mut longest_wait) = runs[0];
        for (began, ended, admitted, waited) in runs {
            verify(self.traffic, admitted, checks)?;
            first = first.min(began);
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
