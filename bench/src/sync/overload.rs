//! A fleet under three times its limit, on a real Redis and in real time: what passes is counted, and how near that is to
//! the limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tollgate::{Limit, Limiter};
use tollgate_limiter_sync::{Mode, Synced, Terms};

use crate::measure::Plan;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::redis::tollgate::connect;
use crate::report::{Finding, Findings};

pub const DELTAS: &str = "deltas";
const LEASE: &str = "lease";

/// What passed beyond the limit in the worst ten seconds, and what passed of it all in all.
pub const OVER: &str = "over";
const USED: &str = "used";

const NODES: u32 = 10;
const RATE: u32 = 1_000;
const BURST: u32 = 100;
const TIMES: u32 = 3;
/// A node asks so often.
const TICK: Duration = Duration::from_millis(10);
/// How long the first burst may take to be repaid, and how long the windows are that count after that.
const BEGIN: Duration = Duration::from_secs(2);
const WINDOW: usize = 10;
/// Parts of a second that passes are counted in.
const PARTS: u32 = 10;

pub fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let seconds = if plan.quick { 14 } else { 26 };
    for (index, (name, mode)) in [(DELTAS, Mode::Deltas), (LEASE, Mode::Lease)].into_iter().enumerate() {
        eprintln!("overload, {name}: {seconds} seconds");
        let limit = Limit::per_second(RATE).burst(BURST).build("api")?;
        let terms = move |usual: Terms| usual.mode(mode);
        let passed = runtime.block_on(drive(server, 70 + index, limit, terms, seconds))?;
        let figures = [(OVER, over(&passed)), (USED, used(&passed))];
        for (column, value) in figures {
            findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
        }
    }
    Ok(())
}

/// What passes in each part of each second, from when the first burst is over.
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
async fn drive(
    server: &Server,
    place: usize,
    limit: Limit,
    terms: impl Fn(Terms) -> Terms,
    seconds: u64,
) -> Result<Vec<u32>, Failure> {
    let mut nodes = JoinSet::new();
    let begin = Instant::now() + BEGIN;
    for node in 0..NODES {
        let synced = Synced::new(connect(&server.place(place)).await?).terms(&terms);
        let (limiter, limit) = (Arc::new(Limiter::new(synced)), limit.clone());
        nodes.spawn(async move {
            // Nodes do not ask all at once.
            sleep(TICK * node / NODES).await;
            let mut tick = interval(TICK);
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut passed = vec![0; usize::try_from(seconds * u64::from(PARTS))?];
            loop {
                tick.tick().await;
                let part = begin.elapsed().as_millis() * u128::from(PARTS) / 1_000;
                if usize::try_from(part)? >= passed.len() {
                    limiter.store().close(Duration::from_secs(5)).await?;
                    return Ok::<_, Failure>(passed);
                }
                // What comes before `begin` is in the first part, and counts for nothing.
                let counts = Instant::now() >= begin;
                for _ in 0..RATE * TIMES / NODES / 100 {
                    let allowed = limiter.check(&limit, "everybody").await?.is_allowed();
                    passed[usize::try_from(part)?] += u32::from(allowed && counts);
                }
            }
        });
    }
    let mut sum = vec![0; usize::try_from(seconds * u64::from(PARTS))?];
    while let Some(passed) = nodes.join_next().await {
        for (sum, passed) in sum.iter_mut().zip(passed??) {
            *sum += passed;
        }
    }
    Ok(sum)
}

/// The worst window, as a part of what the limit allows in it; nothing if none is over.
fn over(passed: &[u32]) -> f64 {
    let window = WINDOW * PARTS as usize;
    let most = passed.windows(window).map(|window| window.iter().sum::<u32>()).max().unwrap_or(0);
    let allowed = f64::from(RATE) * 10.0;
    (f64::from(most) / allowed - 1.0).max(0.0)
}

fn used(passed: &[u32]) -> f64 {
    let seconds = f64::from(u32::try_from(passed.len()).unwrap_or(u32::MAX)) / f64::from(PARTS);
    f64::from(passed.iter().sum::<u32>()) / (f64::from(RATE) * seconds)
}

pub fn print(findings: &Findings) {
    findings.print_table(&[DELTAS, LEASE], &[OVER, USED].map(|column| (column, vec![column.to_owned()])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_window_counts() {
        let mut passed = vec![100; 200];
        assert!(over(&passed).abs() < 1e-9 && (used(&passed) - 1.0).abs() < 1e-9);
        passed[150] = 300;
        assert!((over(&passed) - 0.02).abs() < 1e-9);
        passed[0] = 0;
        assert!((over(&passed) - 0.02).abs() < 1e-9);
    }
}
