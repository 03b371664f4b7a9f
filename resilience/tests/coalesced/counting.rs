//! Many callers on many threads get together what the limit has, and not one more.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::Limit;
use tollgate_core::store::Store;
use tollgate_resilience::Coalesced;

use crate::scripted::NOW;
use crate::yielding::Yielding;

const TASKS: usize = 1_000;
const EACH: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_tasks_get_exactly_the_limit() {
    let inner = Arc::new(Yielding::new(tollgate_store_memory::MemoryStore::config().keys(1_024).build()));
    let store = Coalesced::new(Arc::clone(&inner)).in_flight(2);
    let (hot, own) = (Limit::per_hour(7_001), Limit::per_hour(15));
    let (hot, own) = (hot.build("hot").expect("valid"), own.build("own").expect("valid"));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, hot, own) = (store.clone(), hot.clone(), own.clone());
        tasks.spawn(async move {
            let (mut of_hot, mut of_own, key) = (0, 0, format!("user {task}"));
            for _ in 0..EACH {
                let told = store.decide_one(&hot.charge("hot"), &NOW).await;
                of_hot += told.expect("an answer").granted();
                let told = store.decide_one(&own.charge(&key), &NOW).await;
                of_own += told.expect("an answer").granted();
            }
            assert_eq!(of_own, 15, "to each its own");
            of_hot
        });
    }
    assert_eq!(tasks.join_all().await.iter().sum::<u32>(), 7_001);
    assert!(inner.gathered() > inner.direct(), "most of them did not go alone");
}
