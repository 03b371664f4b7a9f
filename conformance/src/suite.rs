//! How a store is put on trial.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use tollgate_core::AlgorithmKind;
use tollgate_core::store::{Capability, Store};

use crate::stand::Stand;
use crate::trials::all;

/// A store to put on trial.
pub trait Subject: Send + Sync + 'static {
    /// Its type.
    type Store: Store + 'static;

    /// A store to use. It may be the same server for every trial: each has a namespace of its own.
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// How many steps a replay has. Fewer, where each takes a server milliseconds.
    fn replay_steps(&self) -> usize {
        1_500
    }
}

/// How many trials run at a time, unless an argument says: they wait for servers more than they compute.
const AT_A_TIME: usize = 8;

/// A trial on a stand.
pub(crate) type Body<S> = Box<dyn Fn(Stand<S>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A trial, and what a store must be able to do for it.
pub(crate) struct Planned<S> {
    pub(crate) name: String,
    /// The algorithm it is about.
    pub(crate) kind: AlgorithmKind,
    pub(crate) body: Body<S>,
    pub(crate) needs: Need,
}

/// What a trial needs of a store.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    /// Whether the store has it.
    pub(crate) met: fn(&Capability, AlgorithmKind) -> bool,
    /// What to say if not.
    pub(crate) otherwise: &'static str,
}

/// The trials of a store, to run beside others of its own.
pub fn trials<T: Subject>(subject: T) -> Vec<Trial> {
    let subject = Arc::new(subject);
    let runtime = Arc::new(
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime for the trials"),
    );
    let capability = runtime.block_on(subject.open()).capability();
    all::<T::Store>(subject.replay_steps())
        .into_iter()
        .map(|Planned { name, kind, body, needs }| {
            if !(needs.met)(&capability, kind) {
                eprintln!("not run on this store: {name}: {}", needs.otherwise);
                return Trial::test(name, || Err(needs.otherwise.into())).with_ignored_flag(true);
            }
            let (subject, runtime, namespace) = (Arc::clone(&subject), Arc::clone(&runtime), unique(&name));
            Trial::test(name, move || {
                runtime.block_on(async {
                    let store = Arc::new(subject.open().await);
                    body(Stand::new(store, namespace)).await;
                });
                Ok(())
            })
        })
        .collect()
}

/// Runs the trials of a store, with libtest's arguments.
pub fn run(subject: impl Subject) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    libtest_mimic::run(&arguments, trials(subject)).exit_code()
}

/// A namespace that no other trial and no earlier run has.
fn unique(name: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{name}-{:016x}", RandomState::new().hash_one(name))
}
