//! Subjects side by side on workloads.

use std::sync::Arc;

use super::load::{Load, Track, best};
use super::server::Server;
use super::subject::{Contestant, Failure};
use super::workload::Workload;
use crate::keys::Keys;
use crate::measure::Plan;
use crate::report::{Finding, Findings};
use crate::selection::Selection;

/// A subject with too few undisturbed rounds gets more, up to this multiple of the planned ones.
const MAX_ROUNDS: u32 = 2;

/// Runs a future that calls a server, on one thread.
///
/// On two processors this leaves one to the server. A second client thread makes no subject faster, as the server is
/// the bottleneck, and doubles the CPU time of the client, as threads wake each other.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

/// Measures the selected contestants on all workloads. Fails if a check of a Tollgate subject fails or is denied.
pub async fn measure(
    plan: Plan,
    server: &Server,
    workloads: &[Workload],
    contestants: &[Contestant],
    selection: &Selection,
    findings: &mut Findings,
) -> Result<(), Failure> {
    for workload in workloads {
        let participants = participants(workload, contestants, selection);
        if !participants.is_empty() {
            measure_one(plan, server, workload, &participants, findings).await?;
        }
    }
    Ok(())
}

/// Returns the selected contestants of a workload, each with its index.
fn participants<'a>(
    workload: &Workload,
    contestants: &'a [Contestant],
    selection: &Selection,
) -> Vec<(usize, &'a Contestant)> {
    let takes_part = |contestant: &Contestant| {
        let columns = workload.columns.iter().map(|(column, _)| *column);
        contestant.workloads.contains(&workload.name)
            && selection.includes(workload.name, contestant.name, columns)
    };
    contestants.iter().enumerate().filter(|(_, contestant)| takes_part(contestant)).collect()
}

/// Returns the load of a workload.
pub fn load(plan: Plan, workload: &Workload) -> Load {
    let shrink = if plan.quick { 10 } else { 1 };
    Load {
        keys: Arc::new(Keys::new(workload.keys.div_ceil(shrink as usize), 1)),
        in_flight: workload.in_flight,
        checks: workload.checks / shrink,
    }
}

async fn measure_one(
    plan: Plan,
    server: &Server,
    workload: &Workload,
    participants: &[(usize, &Contestant)],
    findings: &mut Findings,
) -> Result<(), Failure> {
    let load = load(plan, workload);
    eprintln!("{}: preparing", workload.name);
    let mut tracks = Vec::new();
    for (index, contestant) in participants {
        tracks.push(match (contestant.build)(server.place(*index)).await {
            Ok(runner) => Track::prepared(runner, &load).await,
            Err(failure) => Err(failure),
        });
    }
    eprintln!("{}: measuring", workload.name);
    laps(plan, server, &load, &mut tracks).await?;
    for ((_, contestant), track) in participants.iter().zip(tracks) {
        record(findings, contestant, workload, track)?;
    }
    Ok(())
}

/// Lets the tracks take turns, round after round. One that fails ends with its failure.
pub async fn laps(
    plan: Plan,
    server: &Server,
    load: &Load,
    tracks: &mut [Result<Track, Failure>],
) -> Result<(), Failure> {
    let mut control = server.connect().await?;
    let enough = plan.rounds.div_ceil(2) as usize;
    for round in 0..MAX_ROUNDS * plan.rounds {
        for track in &mut *tracks {
            let Ok(running) = track else { continue };
            if round >= plan.rounds && running.undisturbed() >= enough {
                continue;
            }
            if let Err(failure) = running.lap(load, server, &mut control).await {
                *track = Err(failure);
            }
        }
    }
    Ok(())
}

fn record(
    findings: &mut Findings,
    contestant: &Contestant,
    workload: &Workload,
    track: Result<Track, Failure>,
) -> Result<(), Failure> {
    let name = contestant.name;
    match track {
        Ok(track) => {
            let lap = best(&track.laps, workload.rank).expect("at least one round");
            for (column, figure) in workload.columns {
                let figure = Finding::Figure { value: figure(&lap), crowded: lap.crowded };
                findings.record(name, (*column).to_owned(), figure);
            }
        }
        Err(failure) if contestant.peer => {
            findings.record(name, workload.name.to_owned(), Finding::Cannot(failure.to_string()));
        }
        Err(failure) => return Err(format!("{name} on {}: {failure}", workload.name).into()),
    }
    Ok(())
}

/// Prints a table per workload, with the subjects that took part.
pub fn print(findings: &Findings, workloads: &[Workload], contestants: &[Contestant], selection: &Selection) {
    for workload in workloads {
        let participants = participants(workload, contestants, selection);
        if participants.is_empty() {
            continue;
        }
        let names: Vec<_> = participants.iter().map(|(_, contestant)| contestant.name).collect();
        let columns: Vec<_> =
            workload.columns.iter().map(|(column, _)| (*column, vec![(*column).to_owned()])).collect();
        println!("\n{}: {} in flight", workload.name, workload.in_flight);
        findings.print_table(&names, &columns);
    }
}
