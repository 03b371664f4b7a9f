//! governor: a GCRA word, alone or one per key in its default store (`DashMap`), with its
//! default clock (quanta).

use std::cell::RefCell;
use std::num::NonZeroU32;

use ::governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::subject::{Subject, Traffic};

pub fn direct(traffic: Traffic) -> Box<dyn Subject> {
    Box::new(Direct(RateLimiter::direct(quota(traffic))))
}

pub fn keyed(traffic: Traffic, _keys: usize) -> Box<dyn Subject> {
    Box::new(Keyed(RateLimiter::keyed(quota(traffic))))
}

fn quota(traffic: Traffic) -> Quota {
    let limit = traffic.quota();
    Quota::with_period(limit.period / limit.count)
        .expect("the period is longer than the count in nanoseconds")
        .allow_burst(NonZeroU32::new(limit.count).expect("not zero"))
}

struct Direct(DefaultDirectRateLimiter);

impl Subject for Direct {
    fn check(&self, _key: &str) -> bool {
        self.0.check().is_ok()
    }
}

struct Keyed(DefaultKeyedRateLimiter<String>);

thread_local! {
    static KEY: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        // It accepts keys as `&String` only. Copying into an existing string is the cheapest way from a `&str`: about 1
        // ns.
        KEY.with_borrow_mut(|owned| {
            owned.clear();
            owned.push_str(key);
            self.0.check_key(owned).is_ok()
        })
    }
}
