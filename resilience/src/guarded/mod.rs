//! A deadline, a breaker, and what to do when the store fails.

mod breaker;
mod call;
mod counts;
mod handover;
mod policy;
mod recovery;
mod stand_in;
mod watch;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{Capability, Export, ImmediateStore, RawDecision, Run, RunVerdict, Store};
use tollgate_core::{
    BreakerState, Charge, Clock, Decision, ErrorKind, FallbackReason, Key, Limit, Observer, Outcome, Request,
    Source, StoreError, Time, Verdict,
};

pub use counts::Counts;
pub use policy::{Local, OnFailure, Share};

use breaker::{Breaker, Leave, Probe, Settings};
use call::{Failure, contained, within};
use handover::HandOver;
use recovery::Recovery;
use stand_in::{StandIn, Trouble};
use watch::Watch;

/// A store that is asked only as long as it answers, and what is answered instead when it does not.
///
/// ```
/// use tollgate_core::{Limit, Limiter};
/// use tollgate_resilience::{Guarded, Local, OnFailure, Share};
/// use tollgate_store_memory::MemoryStore;
///
/// # let redis = MemoryStore::new(); // stands for a store that can fail
/// let guarded = Guarded::new(redis)
///     .on_failure(Local::on(MemoryStore::new(), Share::one_of(10))) // ten of these programs share the limits
///     .on_failure_of("login", OnFailure::Deny);
/// let limiter = Limiter::new(guarded);
/// # let api = Limit::per_second(50).build("api")?;
/// let decision = limiter.check_now(&api, "user:42"); // on stores that wait: check(…).await
/// # assert!(decision.is_allowed());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
///
/// # What fails, and what then
///
/// A call fails if it says so, if it has no answer within the [deadline](Self::deadline) (20 ms), or if it panics. Its
/// charges are then answered by their limit's policy; the decision's [source](Decision::source) says so, the
/// [counts](Self::counts) how often. What a limit's algorithm cannot do is not a failure but an error, as always.
///
/// | | take, take up to, reserve, renew | debit, refund | release | forget |
/// |---|---|---|---|---|
/// | [`Allow`](OnFailure::Allow), the usual policy | passes | error | error | error |
/// | [`Deny`](OnFailure::Deny) | denied, until the store is asked again | error | error | error |
/// | [`Local`](OnFailure::Local) | on the other store, with the share | on the other store | on the other store | error |
///
/// A request whose limits have different policies passes if all of them let it pass, and takes nothing otherwise, except
/// that a lease that was released on one of several other stores stays released.
/// A lease that the other store does not know is renewed: nobody can say that it is lost.
///
/// # The breaker
///
/// Once 5 of the last 10 calls have failed ([`opens_after`](Self::opens_after)), the store is left alone: nobody waits
/// for it. After a pause of 500 ms, doubled each time up to 8 s, with a random half of it left out
/// ([`pauses`](Self::pauses)), one call at a time goes through. Two in a row that succeed
/// ([`closes_after`](Self::closes_after)) bring the store back. Callers' clocks measure the pauses.
///
/// # What the store missed
///
/// What another store granted of limits that remember for at least ten seconds is told to the store before everybody
/// asks it again: for up to 10,000 keys ([`hands_over`](Self::hands_over)), as debits at the instants at which it was
/// granted. What did not fit is counted as [`lost`](Counts::lost). A call that had no answer in time may have been
/// executed and is then counted twice, which errs on the side of the limit.
///
/// # Needs
///
/// Calls that wait need a tokio runtime with its timer, as the stores do that wait, and one that goes on running: tasks on it
/// tell the store what it missed. Panics are contained where they unwind.
#[derive(Debug)]
pub struct Guarded<S> {
    deadline: Duration,
    breaker: Arc<Breaker>,
    stand_in: StandIn,
    recovery: Recovery<S>,
}

impl<S: Store + 'static> Guarded<S> {
    /// Guards a store: what it does not decide passes, unless a policy says otherwise.
    pub fn new(store: S) -> Self {
        let recovery = Recovery::new(store);
        Self {
            deadline: Duration::from_millis(20),
            breaker: Arc::new(Breaker::new(Settings::default())),
            stand_in: StandIn {
                policies: policy::Policies::default(),
                handover: Arc::clone(&recovery.handover),
                watch: Arc::clone(&recovery.watch),
            },
            recovery,
        }
    }

    /// How long a call may take; 20 ms unless said.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What to do when the store fails, for all limits that have no policy of their own.
    #[must_use]
    pub fn on_failure(mut self, policy: impl Into<OnFailure>) -> Self {
        self.stand_in.policies.set_usual(policy.into());
        self
    }

    /// What to do when the store fails to decide the limit of this name.
    #[must_use]
    pub fn on_failure_of(mut self, limit: &str, policy: impl Into<OnFailure>) -> Self {
        self.stand_in.policies.set(limit, policy.into());
        self
    }

    /// Leaves the store alone once so many of the last calls have failed: 5 of 10 unless said, and at most of 64.
    #[must_use]
    pub fn opens_after(self, failures: u32, of_the_last: u32) -> Self {
        self.with_breaker(|settings| Settings { failures, among: of_the_last, ..settings })
    }

    /// For how long the store is left alone: at first, and at most; 500 ms and 8 s unless said.
    #[must_use]
    pub fn pauses(self, first: Duration, longest: Duration) -> Self {
        self.with_breaker(|settings| Settings { pause: first, longest_pause: longest.max(first), ..settings })
    }

    /// How many calls in a row must succeed for the store to be back; 2 unless said.
    #[must_use]
    pub fn closes_after(self, successes: u32) -> Self {
        self.with_breaker(|settings| Settings { probes: successes.max(1), ..settings })
    }

    fn with_breaker(mut self, change: impl FnOnce(Settings) -> Settings) -> Self {
        self.breaker = Arc::new(Breaker::new(change(self.breaker.settings())));
        self
    }

    /// Tells the store what another granted while it was away: for at most so many keys, of limits that take at least
    /// so long to be as good as new; 10,000 and ten seconds unless said.
    #[must_use]
    pub fn hands_over(mut self, most_keys: usize, of_limits_from: Duration) -> Self {
        let handover = Arc::new(HandOver::new(most_keys, of_limits_from));
        self.stand_in.handover = Arc::clone(&handover);
        self.recovery.handover = handover;
        self
    }

    /// Tells `observer` about calls, fallbacks, the breaker and what was handed over.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        let watch = Arc::new(Watch::by(observer));
        self.stand_in.watch = Arc::clone(&watch);
        self.recovery.watch = watch;
        self
    }

    /// The store that is guarded.
    pub fn store(&self) -> &S {
        &self.recovery.store
    }

    /// What the breaker does.
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// How often what happened.
    pub fn counts(&self) -> Counts {
        self.watch().counters.read()
    }

    /// Decides what a rule says is to be charged: code that looks at a request and picks its limits. If it panics, the
    /// policy of `rule` answers, set by [`on_failure_of`](Self::on_failure_of) like a limit's. There is no limit to
    /// take a share of then, so [`Local`] lets it pass, as [`Allow`](OnFailure::Allow) does.
    ///
    /// ```
    /// # use tollgate_core::{Clock, Limit, SystemClock};
    /// # use tollgate_resilience::{Guarded, OnFailure};
    /// # use tollgate_store_memory::MemoryStore;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (clock, plan) = (SystemClock::new(), Vec::<Limit>::new());
    /// let guarded = Guarded::new(MemoryStore::new()).on_failure_of("plans", OnFailure::Deny);
    /// let verdict = guarded.decide_by("plans", || vec![plan[7].charge("user:42")], clock.now()).await?;
    /// assert!(verdict.is_denied(), "there is no such plan");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn decide_by<'a, R: AsRef<[Charge<'a>]>>(
        &self,
        rule: &str,
        charges: impl FnOnce() -> R,
        now: Time,
    ) -> Result<Verdict, StoreError> {
        if let Ok(charges) = contained(charges) {
            return self.decide(Request::new(charges.as_ref()), now).await;
        }
        self.watch().counters.panicked.one();
        let pause = u64::try_from(self.breaker.settings().pause.as_nanos()).unwrap_or(u64::MAX);
        let (outcome, wait) = match self.stand_in.policies.of(rule) {
            OnFailure::Deny => (Outcome::Denied, pause),
            OnFailure::Allow | OnFailure::Local(_) => (Outcome::Allowed, 0),
        };
        let nothing = RawDecision {
            outcome,
            source: Source::Policy,
            granted: 0,
            limit: 0,
            left: 0,
            unit: 1,
            wait,
            reset: wait,
        };
        let decision = Decision::from(nothing);
        self.watch().fell_back(rule, FallbackReason::Panicked, &decision);
        Ok(Verdict::one(decision, now))
    }

    fn watch(&self) -> &Watch {
        &self.recovery.watch
    }

    /// Whether the store is asked; if it is, perhaps only to find out whether it is back.
    #[inline]
    fn leave(&self, now: impl FnOnce() -> Time) -> Result<Option<Probe>, Trouble> {
        if self.breaker.is_closed() {
            return Ok(None);
        }
        let now = now();
        let (leave, changed) = self.breaker.leave(now);
        self.watch().changed(changed);
        match leave {
            Leave::Ask => Ok(None),
            Leave::Probe(probe) => Ok(Some(probe)),
            Leave::No(wait) => {
                self.watch().counters.not_asked.one();
                Err(Trouble { failure: None, wait, at: Some(now) })
            }
        }
    }

    /// What the outcome of a call means for the store.
    #[inline]
    fn learn(&self, probe: Option<Probe>, now: impl FnOnce() -> Time, failure: Option<&Failure>) {
        let kind = match failure {
            Some(Failure::Error(error)) => Some(error.kind()),
            Some(Failure::Late(_) | Failure::Panic) => Some(ErrorKind::Internal),
            None => None,
        };
        // Refused before it was sent, perhaps: the store may not even have been asked.
        if kind == Some(ErrorKind::Unsupported) {
            return;
        }
        if let Some(failure) = failure {
            self.watch().failed(failure);
        }
        // A state that nobody understands is one key's, and the store is there.
        if !matches!(kind, None | Some(ErrorKind::Corrupt)) {
            self.watch().changed(match probe {
                None => self.breaker.failed(now()),
                Some(probe) => probe.failed(now()),
            });
            return;
        }
        match probe {
            None => {
                self.breaker.succeeded();
                if self.recovery.handover.is_waiting() {
                    self.recovery.catch_up(now());
                }
            }
            Some(probe) => {
                if let Some(back) = probe.succeeded() {
                    self.recovery.back(back, now());
                }
            }
        }
    }

    /// Makes a call.
    #[inline]
    async fn ask<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        probe: Option<Probe>,
        now: impl Fn() -> Time,
        call: impl FnOnce() -> F,
    ) -> Result<T, Trouble> {
        let began = self.watch().begin();
        // The call is made in there, too: that may panic as well.
        let answer = within(self.deadline, pin!(async { call().await })).await;
        self.answered(probe, now, began, answer.and_then(|answer| answer.map_err(Failure::Error)))
    }

    #[inline]
    fn answered<T>(
        &self,
        probe: Option<Probe>,
        now: impl Fn() -> Time,
        began: Option<Time>,
        answer: Result<T, Failure>,
    ) -> Result<T, Trouble> {
        self.watch().called(began, answer.as_ref().err());
        self.learn(probe, now, answer.as_ref().err());
        answer.map_err(|failure| self.trouble(failure))
    }

    fn trouble(&self, failure: Failure) -> Trouble {
        Trouble { failure: Some(failure), wait: self.breaker.settings().pause, at: None }
    }

    /// Decides a charge that the store did not.
    fn instead(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
        trouble: &Trouble,
    ) -> Result<Decision, StoreError> {
        let now = trouble.at.unwrap_or_else(|| clock.now());
        self.stand_in.decide_one(charge, now, trouble)
    }

    /// The verdicts of a run that the store did not decide.
    fn stand_in_for(&self, run: &Run<'_>, now: Time, trouble: &Trouble) -> Result<RunVerdict, StoreError> {
        let verdicts = (0..run.count()).map(|_| self.stand_in.decide(run.request(), now, trouble));
        verdicts.collect::<Result<Vec<_>, _>>().map(RunVerdict::from_verdicts)
    }
}

/// The failure that says most about the store, of the runs of one call.
fn gravest(failures: impl Iterator<Item = Failure>) -> Option<Failure> {
    failures.max_by_key(|failure| match failure {
        Failure::Error(error) => match error.kind() {
            ErrorKind::Unsupported => 0,
            ErrorKind::Corrupt => 1,
            _ => 2,
        },
        Failure::Late(_) | Failure::Panic => 2,
    })
}

impl<S: Store + 'static> Store for Guarded<S> {
    /// Those of the store; while it is away, decisions are not.
    fn capability(&self) -> Capability {
        self.store().capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        if request.charges().is_empty() {
            // Nothing that a store would have to be asked about, or could show by that it is there.
            return Ok(Verdict::new([], now));
        }
        let asked = match self.leave(|| now) {
            Ok(probe) => self.ask(probe, || now, || self.store().decide(request, now)).await,
            Err(trouble) => Err(trouble),
        };
        asked.or_else(|trouble| self.stand_in.decide(request, now, &trouble))
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let asked = match self.leave(|| clock.now()) {
            Ok(probe) => self.ask(probe, || clock.now(), || self.store().decide_one(charge, clock)).await,
            Err(trouble) => Err(trouble),
        };
        asked.or_else(|trouble| self.instead(charge, clock, &trouble))
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if batch.iter().all(|run| run.request().charges().is_empty()) {
            let empty = |run: &Run<'_>| (0..run.count()).map(|_| Verdict::new([], now)).collect();
            return batch.iter().map(|run| Ok(RunVerdict::from_verdicts(empty(run)))).collect();
        }
        let probe = match self.leave(|| now) {
            Ok(probe) => probe,
            Err(trouble) => return batch.iter().map(|run| self.stand_in_for(run, now, &trouble)).collect(),
        };
        let began = self.watch().begin();
        let answers =
            match within(self.deadline, pin!(async { self.store().decide_batch(batch, now).await })).await {
                Ok(answers) => answers,
                Err(failure) => {
                    let failed: Result<(), _> = self.answered(probe, || now, began, Err(failure));
                    let Err(trouble) = failed else { return Vec::new() };
                    return batch.iter().map(|run| self.stand_in_for(run, now, &trouble)).collect();
                }
            };
        // One call, however many runs it carried: it failed if one of them did.
        let failure =
            gravest(answers.iter().filter_map(|answer| answer.as_ref().err().cloned().map(Failure::Error)));
        self.watch().called(began, failure.as_ref());
        self.learn(probe, || now, failure.as_ref());
        let answer = |(run, answer): (&Run<'_>, Result<RunVerdict, StoreError>)| {
            answer.or_else(|error| self.stand_in_for(run, now, &self.trouble(Failure::Error(error))))
        };
        let missing = || {
            let message = "the store answered a batch without an answer for each run";
            Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect())
        };
        batch.iter().zip(answers.into_iter().chain(std::iter::repeat_with(missing))).map(answer).collect()
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store().route(charge)
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        // What cannot be done is dropped. What another store decided is never taken back this way.
        if self.breaker.is_closed() && contained(|| self.store().decide_detached(request, now)).is_err() {
            self.learn(None, || now, Some(&Failure::Panic));
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let probe = self.leave(|| now).map_err(Trouble::into_error)?;
        self.ask(probe, || now, || self.store().export(limit, key, now)).await.map_err(Trouble::into_error)
    }

    /// No policy can book anything: whoever exchanges keeps it for the next time.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let probe = self.leave(|| now).map_err(Trouble::into_error)?;
        let exchange = || self.store().apply_deltas(request, now);
        self.ask(probe, || now, exchange).await.map_err(Trouble::into_error)
    }
}

/// A store that never waits can still have a bug.
impl<S: ImmediateStore + 'static> ImmediateStore for Guarded<S> {
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let answer = self.leave(|| clock.now()).and_then(|probe| {
            let began = self.watch().begin();
            let answer = contained(|| self.store().charge_now(charge, clock));
            self.answered(probe, || clock.now(), began, answer)
        });
        answer.unwrap_or_else(|trouble| {
            // What no policy answers was not done.
            self.instead(charge, clock, &trouble)
                .unwrap_or_else(|_| RawDecision::deny(charge, trouble.wait, Source::Policy).into())
        })
    }

    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let answer = self.leave(|| now).and_then(|probe| {
            let began = self.watch().begin();
            let answer = contained(|| self.store().decide_now(request, now));
            self.answered(probe, || now, began, answer.and_then(|answer| answer.map_err(Failure::Error)))
        });
        answer.or_else(|trouble| self.stand_in.decide(request, now, &trouble))
    }
}
