//! The conformance suite through `Synced`: with its own capabilities, and as a single node, which must decide as the
//! central store itself would.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tollgate_conformance::{Subject, labelled, trials};
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, IdempotencyKey, Key, Limit, ManualClock, Observer, Request, StoreError, Time,
    Verdict,
};
use tollgate_limiter_sync::{ColdKeys, SyncPolicy, Synced};

/// The default number of concurrent trials: on real servers they wait more than they compute.
const TEST_THREADS: usize = 8;

/// A node whose clock shows the time that its callers pass.
pub(crate) struct Node<S: Store + 'static> {
    synced: Synced<S, ManualClock>,
    clock: ManualClock,
    single: Option<SyncRounds>,
}

/// When a single node synchronizes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncRounds {
    /// After each call.
    EachCall,
    /// Only before an export.
    Never,
}

impl SyncRounds {
    /// Returns why a trial does not hold on a single node, if it does not.
    fn rules_out(self, trial: &str) -> Option<&'static str> {
        let starts_with =
            |behaviours: &[&str]| behaviours.iter().any(|behaviour| trial.starts_with(behaviour));
        // A denial that starts the clock of a clamped state is not a delta, and neither is the state that a reset
        // finds.
        if starts_with(&["live_change", "replay", "apply_deltas::", "single_charge::"]) {
            return Some("only grants are synchronized, not changes of parameters");
        }
        // What was granted over a while is sent as one delta: the central state of an uneven rate may differ by its
        // rounding, and that of an interval bucket by where its period starts.
        (self == Self::Never && starts_with(&["any_store::"]))
            .then_some("pending deltas are combined before an export")
    }
}

impl<S: Store + 'static> Node<S> {
    async fn after<T>(&self, call: impl Future<Output = T>, now: Time) -> T {
        self.clock.set(now);
        let answer = call.await;
        if self.single == Some(SyncRounds::EachCall) {
            self.synced.sync_now().await.expect("the central store answers");
        }
        answer
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + 'static> Store for Node<S> {
    fn capability(&self) -> Capability {
        let synced = self.synced.capability();
        // A single node knows everything that the central store knows.
        if self.single.is_some() { synced.with_exact(self.synced.store().capability().exact) } else { synced }
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.after(self.synced.decide(request, now), now).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.after(self.synced.decide_one(charge, clock), clock.now()).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.synced.route(charge)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.after(self.synced.decide_batch(batch, now), now).await
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.synced.attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.clock.set(now);
        self.synced.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.after(self.synced.export(limit, key, now), now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.after(self.synced.apply_deltas(request, now), now).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.synced.forget_idempotency_keys(answered).await;
    }
}

struct Through<T> {
    subject: T,
    single: Option<SyncRounds>,
}

impl<T: Subject> Subject for Through<T> {
    type Store = Node<T::Store>;

    async fn open(&self) -> Node<T::Store> {
        let clock = ManualClock::default();
        // A node that is never synchronized is not meant to become stale.
        let policy = |policy: SyncPolicy| policy.cold_keys(ColdKeys::FetchFirst).stale_after(Duration::MAX);
        let synced = Synced::builder(self.subject.open().await)
            .clock(clock.clone())
            .manual()
            .default_policy(policy)
            .build()
            .expect("valid");
        Node { synced, clock, single: self.single }
    }

    fn replay_steps(&self) -> usize {
        self.subject.replay_steps()
    }
}

/// Runs all trials on one kind of central store. Each kind of node has a subject of its own, because connections live
/// in the runtime of the trials that opened them.
pub(crate) fn run<T: Subject>(subject: impl Fn() -> T, all: bool) -> ExitCode {
    let mut planned: Vec<Trial> = Vec::new();
    let mut add = |kind: &'static str, single: Option<SyncRounds>| {
        let through = Through { subject: subject(), single };
        planned.extend(trials(through).into_iter().map(|trial| {
            let reason = single.and_then(|rounds| rounds.rules_out(trial.name()));
            labelled(
                reason
                    .into_iter()
                    .fold(trial, |trial, reason| trial.with_ignored_flag(true).with_kind(reason)),
                kind,
            )
        }));
    };
    add("synced", None);
    add("single node, synchronized after each call", Some(SyncRounds::EachCall));
    if all {
        add("single node, never synchronized", Some(SyncRounds::Never));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TEST_THREADS);
    libtest_mimic::run(&arguments, planned).exit_code()
}
