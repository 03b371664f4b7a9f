//! The trials, one file per behaviour.

mod changes;
mod conflicts;
mod deletion;
mod editors;
mod history;
mod killed;
mod list;
mod names;
mod poll;
mod texts;

use std::future::Future;

use super::fixture::Fixture;
use super::suite::{DocumentSubject, PlannedTrial, Requirement};

/// A growing list of trials.
pub(crate) struct Plan<T: DocumentSubject> {
    trials: Vec<PlannedTrial<T>>,
}

impl<T: DocumentSubject> Plan<T> {
    /// Adds a trial.
    fn add<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &'static str,
        body: impl Fn(Fixture<T>) -> F + Send + Sync + 'static,
    ) {
        self.add_requiring(Requirement::Nothing, name, body);
    }

    /// Adds a trial that not every subject can run.
    fn add_requiring<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        requirement: Requirement,
        name: &'static str,
        body: impl Fn(Fixture<T>) -> F + Send + Sync + 'static,
    ) {
        let body = Box::new(move |fixture| Box::pin(body(fixture)) as _);
        self.trials.push(PlannedTrial { name, body, requirement });
    }
}

/// Returns every trial.
pub(crate) fn all<T: DocumentSubject>() -> Vec<PlannedTrial<T>> {
    let mut plan = Plan { trials: Vec::new() };
    changes::plan(&mut plan);
    conflicts::plan(&mut plan);
    deletion::plan(&mut plan);
    editors::plan(&mut plan);
    history::plan(&mut plan);
    killed::plan(&mut plan);
    list::plan(&mut plan);
    names::plan(&mut plan);
    poll::plan(&mut plan);
    texts::plan(&mut plan);
    plan.trials
}
