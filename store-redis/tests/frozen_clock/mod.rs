//! Charges at a fixed instant, so that nothing is refilled and every token can be counted.

use tollgate_core::store::Store;
use tollgate_core::{Limit, StoreError, Time};
use tollgate_store_redis::{Config, RedisStore};

/// The time of all charges.
pub(crate) const NOW: Time = Time::from_secs(1_790_000_000);

/// Returns a configuration in which the caller's clock decides.
pub(crate) fn config(url: &str) -> Config {
    Config::new(url).caller_clock()
}

pub(crate) fn limit(name: &str, count: u32) -> Limit {
    Limit::per_hour(count).build(name).expect("a valid limit")
}

/// Takes one token. Returns whether it was allowed.
pub(crate) async fn take(store: &RedisStore, limit: &Limit, entity: &str) -> Result<bool, StoreError> {
    store.decide_one(&limit.charge(entity), &NOW).await.map(|decision| decision.is_allowed())
}

/// Returns how many tokens are used.
pub(crate) async fn used(store: &RedisStore, limit: &Limit, entity: &str) -> u32 {
    let decision = store.decide_one(&limit.charge(entity).with_cost(0), &NOW).await.expect("a decision");
    limit.capacity() - decision.remaining()
}
