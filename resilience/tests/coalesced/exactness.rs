//! Many callers on many threads are granted exactly the limit.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::Limit;
use tollgate_core::store::Store;
use tollgate_resilience::Coalesced;

use crate::delayed::DelayedStore;
use crate::scripted::NOW;

const TASKS: usize = 1_000;
const EACH: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_tasks_are_granted_exactly_the_limit() {
    let inner =
        Arc::new(DelayedStore::new(tollgate_store_memory::MemoryStore::config().max_keys(1_024).build()));
    let store = Coalesced::builder(Arc::clone(&inner)).max_in_flight(2).build().expect("valid");
    let (hot, own) = (Limit::per_hour(7_001), Limit::per_hour(15));
    let (hot, own) = (hot.build("hot").expect("valid"), own.build("own").expect("valid"));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, hot, own) = (store.clone(), hot.clone(), own.clone());
        tasks.spawn(async move {
            let (mut of_hot, mut of_own, key) = (0, 0, format!("user {task}"));
            for _ in 0..EACH {
                let decision = store.decide_one(&hot.charge("hot"), &NOW).await;
                of_hot += decision.expect("a decision").granted();
                let decision = store.decide_one(&own.charge(&key), &NOW).await;
                of_own += decision.expect("a decision").granted();
            }
            assert_eq!(of_own, 15, "every key has its own limit");
            of_hot
        });
    }
    assert_eq!(tasks.join_all().await.iter().sum::<u32>(), 7_001);
    assert!(inner.batched() > inner.direct(), "most requests are batched");
}
