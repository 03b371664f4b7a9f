//! A centre whose clock is not ours.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{Capability, ClockSource, Export, Run, RunVerdict, Store};
use tollgate_core::{Clock, Key, Limit, LimitBuilder, ManualClock, Request, StoreError, Time, Verdict};
use tollgate_limiter_sync::{ColdKeys, Synced};
use tollgate_store_memory::MemoryStore;

use crate::fleet::WHO;

/// Decides by its own clock, which is ahead.
#[derive(Clone)]
struct Ahead {
    centre: Arc<MemoryStore>,
    clock: ManualClock,
}

/// How far it is ahead: many times what the limits below take to fill.
const BY: Duration = Duration::from_secs(100);

impl Ahead {
    fn now(&self) -> Time {
        self.clock.now() + BY
    }
}

impl Store for Ahead {
    fn capability(&self) -> Capability {
        self.centre.capability().with_clock_source(ClockSource::Store)
    }

    async fn decide(&self, request: Request<'_>, _: Time) -> Result<Verdict, StoreError> {
        self.centre.decide(request, self.now()).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], _: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.centre.decide_batch(batch, self.now()).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, _: Time) -> Result<Export, StoreError> {
        self.centre.export(limit, key, self.now()).await
    }
}

#[tokio::test]
async fn what_is_granted_counts_by_the_clock_of_the_centre() {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 3] =
        [|limit| limit, |limit| limit.fixed_window(), |limit| limit.sliding_counter(5)];
    for kind in kinds {
        for cold in [ColdKeys::Optimistic, ColdKeys::AskFirst] {
            let limit = kind(Limit::per(10, Duration::from_secs(10))).build("api").expect("valid");
            let clock = ManualClock::default();
            let ahead = Ahead { centre: Arc::default(), clock: clock.clone() };
            let node =
                Synced::with_clock(ahead, clock.clone()).by_hand().terms(|usual| usual.cold_keys(cold));
            for left in [6, 2] {
                let told = node.decide_one(&limit.charge(WHO).with_cost(4), &clock).await.expect("here");
                assert!(told.is_allowed(), "{limit:?}");
                node.sync_now().await.expect("the centre answers");
                let look = limit.charge(WHO).with_cost(0);
                let centre =
                    node.store().centre.decide_one(&look, &node.store().now()).await.expect("memory");
                assert_eq!(centre.remaining(), left, "{limit:?}");
                let here = node.decide_one(&look, &clock).await.expect("here");
                assert_eq!(here.remaining(), left, "{limit:?}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_granted_before_anybody_knew_the_time_counts_as_well() {
    let limit = Limit::per(10, Duration::from_secs(10)).build("api").expect("valid");
    let clock = ManualClock::default();
    let ahead = Ahead { centre: Arc::default(), clock: clock.clone() };
    let node = Synced::with_clock(ahead, clock.clone()).by_hand();
    // More than one call carries: the answer to the first tells the time, and the others are sent after it.
    let keys: Vec<String> = (0..1_500).map(|key| format!("key {key}")).collect();
    for key in &keys {
        assert!(node.decide_one(&limit.charge(key).with_cost(4), &clock).await.expect("here").is_allowed());
    }
    node.sync_now().await.expect("the centre answers");
    for key in &keys {
        let look = limit.charge(key).with_cost(0);
        let centre = node.store().centre.decide_one(&look, &node.store().now()).await.expect("memory");
        assert_eq!(centre.remaining(), 6, "{key}");
    }
}

#[tokio::test]
async fn others_are_seen_by_their_first_exchanges() {
    let limit = Limit::per_hour(300).build("api").expect("valid");
    let clock = ManualClock::default();
    let ahead = Ahead { centre: Arc::default(), clock: clock.clone() };
    let nodes = [0, 1].map(|_| Synced::with_clock(ahead.clone(), clock.clone()).by_hand());
    let take = async |node: &Synced<Ahead, ManualClock>| {
        node.decide_one(&limit.charge(WHO), &clock).await.expect("here").is_allowed()
    };
    for node in &nodes {
        for _ in 0..60 {
            assert!(take(node).await);
        }
    }
    for _ in 0..3 {
        for node in &nodes {
            node.sync_now().await.expect("the centre answers");
        }
    }
    let mut passed = 0;
    for node in &nodes {
        for _ in 0..180 {
            passed += usize::from(take(node).await);
        }
    }
    assert!((10..=200).contains(&passed), "{passed} of 180 that are left to both");
}
