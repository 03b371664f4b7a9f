//! Charges at an instant that does not pass, so that every token can be counted.

use tollgate_core::store::Store;
use tollgate_core::{Limit, StoreError, Time};
use tollgate_store_redis::{Config, RedisStore};

/// When everything happens.
pub(crate) const NOW: Time = Time::from_secs(1_790_000_000);

/// How stores are opened here: by a time that stands still.
pub(crate) fn config(url: &str) -> Config {
    Config::new(url).by_callers_time()
}

pub(crate) fn limit(name: &str, count: u32) -> Limit {
    Limit::per_hour(count).build(name).expect("a valid limit")
}

/// Takes one.
pub(crate) async fn take(store: &RedisStore, limit: &Limit, entity: &str) -> Result<bool, StoreError> {
    store.decide_one(&limit.charge(entity), &NOW).await.map(|told| told.is_allowed())
}

/// How many are gone.
pub(crate) async fn spent(store: &RedisStore, limit: &Limit, entity: &str) -> u32 {
    let told = store.decide_one(&limit.charge(entity).with_cost(0), &NOW).await.expect("a look");
    limit.capacity() - told.remaining()
}
