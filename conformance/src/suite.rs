//! Runs the trials on a store.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tollgate_core::AlgorithmKind;
use tollgate_core::store::{Capability, Store};

use crate::fixture::Fixture;
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
}

/// How many trials run at the same time by default: on a server, trials wait more than they compute.
const DEFAULT_THREADS: usize = 8;

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

/// A capability that a trial requires.
#[derive(Clone, Copy)]
pub(crate) struct Requirement {
    /// Returns whether the store has it.
    pub(crate) is_met: fn(&Capability, AlgorithmKind) -> bool,
    /// Why the trial is ignored on a store that does not have it.
    pub(crate) reason: &'static str,
}

/// Returns the trials of a store, to run together with other trials.
///
/// A trial that the store's [`Capability`] rules out has the ignored flag, and the reason is its
/// [kind](Trial::kind): `test [the store does not recognize idempotency keys] idempotency_keys::gcra ... ignored`.
pub fn trials<T: Subject>(subject: T) -> Vec<Trial> {
    let subject = Arc::new(subject);
    let runtime = Arc::new(
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime for the trials"),
    );
    let capability = runtime.block_on(subject.open()).capability();
    all::<T::Store>(subject.replay_steps())
        .into_iter()
        .map(|PlannedTrial { name, kind, body, requirements }| {
            if let Some(missing) = requirements.iter().find(|required| !(required.is_met)(&capability, kind))
            {
                let ignored = Trial::test(name, || Err(missing.reason.into()));
                return ignored.with_kind(missing.reason).with_ignored_flag(true);
            }
            let (subject, runtime, namespace) = (Arc::clone(&subject), Arc::clone(&runtime), unique(&name));
            Trial::test(name, move || {
                runtime.block_on(async {
                    let store = Arc::new(subject.open().await);
                    body(Fixture::new(store, namespace)).await;
                });
                Ok(())
            })
        })
        .collect()
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
fn unique(name: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tollgate_core::store::{AlgorithmSet, Export, IdempotencyRetention, Run, RunVerdict};
    use tollgate_core::{Key, Limit, Request, StoreError, Time, Verdict};

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
    }

    #[test]
    fn every_trial_has_a_name_of_its_own() {
        let all = trials(Claiming(Capability::exact()));
        let names: BTreeSet<_> = all.iter().map(Trial::name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|trial| !trial.has_ignored_flag() && trial.kind().is_empty()));
    }

    #[test]
    fn trials_that_a_capability_rules_out_are_listed_with_the_reason() {
        let able = Capability::exact();
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
