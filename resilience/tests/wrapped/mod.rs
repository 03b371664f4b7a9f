//! The conformance suite on wrapped stores: a wrapper does not change a store's decisions.

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tollgate_conformance::{Subject, labelled, trials};
use tollgate_core::Key;
use tollgate_core::store::Store;
use tollgate_resilience::{Coalesced, Guarded, OnFailure, Switched};

/// A subject with a wrapper around its store. Each trial has a wrapper of its own, because trials have times of their
/// own.
struct Wrapped<T, W> {
    subject: T,
    wrap: W,
}

impl<T, S, W> Subject for Wrapped<T, W>
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

/// Guards a store so that a fallback fails the trial: it denies. The deadline is long enough for a busy machine.
pub(crate) fn guarded<S: Store + 'static>(store: S) -> Guarded<S> {
    Guarded::builder(store)
        .on_failure(OnFailure::Deny)
        .deadline(Duration::from_secs(20))
        .build()
        .expect("valid")
}

/// Sets switches of other limits, and lists the keys of trials in no namespace or in another one.
pub(crate) fn switched<S: Store>(store: S) -> Switched<S> {
    let store = Switched::new(store);
    let switches = store.switches();
    switches.off("another limit");
    switches.shadow("one more");
    switches.set_allow_list(["user:42", "another"]);
    switches.set_deny_list([Key::new("another namespace", "user:42"), Key::new("", "nobody")]);
    store
}

/// Returns the trials of one wrapper.
pub(crate) fn wrapped<T: Subject, S: Store + 'static>(
    subject: T,
    kind: &'static str,
    wrap: impl Fn(T::Store) -> S + Send + Sync + 'static,
) -> impl Iterator<Item = Trial> {
    trials(Wrapped { subject, wrap }).into_iter().map(move |trial| labelled(trial, kind))
}

/// Returns the trials of each wrapper, and of all of them stacked. Each has a subject of its own, because connections
/// live in the runtime of the trials that opened them.
pub(crate) fn wrappers<T: Subject>(subject: impl Fn() -> T) -> Vec<Trial> {
    let mut all = Vec::new();
    all.extend(wrapped(subject(), "guarded", guarded));
    all.extend(wrapped(subject(), "switched", switched));
    all.extend(wrapped(subject(), "coalesced", Coalesced::new));
    all.extend(wrapped(subject(), "stacked", |store| switched(guarded(Coalesced::new(store)))));
    all
}

/// Runs trials with libtest's arguments.
pub(crate) fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
