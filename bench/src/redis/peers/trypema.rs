//! trypema: a sliding window of small buckets per key, in its Redis provider.

use std::sync::Arc;

use ::redis::Client;
use ::trypema::redis::{RedisKey, RedisRateLimiterProvider};
use ::trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::keys::Walk;
use crate::redis::subject::{Failure, Place, QUOTA, Remote};

pub struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    rate: RateLimit,
}

pub async fn build(place: Place) -> Result<Trypema, Failure> {
    let connection = Client::open(place.url)?.get_connection_manager().await?;
    let provider = RedisRateLimiterProvider::builder(connection)
        .prefix(RedisKey::try_from(place.namespace)?)
        .window_size(WindowSize::seconds_or_panic(QUOTA.period.as_secs()))
        // Its cleanup task would run while other subjects are measured.
        .disable_cleanup()
        .build()?;
    let per_second = f64::from(QUOTA.count) / QUOTA.period.as_secs_f64();
    Ok(Trypema { provider, rate: RateLimit::per_second_or_panic(per_second) })
}

impl Remote for Trypema {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let key = RedisKey::try_from(keys.step())?;
        let decision = self.provider.absolute().inc(&key, &self.rate, 1).await?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}
