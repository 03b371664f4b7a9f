//! limitador: fixed windows in its memory storage, one counter per value of a variable.

use std::collections::HashMap;

use ::limitador::RateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};

use crate::subject::{Subject, Traffic};

const NAMESPACE: &str = "bench";
const VARIABLE: &str = "user";

pub fn keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let quota = traffic.quota();
    // Its cache evicts above its size, so it is given one that holds every key, and
    // never less than the size it has by default.
    let limiter = RateLimiter::new(keys.max(10_000) as u64);
    let variable = VARIABLE.try_into().expect("a name is an expression");
    limiter.add_limit(Limit::new(NAMESPACE, u64::from(quota.count), quota.period.as_secs(), [], [variable]));
    Box::new(Keyed { limiter, namespace: NAMESPACE.into() })
}

struct Keyed {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        // A context per check, as its values are the request's: there is no way to
        // change one that exists.
        let values = HashMap::from([(VARIABLE.to_owned(), key.to_owned())]);
        let context = Context::from(values);
        let answer = self
            .limiter
            .check_rate_limited_and_update(&self.namespace, &context, 1)
            .expect("memory does not fail");
        !answer.limited
    }
}
