//! Several processes around one Redis or several.
//!
//! The test starts itself again: each child process is a node.
//!
//! - `deltas`: what processes learn of each other, and what a process that is killed loses.
//! - `fleet`: processes under load; `fair_shares`: how they divide a limit; `outages`: of their servers.

mod deltas;
mod fair_shares;
mod fleet;
#[path = "../load/mod.rs"]
mod load;
mod outages;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Handle, Runtime};

/// The body of a trial.
type Body = fn(&Handle);

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((flag, arguments)) if flag == deltas::NODE => deltas::run_node(&runtime, arguments),
        Some((flag, arguments)) if flag == fleet::NODE => fleet::run_node(&runtime, arguments),
        _ => return run_trials(&runtime),
    }
    ExitCode::SUCCESS
}

fn run_trials(runtime: &Runtime) -> ExitCode {
    // The longest first, so that the others run beside it.
    let trials: [(&str, Body); 5] = [
        ("after_an_outage_the_limit_passes_again", outages::after_an_outage),
        ("processes_that_start_one_after_the_other_get_equal_parts", fair_shares::one_after_the_other),
        ("two_processes_agree_after_two_sync_rounds", deltas::agree),
        ("deltas_sent_by_a_killed_process_are_kept", deltas::killed_when_idle),
        ("a_process_killed_under_load_loses_only_unsent_deltas", deltas::killed_under_load),
    ];
    let trials = trials.into_iter().map(|(name, trial)| {
        let handle = runtime.handle().clone();
        Trial::test(name, move || {
            trial(&handle);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
