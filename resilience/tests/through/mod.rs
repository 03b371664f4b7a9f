//! The conformance suite through wrappers: whatever is around a store, its answers stay the same.

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tollgate_conformance::{Subject, trials};
use tollgate_core::Key;
use tollgate_core::store::Store;
use tollgate_resilience::{Coalesced, Guarded, OnFailure, Switched};

/// A subject with something around it. Each trial has wrappers of its own, because trials have times of their own.
struct Through<T, W> {
    subject: T,
    wrap: W,
}

impl<T, S, W> Subject for Through<T, W>
where
    T: Subject,
    S: Store + 'static,
    W: Fn(T::Store) -> S + Send + Sync + 'static,
{
    type Store = S;

    async fn open(&self) -> S {
        (self.wrap)(self.subject.open().await)
    }

    fn replay_steps(&self) -> usize {
        self.subject.replay_steps()
    }
}

/// A guard that would be noticed: a machine that is busy with trials may keep a call waiting, but not that long, and
/// what the store does not decide is wrong.
pub(crate) fn guarded<S: Store + 'static>(store: S) -> Guarded<S> {
    Guarded::new(store).on_failure(OnFailure::Deny).deadline(Duration::from_secs(20))
}

/// Plenty is set that concerns other limits, and keys like those of the trials, but in no namespace or in another one.
pub(crate) fn switched<S: Store>(store: S) -> Switched<S> {
    let store = Switched::new(store);
    let switches = store.switches();
    switches.off("another limit");
    switches.shadow("one more");
    switches.set_allowed(["somebody", "another"]);
    switches.set_denied([Key::new("another namespace", "somebody"), Key::new("", "nobody")]);
    store
}

pub(crate) fn through<T: Subject, S: Store + 'static>(
    subject: T,
    kind: &'static str,
    wrap: impl Fn(T::Store) -> S + Send + Sync + 'static,
) -> impl Iterator<Item = Trial> {
    trials(Through { subject, wrap }).into_iter().map(move |trial| trial.with_kind(kind))
}

/// The suite through each wrapper, and through all of them. Each has a subject of its own, because connections live in
/// the runtime of the trials that opened them.
pub(crate) fn wrappers<T: Subject>(subject: impl Fn() -> T) -> Vec<Trial> {
    let mut all = Vec::new();
    all.extend(through(subject(), "guarded", guarded));
    all.extend(through(subject(), "switched", switched));
    all.extend(through(subject(), "coalesced", Coalesced::new));
    all.extend(through(subject(), "stacked", |store| switched(guarded(Coalesced::new(store)))));
    all
}

/// Runs trials with libtest's arguments.
pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
