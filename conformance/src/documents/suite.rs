//! Runs the trials on a document store.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tollgate_core::documents::DocumentStore;

use super::fixture::Fixture;
use super::trials::all;
use crate::suite::{DEFAULT_THREADS, message_of, unique};

/// A document store to test.
pub trait DocumentSubject: Send + Sync + 'static {
    /// The type of the store.
    type Store: DocumentStore + 'static;

    /// Opens a store for one trial. All trials may share one server, since the names of each start with a prefix of its
    /// own.
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// Returns how many versions of a document the store is configured to keep: 2 to 20. Few are better, since trials
    /// make twice as many.
    fn history(&self) -> usize;

    /// Returns how many times each of eight concurrent editors changes a document. Choose fewer for a server that takes
    /// milliseconds per change. Default: 25.
    fn changes_per_editor(&self) -> usize {
        25
    }

    /// Opens another client of the same documents. `None` if there can be only one: the trials about several clients
    /// are ignored then. Default: `None`.
    fn open_another(&self, store: &Self::Store) -> impl Future<Output = Option<Self::Store>> + Send {
        let _ = store;
        async { None }
    }

    /// Returns how many versions of a document take up memory, also such as readers do not see any more. `None` if they
    /// cannot be counted: the trial about them is ignored then. Default: `None`.
    fn held_versions(&self, store: &Self::Store, name: &str) -> impl Future<Output = Option<usize>> + Send {
        let _ = (store, name);
        async { None }
    }

    /// Starts a [`put`](DocumentStore::put) and ends it after its first `steps` steps, as if its process had been
    /// killed. Returns false if the put has fewer steps, and was made. The trials about killed writers are ignored if
    /// that is so for 0 steps. Default: false.
    fn kill_writer(
        &self,
        store: &Self::Store,
        change: KilledPut<'_>,
        steps: usize,
    ) -> impl Future<Output = bool> + Send {
        let _ = (store, change, steps);
        async { false }
    }
}

/// What a writer wants to put when it is killed ([`DocumentSubject::kill_writer`]).
#[derive(Clone, Copy, Debug)]
pub struct KilledPut<'p> {
    /// The name of the document.
    pub name: &'p str,
    /// The text.
    pub text: &'p str,
    /// The version that the put replaces.
    pub expected: Option<u64>,
}

/// The code of a trial.
pub(crate) type Body<T> = Box<dyn Fn(Fixture<T>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A trial, and what a subject must be able to do to run it.
pub(crate) struct PlannedTrial<T: DocumentSubject> {
    pub(crate) name: &'static str,
    pub(crate) body: Body<T>,
    pub(crate) requirement: Requirement,
}

/// An ability of a subject that a trial requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    Nothing,
    AnotherClient,
    CountedVersions,
    KilledWriters,
}

/// What a subject is able to do.
struct Abilities {
    another_client: bool,
    counted_versions: bool,
    killed_writers: bool,
}

impl Abilities {
    /// Returns why a trial does not run.
    fn missing(&self, requirement: Requirement) -> Option<&'static str> {
        let (is_met, reason) = match requirement {
            Requirement::Nothing => (true, ""),
            Requirement::AnotherClient => (self.another_client, "the subject opens one client only"),
            Requirement::CountedVersions => {
                (self.counted_versions, "the subject does not count the versions that the store holds")
            }
            Requirement::KilledWriters => (self.killed_writers, "the subject does not kill writers"),
        };
        (!is_met).then_some(reason)
    }
}

/// A subject, and the runtime of its trials.
struct Suite<T> {
    subject: Arc<T>,
    runtime: Runtime,
    abilities: Abilities,
}

impl<T: DocumentSubject> Suite<T> {
    fn new(subject: T) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime for the trials");
        let abilities = runtime.block_on(async {
            let (store, name) = (subject.open().await, unique("abilities"));
            let change = KilledPut { name: &name, text: "", expected: None };
            Abilities {
                another_client: subject.open_another(&store).await.is_some(),
                counted_versions: subject.held_versions(&store, &name).await.is_some(),
                killed_writers: subject.kill_writer(&store, change, 0).await,
            }
        });
        Self { subject: Arc::new(subject), runtime, abilities }
    }

    /// Runs one trial. An error has the message of the assertion that failed.
    fn run(&self, trial: &PlannedTrial<T>) -> Result<(), String> {
        let body = AssertUnwindSafe(|| {
            self.runtime.block_on(async {
                let store = Arc::new(self.subject.open().await);
                let prefix = format!("{}/", unique(trial.name));
                (trial.body)(Fixture::new(Arc::clone(&self.subject), store, prefix)).await;
            });
        });
        catch_unwind(body).map_err(|panic| message_of(panic.as_ref()).to_owned())
    }
}

/// Returns the trials of a document store, to run together with other trials.
///
/// A trial that the subject does not support has the ignored flag, and the reason is its [kind](Trial::kind).
pub fn document_trials<T: DocumentSubject>(subject: T) -> Vec<Trial> {
    let suite = Arc::new(Suite::new(subject));
    let trial = |trial: PlannedTrial<T>| {
        if let Some(reason) = suite.abilities.missing(trial.requirement) {
            let ignored = Trial::test(trial.name, || Err(reason.into()));
            return ignored.with_kind(reason).with_ignored_flag(true);
        }
        let suite = Arc::clone(&suite);
        Trial::test(trial.name, move || suite.run(&trial).map_err(Failed::from))
    };
    all::<T>().into_iter().map(trial).collect()
}

/// Runs the trials of a document store, with libtest's command-line arguments. The `main` of a test with
/// `harness = false`.
pub fn run_documents(subject: impl DocumentSubject) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(DEFAULT_THREADS);
    libtest_mimic::run(&arguments, document_trials(subject)).exit_code()
}

/// Runs the trials whose names contain `filter`, and returns the name and the message of each that failed. For tests
/// of the suite itself.
#[doc(hidden)]
pub fn document_failures<T: DocumentSubject>(subject: T, filter: &str) -> Vec<(String, String)> {
    let suite = Suite::new(subject);
    let runs = |trial: &PlannedTrial<T>| {
        trial.name.contains(filter) && suite.abilities.missing(trial.requirement).is_none()
    };
    let selected: Vec<_> = all::<T>().into_iter().filter(runs).collect();
    assert!(!selected.is_empty(), "no trial of {filter:?} runs on this store");
    let failure = |trial: PlannedTrial<T>| Some((trial.name.to_owned(), suite.run(&trial).err()?));
    selected.into_iter().filter_map(failure).collect()
}
