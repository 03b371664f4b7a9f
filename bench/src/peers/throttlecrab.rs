//! throttlecrab: GCRA over a hash map. Its methods take `&mut self`, so it is behind a mutex, as its documentation
//! says.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ::throttlecrab::{PeriodicStore, RateLimiter};

use crate::subject::{Subject, Traffic};

pub fn keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let quota = traffic.quota();
    // With a burst of 1 its entries have no time to live, and it never denies; 2 is the smallest burst that it
    // enforces.
    let burst = quota.count.max(2);
    // The fastest of its three stores: it sweeps least often.
    let store = PeriodicStore::builder().capacity(keys).build();
    Box::new(Keyed {
        limiter: Mutex::new(RateLimiter::new(store)),
        burst: i64::from(burst),
        count: i64::from(quota.count),
        seconds: quota.period.as_secs().cast_signed(),
    })
}

struct Keyed {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    count: i64,
    seconds: i64,
}

impl Subject for Keyed {
    #[expect(clippy::disallowed_methods, reason = "it takes the time from its caller")]
    fn check(&self, key: &str) -> bool {
        // Before the lock, to hold it as briefly as possible.
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let (admitted, _) = limiter
            .rate_limit(key, self.burst, self.count, self.seconds, 1, now)
            .expect("the arguments are valid");
        admitted
    }
}
