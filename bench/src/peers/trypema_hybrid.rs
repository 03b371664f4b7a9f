//! trypema: local decisions, synchronized with Redis in the background.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::redis::Client;
use ::trypema::hybrid::{HybridRateLimiterProvider, SyncInterval};
use ::trypema::redis::{RedisKey, RedisKeyRef};
use ::trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};
use tokio::runtime::Handle;

use crate::redis::subject::{Failure, Place};
use crate::subject::{Quota, Subject, Traffic};

pub fn keyed(runtime: &Handle, place: &Place, interval: Duration) -> Result<Box<dyn Subject>, Failure> {
    let Quota { count, period } = Traffic::Admitted.quota();
    let provider = runtime.block_on(async {
        let connection = Client::open(&*place.url)?.get_connection_manager().await?;
        let provider = HybridRateLimiterProvider::builder(connection)
            .prefix(RedisKey::try_from(place.namespace.clone())?)
            .window_size(WindowSize::seconds_or_panic(period.as_secs()))
            .sync_interval(SyncInterval::milliseconds(u64::try_from(interval.as_millis())?)?)
            .disable_cleanup()
            .build()?;
        Ok::<_, Failure>(provider)
    })?;
    let rate = RateLimit::per_second_or_panic(f64::from(count) / period.as_secs_f64());
    Ok(Box::new(Keyed { provider, rate, runtime: runtime.clone() }))
}

struct Keyed {
    provider: Arc<HybridRateLimiterProvider>,
    rate: RateLimit,
    runtime: Handle,
}

impl Subject for Keyed {
    /// Uses the call that its documentation recommends for hot paths, and the one that waits if the key is unknown
    /// locally.
    fn check(&self, key: &str) -> bool {
        let key = RedisKeyRef::try_from(key).expect("a valid key");
        let decision = match self.provider.absolute().try_inc(key, 1).expect("no error in local state") {
            Some(decision) => decision,
            None => self.wait(key),
        };
        matches!(decision, RateLimitDecision::Allowed)
    }
}

impl Keyed {
    #[cold]
    fn wait(&self, key: RedisKeyRef<'_>) -> RateLimitDecision {
        let key = RedisKey::try_from(key.as_str()).expect("a valid key");
        let mut decision = pin!(self.provider.absolute().inc(&key, &self.rate, 1));
        match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decided) => decided.expect("no error"),
            Poll::Pending => self.runtime.block_on(decision).expect("no error"),
        }
    }
}
