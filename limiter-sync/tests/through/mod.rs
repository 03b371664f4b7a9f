//! The conformance suite through `Synced`: as it says it is, and as a node that is alone, which must decide as the
//! centre itself would.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use tollgate_conformance::{Subject, trials};
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{Key, Limit, ManualClock, Request, StoreError, Time, Verdict};
use tollgate_limiter_sync::{ColdKeys, Synced};

/// How many trials run at a time, unless an argument says: on real servers they wait more than they compute.
const AT_A_TIME: usize = 8;

/// A node by a clock that shows what its callers say.
pub(crate) struct Node<S: Store + 'static> {
    synced: Synced<S, ManualClock>,
    clock: ManualClock,
    alone: Option<Exchanges>,
}

/// When a node that is alone exchanges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchanges {
    /// After each call: everything goes to the centre and back.
    EachTime,
    /// Never, unless somebody asks for what the centre has.
    Never,
}

impl<S: Store + 'static> Node<S> {
    async fn after<T>(&self, call: impl Future<Output = T>, now: Time) -> T {
        self.clock.set(now);
        let answer = call.await;
        if self.alone == Some(Exchanges::EachTime) {
            self.synced.sync_now().await.expect("the centre answers");
        }
        answer
    }
}

impl<S: Store + 'static> Store for Node<S> {
    fn capability(&self) -> Capability {
        let synced = self.synced.capability();
        // With nobody else to be surprised by, there is nothing that it does not know.
        if self.alone.is_some() { synced.with_exact(self.synced.store().capability().exact) } else { synced }
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.after(self.synced.decide(request, now), now).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.after(self.synced.decide_batch(batch, now), now).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.after(self.synced.export(limit, key, now), now).await
    }
}

struct Through<T> {
    subject: T,
    alone: Option<Exchanges>,
}

impl<T: Subject> Subject for Through<T> {
    type Store = Node<T::Store>;

    async fn open(&self) -> Node<T::Store> {
        let clock = ManualClock::default();
        let synced = Synced::with_clock(self.subject.open().await, clock.clone()).by_hand();
        let synced = synced.terms(|usual| usual.cold_keys(ColdKeys::AskFirst));
        Node { synced, clock, alone: self.alone }
    }

    fn replay_steps(&self) -> usize {
        self.subject.replay_steps()
    }
}

/// All of it on one kind of centre. Each has a subject of its own, because connections live in the runtime of the trials
/// that opened them.
pub(crate) fn run<T: Subject>(subject: impl Fn() -> T, all: bool) -> ExitCode {
    let mut planned: Vec<Trial> = Vec::new();
    let mut add = |kind: &'static str, alone: Option<Exchanges>| {
        let through = Through { subject: subject(), alone };
        // A denial that starts the clock of a clamped state is no delta, and neither is what a forget finds on its way.
        let beyond = |trial: &Trial| alone.is_some() && is_about_change(trial.name());
        let (left_out, kept): (Vec<_>, Vec<_>) = trials(through).into_iter().partition(beyond);
        for trial in left_out {
            eprintln!("not run on a node that is alone: {}: the centre learns of grants only", trial.name());
        }
        planned.extend(kept.into_iter().map(|trial| trial.with_kind(kind)));
    };
    add("synced", None);
    add("alone, exchanging each time", Some(Exchanges::EachTime));
    if all {
        add("alone, never exchanging", Some(Exchanges::Never));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    libtest_mimic::run(&arguments, planned).exit_code()
}

/// Limits that change their numbers while nobody tells the centre, and traces that do so.
fn is_about_change(trial: &str) -> bool {
    ["live_change", "replay", "exchange::"].iter().any(|behaviour| trial.starts_with(behaviour))
}
