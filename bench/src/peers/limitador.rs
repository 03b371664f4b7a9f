//! limitador: fixed windows in its memory storage, one counter per value of a variable.

use std::collections::HashMap;

use ::limitador::RateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};

use crate::subject::{Subject, Traffic};

const NAMESPACE: &str = "bench";
const VARIABLE: &str = "user";

pub fn keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let quota = traffic.quota();
    // Its cache evicts entries beyond its size: it has room for every key, and at least its default size.
    let limiter = RateLimiter::new(keys.max(10_000) as u64);
    let variable = VARIABLE.try_into().expect("a valid expression");
    limiter.add_limit(Limit::new(NAMESPACE, u64::from(quota.count), quota.period.as_secs(), [], [variable]));
    Box::new(Keyed { limiter, namespace: NAMESPACE.into() })
}

struct Keyed {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        // A context per check: the values of an existing one cannot be changed.
        let values = HashMap::from([(VARIABLE.to_owned(), key.to_owned())]);
        let context = Context::from(values);
        let result = self
            .limiter
            .check_rate_limited_and_update(&self.namespace, &context, 1)
            .expect("no error in memory");
        !result.limited
    }
}
