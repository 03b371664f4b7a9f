//! Ten nodes at three times their limit, on a real Redis and in real time: overshoot and utilization.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollgate::{Limit, Limiter};
use tollgate_limiter_sync::{Mode, Synced};
use tollgate_store_redis::RedisStore;

use crate::measure::Plan;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::redis::tollgate::connect;
use crate::report::{Finding, Findings};

pub const DELTAS: &str = "deltas";
const LEASE: &str = "lease";

/// What is allowed beyond the limit in the worst ten seconds.
pub const OVERSHOOT: &str = "overshoot";
/// What is allowed in total, as a fraction of the limit.
const UTILIZATION: &str = "utilization";

const NODES: u32 = 10;
const RATE: u32 = 1_000;
const BURST: u32 = 100;
/// The demand as a multiple of the limit.
const DEMAND: u32 = 3;
/// The time between two groups of checks of a node.
const TICK: Duration = Duration::from_millis(10);
/// The time before the measurement, in which the initial debt is repaid.
const WARM_UP: Duration = Duration::from_secs(2);
/// The length of the windows in which overshoot is counted, in seconds.
const WINDOW: usize = 10;
/// The number of slots per second in which allowed checks are counted.
const SLOTS: u32 = 10;

pub fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let seconds = if plan.quick { 14 } else { 26 };
    for (index, (name, mode)) in [(DELTAS, Mode::Deltas), (LEASE, Mode::Lease)].into_iter().enumerate() {
        eprintln!("overload, {name}: {seconds} seconds");
        let limit = Limit::per_second(RATE).burst(BURST).build("api")?;
        let allowed = runtime.block_on(drive(server, 70 + index, limit, mode, seconds))?;
        let figures = [(OVERSHOOT, overshoot(&allowed)), (UTILIZATION, utilization(&allowed))];
        for (column, value) in figures {
            findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
        }
    }
    Ok(())
}

fn node(store: RedisStore, mode: Mode) -> Synced<RedisStore> {
    Synced::builder(store).mode(mode).build().expect("valid")
}

/// Drives all nodes, and returns the allowed checks in each slot of time after the warm-up.
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
async fn drive(
    server: &Server,
    place: usize,
    limit: Limit,
    mode: Mode,
    seconds: u64,
) -> Result<Vec<u32>, Failure> {
    let mut nodes = JoinSet::new();
    let start = Instant::now() + WARM_UP;
    for index in 0..NODES {
        let synced = node(connect(&server.place(place)).await?, mode);
        let (limiter, limit) = (Arc::new(Limiter::new(synced)), limit.clone());
        nodes.spawn(async move {
            // The nodes do not check at the same moments.
            sleep(TICK * index / NODES).await;
            let mut tick = interval(TICK);
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut allowed = vec![0; usize::try_from(seconds * u64::from(SLOTS))?];
            loop {
                tick.tick().await;
                let slot = start.elapsed().as_millis() * u128::from(SLOTS) / 1_000;
                if usize::try_from(slot)? >= allowed.len() {
                    limiter.store().close(Duration::from_secs(5)).await?;
                    return Ok::<_, Failure>(allowed);
                }
                // Checks during the warm-up have slot 0, and are not counted.
                let counts = Instant::now() >= start;
                for _ in 0..RATE * DEMAND / NODES / 100 {
                    let decision = limiter.check(&limit, "all-users").await?;
                    allowed[usize::try_from(slot)?] += u32::from(decision.is_allowed() && counts);
                }
            }
        });
    }
    let mut sum = vec![0; usize::try_from(seconds * u64::from(SLOTS))?];
    while let Some(allowed) = nodes.join_next().await {
        for (sum, allowed) in sum.iter_mut().zip(allowed??) {
            *sum += allowed;
        }
    }
    Ok(sum)
}

/// Returns what is allowed beyond the limit in the worst window, as a fraction of what the limit allows in one.
fn overshoot(allowed: &[u32]) -> f64 {
    let window = WINDOW * SLOTS as usize;
    let worst = allowed.windows(window).map(|window| window.iter().sum::<u32>()).max().unwrap_or(0);
    let limit = f64::from(RATE) * 10.0;
    (f64::from(worst) / limit - 1.0).max(0.0)
}

fn utilization(allowed: &[u32]) -> f64 {
    let seconds = f64::from(u32::try_from(allowed.len()).unwrap_or(u32::MAX)) / f64::from(SLOTS);
    f64::from(allowed.iter().sum::<u32>()) / (f64::from(RATE) * seconds)
}

pub fn print(findings: &Findings) {
    findings.print_table(
        &[DELTAS, LEASE],
        &[OVERSHOOT, UTILIZATION].map(|column| (column, vec![column.to_owned()])),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_window_counts() {
        let mut allowed = vec![100; 200];
        assert!(overshoot(&allowed).abs() < 1e-9 && (utilization(&allowed) - 1.0).abs() < 1e-9);
        allowed[150] = 300;
        assert!((overshoot(&allowed) - 0.02).abs() < 1e-9);
        allowed[0] = 0;
        assert!((overshoot(&allowed) - 0.02).abs() < 1e-9);
    }
}
