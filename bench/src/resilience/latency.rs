//! The latency of a caller while the store is dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, yield_now};
use tollgate::Limit;

use super::dead::{self, DeadLimiter};
use super::in_process::short_limit;
use crate::crowding;
use crate::keys::Keys;
use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};

/// The number of tasks that make one check after the other.
pub const CALLERS: u32 = 50;
/// Checks of one caller in one round.
const CHECKS: u32 = 4_000;
const KEYS: usize = 100_000;

pub const P99: &str = "p99";
/// The row of the deadline: the latency without a circuit breaker.
pub const DEADLINE: &str = "deadline";

pub async fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    eprintln!("{P99}: measuring");
    let limit = short_limit()?;
    let setup = Arc::new(Setup {
        limiter: dead::limiter(&limit, KEYS).await?,
        limit,
        keys: Keys::new(KEYS, 1),
        checks: if plan.quick { CHECKS / 10 } else { CHECKS },
    });
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        rounds.push(Arc::clone(&setup).round(round as usize).await?);
    }
    // Undisturbed rounds first, then the fastest.
    let best = rounds.into_iter().min().expect("at least one round");
    let microseconds = |duration: Duration| duration.as_secs_f64() * 1e6;
    let figure = Finding::Figure { value: microseconds(best.p99), crowded: best.crowded };
    findings.record(dead::NAME, P99.to_owned(), figure);
    let figure = Finding::Figure { value: microseconds(dead::DEADLINE), crowded: false };
    findings.record(DEADLINE, P99.to_owned(), figure);
    Ok(())
}

/// The figures of a round; the smaller one is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Round {
    crowded: bool,
    p99: Duration,
}

/// The state that all callers share.
struct Setup {
    limiter: DeadLimiter,
    limit: Limit,
    keys: Keys,
    checks: u32,
}

impl Setup {
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    async fn round(self: Arc<Self>, round: usize) -> Result<Round, Failure> {
        let waited = crowding::waited();
        let start = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS as usize {
            let first = (round * CALLERS as usize + caller) * self.checks as usize;
            callers.spawn(Arc::clone(&self).calls(first));
        }
        let mut times = Vec::new();
        while let Some(result) = callers.join_next().await {
            times.extend(result??);
        }
        // All callers run on one thread, this one.
        let crowded = crowding::waited().saturating_sub(waited) > start.elapsed() / 20;
        let rank = times.len() * 99 / 100;
        let (_, p99, _) = times.select_nth_unstable(rank);
        Ok(Round { crowded, p99: *p99 })
    }

    /// Returns the durations of the checks of one caller.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    async fn calls(self: Arc<Self>, first: usize) -> Result<Vec<Duration>, Failure> {
        let mut walk = self.keys.walk(0, first);
        let mut times = Vec::with_capacity(self.checks as usize);
        for _ in 0..self.checks {
            let key = walk.step();
            let start = Instant::now();
            let decision = self.limiter.check(&self.limit, key).await;
            times.push(start.elapsed());
            if !dead::is_admitted(decision) {
                return Err(format!("{} denied a check, or called its store", dead::NAME).into());
            }
            // A check that is ready at once never yields to the other callers.
            yield_now().await;
        }
        Ok(times)
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(&[dead::NAME, DEADLINE], &[(P99, vec![P99.to_owned()])]);
}
