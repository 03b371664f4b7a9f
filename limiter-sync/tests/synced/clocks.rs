//! A central store that decides by its own clock, or at the time of callers that are ahead.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{Capability, ClockSource, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Action, Clock, Key, Limit, LimitBuilder, ManualClock, Request, StoreError, Time, Verdict,
};
use tollgate_limiter_sync::{ColdKeys, Synced};
use tollgate_store_memory::MemoryStore;

use crate::fleet::KEY;

/// Decides by its own clock, which is ahead of the nodes' clock.
#[derive(Clone)]
struct Ahead {
    central: Arc<MemoryStore>,
    clock: ManualClock,
}

/// How far it is ahead: many times what the limits below take to refill.
const BY: Duration = Duration::from_secs(100);

impl Ahead {
    fn now(&self) -> Time {
        self.clock.now() + BY
    }
}

impl Store for Ahead {
    fn capability(&self) -> Capability {
        self.central.capability().with_clock_source(ClockSource::Store)
    }

    async fn decide(&self, request: Request<'_>, _: Time) -> Result<Verdict, StoreError> {
        self.central.decide(request, self.now()).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], _: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.central.decide_batch(batch, self.now()).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, _: Time) -> Result<Export, StoreError> {
        self.central.export(limit, key, self.now()).await
    }
}

#[tokio::test]
async fn grants_are_dated_by_the_central_clock() {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 3] =
        [|limit| limit, |limit| limit.fixed_window(), |limit| limit.sliding_counter(5)];
    for kind in kinds {
        for cold in [ColdKeys::Optimistic, ColdKeys::FetchFirst] {
            let limit = kind(Limit::per(10, Duration::from_secs(10))).build("api").expect("valid");
            let clock = ManualClock::default();
            let ahead = Ahead { central: Arc::default(), clock: clock.clone() };
            let node = Synced::builder(ahead)
                .clock(clock.clone())
                .manual()
                .default_policy(|policy| policy.cold_keys(cold))
                .build()
                .expect("valid");
            for left in [6, 2] {
                let decision =
                    node.decide_one(&limit.charge(KEY).with_cost(4), &clock).await.expect("decided locally");
                assert!(decision.is_allowed(), "{limit:?}");
                node.sync_now().await.expect("the central store answers");
                let peek = limit.charge(KEY).with_cost(0);
                let central = node
                    .store()
                    .central
                    .decide_one(&peek, &node.store().now())
                    .await
                    .expect("the memory store answers");
                assert_eq!(central.remaining(), left, "{limit:?}");
                let local = node.decide_one(&peek, &clock).await.expect("decided locally");
                assert_eq!(local.remaining(), left, "{limit:?}");
            }
        }
    }
}

#[tokio::test]
async fn grants_before_the_offset_is_known_count() {
    let limit = Limit::per(10, Duration::from_secs(10)).build("api").expect("valid");
    let clock = ManualClock::default();
    let ahead = Ahead { central: Arc::default(), clock: clock.clone() };
    let node = Synced::builder(ahead).clock(clock.clone()).manual().build().expect("valid");
    // More keys than one call contains: the first answer contains the time, and later calls are sent after it.
    let keys: Vec<String> = (0..1_500).map(|key| format!("key {key}")).collect();
    for key in &keys {
        assert!(
            node.decide_one(&limit.charge(key).with_cost(4), &clock)
                .await
                .expect("decided locally")
                .is_allowed()
        );
    }
    node.sync_now().await.expect("the central store answers");
    for key in &keys {
        let peek = limit.charge(key).with_cost(0);
        let central = node
            .store()
            .central
            .decide_one(&peek, &node.store().now())
            .await
            .expect("the memory store answers");
        assert_eq!(central.remaining(), 6, "{key}");
    }
}

#[tokio::test]
async fn other_nodes_are_noticed_in_the_first_sync_rounds() {
    let limit = Limit::per_hour(300).build("api").expect("valid");
    let clock = ManualClock::default();
    let ahead = Ahead { central: Arc::default(), clock: clock.clone() };
    let node = |_| Synced::builder(ahead.clone()).clock(clock.clone()).manual().build().expect("valid");
    let nodes = [0, 1].map(node);
    let take = async |node: &Synced<Ahead, ManualClock>| {
        node.decide_one(&limit.charge(KEY), &clock).await.expect("decided locally").is_allowed()
    };
    for node in &nodes {
        for _ in 0..60 {
            assert!(take(node).await);
        }
    }
    for _ in 0..3 {
        for node in &nodes {
            node.sync_now().await.expect("the central store answers");
        }
    }
    let mut passed = 0;
    for node in &nodes {
        for _ in 0..180 {
            passed += usize::from(take(node).await);
        }
    }
    // The first node gets what its share does not cover from the central store, and the second one its share.
    assert!((10..=180 + 46).contains(&passed), "{passed} of 180 that remain for both");
}

/// Decides at its callers' time, but half a second later: it knows of callers that are ahead.
#[derive(Clone, Default)]
struct Leading {
    central: Arc<MemoryStore>,
    /// The time that the last caller passed.
    called_at: Arc<Mutex<Time>>,
}

const LEAD: Duration = Duration::from_millis(500);

impl Leading {
    fn decide_at(&self, now: Time) -> Time {
        *self.called_at.lock().expect("not poisoned") = now;
        now + LEAD
    }
}

impl Store for Leading {
    fn capability(&self) -> Capability {
        self.central.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.central.decide(request, self.decide_at(now)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.central.decide_batch(batch, self.decide_at(now)).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.central.export(limit, key, self.decide_at(now)).await
    }
}

/// A node that is behind decides at the time that the central store decides at, and is not starved.
#[tokio::test]
async fn local_decisions_are_made_at_the_time_of_callers_that_are_ahead() {
    let limit = Limit::per_second(10).build("api").expect("valid");
    let (clock, store) = (ManualClock::default(), Leading::default());
    let node = Synced::builder(store.clone()).clock(clock.clone()).manual().build().expect("valid");
    let decide = async |cost| {
        let charge = limit.charge(KEY).with_cost(cost);
        node.decide_one(&charge, &clock).await.expect("decided locally")
    };
    assert!(decide(1).await.is_allowed());
    node.sync_now().await.expect("the central store answers");
    // As often as a key without deltas is synchronized.
    for _ in 0..2 {
        // Another caller, who is ahead, takes all that is left.
        let all = limit.charge(KEY).with_cost(10).with_action(Action::TakeUpTo);
        let ahead = clock.now() + LEAD;
        assert!(store.central.decide_one(&all, &ahead).await.expect("a decision").granted() > 0);
        node.sync_now().await.expect("the central store answers");
        assert_eq!(
            *store.called_at.lock().expect("not poisoned"),
            clock.now(),
            "the store adds the lead itself"
        );
        assert_eq!(decide(0).await.remaining(), 0);
        clock.advance(Duration::from_millis(200));
        assert_eq!(decide(0).await.remaining(), 2, "as much as was refilled since");
    }
}
