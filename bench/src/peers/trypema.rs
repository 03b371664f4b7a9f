//! trypema: a sliding window of small buckets per key, in its local provider.

use std::sync::Arc;

use ::trypema::local::LocalRateLimiterProvider;
use ::trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::subject::{Subject, Traffic};

pub fn keyed(traffic: Traffic, _keys: usize) -> Box<dyn Subject> {
    let quota = traffic.quota();
    let provider = LocalRateLimiterProvider::builder()
        .window_size(WindowSize::seconds_or_panic(quota.period.as_secs()))
        // Its cleanup thread would run while other subjects are measured.
        .disable_cleanup()
        .build()
        .expect("the configuration is valid");
    let per_second = f64::from(quota.count) / quota.period.as_secs_f64();
    Box::new(Keyed { provider, rate: RateLimit::per_second_or_panic(per_second) })
}

struct Keyed {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        let decision = self.provider.absolute().inc(key, &self.rate, 1);
        matches!(decision, RateLimitDecision::Allowed)
    }
}
