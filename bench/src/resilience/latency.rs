//! How long a single caller waits when the store is dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, yield_now};
use tollgate::Limit;

use super::dead::{self, DeadLimiter};
use super::in_process::ordinary;
use crate::crowding;
use crate::keys::Keys;
use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};

/// So many tasks make one check after the other.
pub const CALLERS: u32 = 50;
/// Checks of one caller in one round.
const CHECKS: u32 = 4_000;
const KEYS: usize = 100_000;

pub const P99: &str = "p99";
/// The row of what callers would wait for if the guard went on asking.
pub const DEADLINE: &str = "deadline";

pub async fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    eprintln!("{P99}: measuring");
    let limit = ordinary()?;
    let scene = Arc::new(Scene {
        limiter: dead::limiter(&limit, KEYS).await?,
        limit,
        keys: Keys::new(KEYS, 1),
        checks: if plan.quick { CHECKS / 10 } else { CHECKS },
    });
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        rounds.push(Arc::clone(&scene).round(round as usize).await?);
    }
    // Those without other programs in the way first, then the quickest.
    let best = rounds.into_iter().min().expect("there is at least one round");
    let microseconds = |duration: Duration| duration.as_secs_f64() * 1e6;
    let figure = Finding::Figure { value: microseconds(best.p99), crowded: best.crowded };
    findings.record(dead::NAME, P99.to_owned(), figure);
    let figure = Finding::Figure { value: microseconds(dead::DEADLINE), crowded: false };
    findings.record(DEADLINE, P99.to_owned(), figure);
    Ok(())
}

/// What one round showed; the better one is the lesser.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Round {
    crowded: bool,
    p99: Duration,
}

/// What all callers share.
struct Scene {
    limiter: DeadLimiter,
    limit: Limit,
    keys: Keys,
    checks: u32,
}

impl Scene {
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    async fn round(self: Arc<Self>, round: usize) -> Result<Round, Failure> {
        let waited = crowding::waited();
        let began = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS as usize {
            let start = (round * CALLERS as usize + caller) * self.checks as usize;
            callers.spawn(Arc::clone(&self).calls(start));
        }
        let mut times = Vec::new();
        while let Some(ended) = callers.join_next().await {
            times.extend(ended??);
        }
        // All of it is one thread, this one.
        let crowded = crowding::waited().saturating_sub(waited) > began.elapsed() / 20;
        let rank = times.len() * 99 / 100;
        let (_, p99, _) = times.select_nth_unstable(rank);
        Ok(Round { crowded, p99: *p99 })
    }

    /// How long each check of one caller took.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    async fn calls(self: Arc<Self>, start: usize) -> Result<Vec<Duration>, Failure> {
        let mut walk = self.keys.walk(0, start);
        let mut times = Vec::with_capacity(self.checks as usize);
        for _ in 0..self.checks {
            let key = walk.step();
            let began = Instant::now();
            let answer = self.limiter.check(&self.limit, key).await;
            times.push(began.elapsed());
            if !dead::is_admitted(answer) {
                return Err(format!("{} denied a check, or asked its store", dead::NAME).into());
            }
            // The others' turn: a check that has its answer at once would never let go.
            yield_now().await;
        }
        Ok(times)
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(&[dead::NAME, DEADLINE], &[(P99, vec![P99.to_owned()])]);
}
