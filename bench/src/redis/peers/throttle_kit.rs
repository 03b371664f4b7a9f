//! throttle-kit: GCRA in a script, one value per key, with the time of the client.

use ::throttle_kit::{Quota, RateLimiter, RedisBackend};

use crate::keys::Walk;
use crate::redis::subject::{Failure, Place, QUOTA, Remote};

pub struct ThrottleKit {
    limiter: RateLimiter<RedisBackend>,
    namespace: String,
}

pub async fn build(place: Place) -> Result<ThrottleKit, Failure> {
    let backend = RedisBackend::connect(&place.url).await?;
    let quota = Quota::from_parts(QUOTA.period / QUOTA.count, QUOTA.count);
    Ok(ThrottleKit { limiter: RateLimiter::new(quota, backend), namespace: place.namespace })
}

impl Remote for ThrottleKit {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        // It has no key prefix. If Redis fails, it admits and prints a message on standard error.
        let key = format!("{}:{}", self.namespace, keys.step());
        Ok(self.limiter.check(&key).await.allowed)
    }
}
