//! Runs the trials on a store.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tollgate_core::store::{Capability, Store};
use tollgate_core::{AlgorithmKind, Time};

use crate::compare::RecentCalls;
use crate::fixture::{CountStates, Fixture};
use crate::trials::all;

/// A store to test.
pub trait Subject: Send + Sync + 'static {
    /// The type of the store.
    type Store: Store + 'static;

    /// Opens a store for one trial. All trials may share one server, since each uses a namespace of its own.
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// Returns the number of steps of a replay. Choose fewer for a server that takes milliseconds per step. Default:
    /// 1,500.
    fn replay_steps(&self) -> usize {
        1_500
    }

    /// Returns how many states the store holds at `now`, including expired ones that still take up memory. `None` if
    /// they cannot be counted, or if they expire by another clock than the caller's: the trials about growth are
    /// ignored then. Default: `None`.
    fn held_states(&self, store: &Self::Store, now: Time) -> impl Future<Output = Option<usize>> + Send {
        let _ = (store, now);
        async { None }
    }
}

/// How many trials run at the same time by default: on a server, trials wait more than they compute.
pub(crate) const DEFAULT_THREADS: usize = 8;

/// The code of a trial.
pub(crate) type Body<S> = Box<dyn Fn(Fixture<S>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A trial, and what a store must be able to do to run it.
pub(crate) struct PlannedTrial<S> {
    pub(crate) name: String,
    /// The algorithm it is about.
    pub(crate) kind: AlgorithmKind,
    pub(crate) body: Body<S>,
    pub(crate) requirements: &'static [Requirement],
}

/// What decides which trials run on a store.
pub(crate) struct Abilities {
    pub(crate) capability: Capability,
    /// Whether the subject counts the states that its store holds.
    pub(crate) counts_states: bool,
}

/// An ability that a trial requires.
#[derive(Clone, Copy)]
pub(crate) struct Requirement {
    /// Returns whether the store has it.
    pub(crate) is_met: fn(&Abilities, AlgorithmKind) -> bool,
    /// Why the trial is ignored on a store that does not have it.
    pub(crate) reason: &'static str,
}

/// Returns the trials of a store, to run together with other trials.
///
/// A trial that the store's [`Capability`] rules out has the ignored flag, and the reason is its
/// [kind](Trial::kind): `test [the store does not recognize idempotency keys] idempotency_keys::gcra ... ignored`.
pub fn trials<T: Subject>(subject: T) -> Vec<Trial> {
    let suite = Arc::new(Suite::new(subject));
    let planned = all::<T::Store>(suite.subject.replay_steps());
    let trial = |trial: PlannedTrial<T::Store>| {
        if let Some(reason) = suite.rules_out(&trial) {
            let ignored = Trial::test(trial.name, || Err(reason.into()));
            return ignored.with_kind(reason).with_ignored_flag(true);
        }
        let suite = Arc::clone(&suite);
        Trial::test(trial.name.clone(), move || suite.run(&trial).map_err(Failed::from))
    };
    planned.into_iter().map(trial).collect()
}

/// Runs the trials whose names contain `filter`, and returns the name and the message of each that failed. For tests
/// of the suite itself.
#[doc(hidden)]
pub fn failures<T: Subject>(subject: T, filter: &str) -> Vec<(String, String)> {
    let suite = Suite::new(subject);
    let planned = all::<T::Store>(suite.subject.replay_steps());
    let selected: Vec<_> = planned
        .into_iter()
        .filter(|trial| trial.name.contains(filter) && suite.rules_out(trial).is_none())
        .collect();
    assert!(!selected.is_empty(), "no trial of {filter:?} runs on this store");
    selected
        .into_iter()
        .filter_map(|trial| suite.run(&trial).err().map(|message| (trial.name, message)))
        .collect()
}

/// A subject, and the runtime of its trials.
struct Suite<T> {
    subject: Arc<T>,
    runtime: Runtime,
    abilities: Abilities,
}

impl<T: Subject> Suite<T> {
    fn new(subject: T) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime for the trials");
        let abilities = runtime.block_on(async {
            let store = subject.open().await;
            let counts_states = subject.held_states(&store, Time::EPOCH).await.is_some();
            Abilities { capability: store.capability(), counts_states }
        });
        Self { subject: Arc::new(subject), runtime, abilities }
    }

    /// Returns why a trial does not run on this store.
    fn rules_out(&self, trial: &PlannedTrial<T::Store>) -> Option<&'static str> {
        let missing =
            trial.requirements.iter().find(|required| !(required.is_met)(&self.abilities, trial.kind));
        missing.map(|missing| missing.reason)
    }

    /// Runs one trial. An error has the message of the assertion that failed, and the last calls.
    fn run(&self, trial: &PlannedTrial<T::Store>) -> Result<(), String> {
        let (calls, subject) = (RecentCalls::default(), Arc::clone(&self.subject));
        let count_states: CountStates<T::Store> = Arc::new(move |store, now| {
            let subject = Arc::clone(&subject);
            Box::pin(async move { subject.held_states(store, now).await })
        });
        let body = AssertUnwindSafe(|| {
            self.runtime.block_on(async {
                let store = Arc::new(self.subject.open().await);
                let fixture = Fixture::new(store, unique(&trial.name), count_states, calls.clone());
                (trial.body)(fixture).await;
            });
        });
        catch_unwind(body).map_err(|panic| format!("{}{calls}", message_of(panic.as_ref())))
    }
}

/// Returns the message of a panic.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the trial panicked")
}

/// Labels a trial, for suites that run the same trials several times. The reason of an ignored trial stays.
#[must_use]
pub fn labelled(trial: Trial, label: &str) -> Trial {
    let kind = match trial.kind() {
        "" => label.to_owned(),
        reason => format!("{label}: {reason}"),
    };
    trial.with_kind(kind)
}

/// Runs the trials of a store, with libtest's command-line arguments.
pub fn run(subject: impl Subject) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(DEFAULT_THREADS);
    libtest_mimic::run(&arguments, trials(subject)).exit_code()
}

/// Returns a namespace that no other trial and no earlier run uses.
pub(crate) fn unique(name: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tollgate_core::store::{AlgorithmSet, Export, IdempotencyRetention, Run, RunVerdict};
    use tollgate_core::{Key, Limit, Request, StoreError, Verdict};

    use super::*;

    /// A store of which only the capability matters.
    struct Claims(Capability);

    impl Store for Claims {
        fn capability(&self) -> Capability {
            self.0
        }

        async fn decide(&self, _: Request<'_>, _: Time) -> Result<Verdict, StoreError> {
            unreachable!("no trial runs")
        }

        async fn decide_batch(&self, _: &[Run<'_>], _: Time) -> Vec<Result<RunVerdict, StoreError>> {
            unreachable!("no trial runs")
        }

        async fn export(&self, _: &Limit, _: Key<'_>, _: Time) -> Result<Export, StoreError> {
            unreachable!("no trial runs")
        }
    }

    struct Claiming(Capability);

    impl Subject for Claiming {
        type Store = Claims;

        async fn open(&self) -> Claims {
            Claims(self.0)
        }

        async fn held_states(&self, _: &Claims, _: Time) -> Option<usize> {
            Some(0)
        }
    }

    fn able() -> Capability {
        Capability::exact().with_idempotency(IdempotencyRetention::For(std::time::Duration::from_secs(60)))
    }

    #[test]
    fn every_trial_has_a_name_of_its_own() {
        let all = trials(Claiming(able()));
        let names: BTreeSet<_> = all.iter().map(Trial::name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|trial| !trial.has_ignored_flag() && trial.kind().is_empty()));
    }

    #[test]
    fn trials_that_a_capability_rules_out_are_listed_with_the_reason() {
        let able = able();
        let limited = [
            able.with_exact(AlgorithmSet::NONE),
            able.with_snapshots(AlgorithmSet::of(&[AlgorithmKind::Gcra])),
            able.with_idempotency(IdempotencyRetention::None),
        ];
        for capability in limited {
            let all = trials(Claiming(capability));
            assert_eq!(all.len(), trials(Claiming(able)).len(), "no trial is dropped");
            assert!(all.iter().any(Trial::has_ignored_flag));
            for trial in all {
                assert_eq!(trial.has_ignored_flag(), !trial.kind().is_empty(), "{}", trial.name());
            }
        }
    }
}
