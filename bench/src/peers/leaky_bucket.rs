//! leaky-bucket: one token bucket without keys, designed for waiting; used without waiting.

use ::leaky_bucket::RateLimiter;

use crate::subject::{Subject, Traffic};

pub fn direct(traffic: Traffic) -> Box<dyn Subject> {
    let limit = traffic.quota();
    let count = limit.count as usize;
    Box::new(Direct(
        RateLimiter::builder().initial(count).max(count).refill(count).interval(limit.period).build(),
    ))
}

struct Direct(RateLimiter);

impl Subject for Direct {
    fn check(&self, _key: &str) -> bool {
        self.0.try_acquire(1)
    }
}
