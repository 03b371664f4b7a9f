//! limitador: fixed windows in its asynchronous Redis storage, one counter per value of a variable. Two round trips per
//! check: a read and a write.

use std::collections::HashMap;

use ::limitador::AsyncRateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};
use ::limitador::storage::redis::AsyncRedisStorage;

use crate::keys::Walk;
use crate::redis::subject::{Failure, Place, QUOTA, Remote};

const VARIABLE: &str = "user";

pub struct Limitador {
    limiter: AsyncRateLimiter,
    namespace: Namespace,
}

pub async fn build(place: Place) -> Result<Limitador, Failure> {
    let limiter = AsyncRateLimiter::new_with_storage(Box::new(AsyncRedisStorage::new(&place.url).await?));
    let namespace = Namespace::from(place.namespace);
    let variable = VARIABLE.try_into().expect("a valid expression");
    let (count, seconds) = (u64::from(QUOTA.count), QUOTA.period.as_secs());
    limiter.add_limit(Limit::new(namespace.clone(), count, seconds, [], [variable]));
    Ok(Limitador { limiter, namespace })
}

impl Remote for Limitador {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let values = HashMap::from([(VARIABLE.to_owned(), keys.step().to_owned())]);
        let context = Context::from(values);
        let result = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1).await;
        // Its error is not `Send`; its message is.
        Ok(!result.map_err(|error| error.to_string())?.limited)
    }
}
