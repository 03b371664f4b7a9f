//! Calls in flight, rounds, and which round counts.
//!
//! Subjects take turns, round after round, so that a slow moment of the machine affects all of them. The best of the
//! rounds in which client and server each had a processor counts: disturbances can only cost time there. If client and
//! server shared a processor, no wake-up across processors was needed: that is another experiment, and sometimes a
//! faster one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::server::Server;
use super::subject::{Failure, Runner};
use super::usage::Usage;
use crate::crowding;
use crate::keys::Keys;

/// The load of a workload.
pub struct Load {
    pub keys: Arc<Keys>,
    /// The number of tasks that make one call after the other.
    pub in_flight: u32,
    /// The approximate number per subject and round.
    pub checks: u32,
}

/// What one subject did in one round.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    checks: u32,
    took: Duration,
    usage: Usage,
    /// Other programs disturbed the round; see [`crate::crowding`].
    pub crowded: bool,
}

impl Lap {
    /// Returns a duration of the lap in microseconds per check.
    fn each(&self, duration: Duration) -> f64 {
        duration.as_secs_f64() * 1e6 / f64::from(self.checks)
    }

    pub fn time(&self) -> f64 {
        self.each(self.took)
    }

    pub fn client(&self) -> f64 {
        self.each(self.usage.client)
    }

    pub fn server(&self) -> f64 {
        self.each(self.usage.server)
    }

    pub fn scripts(&self) -> f64 {
        self.each(self.usage.scripts)
    }
}

/// A figure of a lap.
pub type Figure = fn(&Lap) -> f64;

/// Returns the lap with the lowest figure, among the undisturbed ones if there are any.
pub fn best(laps: &[Lap], figure: Figure) -> Option<Lap> {
    let rank = |lap: &Lap| (lap.crowded, figure(lap));
    laps.iter().copied().min_by(|a, b| {
        let ((a_crowded, a), (b_crowded, b)) = (rank(a), rank(b));
        a_crowded.cmp(&b_crowded).then(a.total_cmp(&b))
    })
}

/// One subject on one workload.
pub struct Track {
    runner: Arc<dyn Runner>,
    /// The number of keys that the laps so far have visited.
    walked: usize,
    pub laps: Vec<Lap>,
}

impl Track {
    pub fn new(runner: Arc<dyn Runner>) -> Self {
        Self { runner, walked: 0, laps: Vec::new() }
    }

    /// Creates every key, so that no timed check creates one.
    pub async fn prepared(runner: Arc<dyn Runner>, load: &Load) -> Result<Self, Failure> {
        let mut track = Self::new(runner);
        let keys = u32::try_from(load.keys.names().count())?;
        track.go(load, keys).await?;
        Ok(track)
    }

    /// Returns the number of undisturbed laps.
    pub fn undisturbed(&self) -> usize {
        self.laps.iter().filter(|lap| !lap.crowded).count()
    }

    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    pub async fn lap(
        &mut self,
        load: &Load,
        server: &Server,
        control: &mut MultiplexedConnection,
    ) -> Result<(), Failure> {
        let used = Usage::now(control).await?;
        // The client is one thread, this one.
        let waited = || [crowding::waited(), server.waited()];
        let waited_before = waited();
        let start = Instant::now();
        let checks = self.go(load, load.checks).await?;
        let took = start.elapsed();
        let mut waits = waited().into_iter().zip(waited_before);
        let usage = Usage::now(control).await? - used;
        let crowded = waits.any(|(after, before)| after.saturating_sub(before) > took / 20);
        self.laps.push(Lap { checks, took, usage, crowded });
        Ok(())
    }

    /// Makes at least `checks` checks, all of which must be admitted. Returns their number.
    pub async fn go(&mut self, load: &Load, checks: u32) -> Result<u32, Failure> {
        let per_call = self.runner.checks_per_call();
        let calls = checks.div_ceil(load.in_flight * per_call);
        let each = calls * per_call;
        let mut tasks = JoinSet::new();
        for task in 0..load.in_flight {
            let start = self.walked + (task * each) as usize;
            tasks.spawn(Arc::clone(&self.runner).run(Arc::clone(&load.keys), start, calls));
        }
        let mut admitted = 0;
        while let Some(result) = tasks.join_next().await {
            admitted += result??;
        }
        let calls = calls * load.in_flight;
        let checks = calls * per_call;
        self.walked += checks as usize;
        if admitted == calls { Ok(checks) } else { Err(Denied { calls, admitted }.into()) }
    }
}

/// Calls were denied, so that their time is meaningless.
#[derive(Debug)]
struct Denied {
    calls: u32,
    admitted: u32,
}

impl std::error::Error for Denied {}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, admitted } = self;
        write!(f, "{admitted} of {calls} calls were admitted instead of all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_lap_counts_only_if_there_is_no_other() {
        let usage = Usage { client: Duration::ZERO, server: Duration::ZERO, scripts: Duration::ZERO };
        let lap = |took, crowded| Lap { checks: 10, took: Duration::from_micros(took), usage, crowded };
        let counts = |laps: &[Lap]| best(laps, Lap::time).map(|lap| (lap.took.as_micros(), lap.crowded));
        assert_eq!(counts(&[lap(30, false), lap(10, true), lap(20, false)]), Some((20, false)));
        assert_eq!(counts(&[lap(30, true), lap(10, true)]), Some((10, true)));
        assert_eq!(counts(&[]), None);
        assert!((lap(30, false).time() - 3.0).abs() < 1e-9);
    }
}
