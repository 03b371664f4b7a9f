//! The limits: every algorithm, small enough to be exhausted many times per second.

use std::time::Duration;

use tollgate_core::{Charge, Key, Limit, LimitBuilder};

use crate::record::Ask;

pub(crate) const ENTITIES: [&str; 2] = ["alice", "bob"];

/// The kinds of charges that tasks make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Takes only, so that admissions can be counted.
    Takes,
    /// All actions.
    All,
}

/// A limit to test.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    /// The limit, and another one for the same entities. Requests charge either or both.
    pub(crate) limits: [Limit; 2],
    pub(crate) mix: Mix,
}

impl Sample {
    /// Every sample has a namespace of its own.
    pub(crate) fn charge(&self, ask: &Ask) -> Charge<'_> {
        let key = Key::new(self.name, ENTITIES[ask.entity]);
        self.limits[ask.limit].charge(key).with_cost(ask.cost).with_action(ask.action).with_lease(ask.lease)
    }
}

pub(crate) fn named(name: &str) -> Sample {
    samples().into_iter().find(|sample| sample.name == name).expect("a sample")
}

pub(crate) fn samples() -> Vec<Sample> {
    let millis = Duration::from_millis;
    let bucket = || Limit::per_second(100).burst(20);
    let window = || Limit::per(20, millis(100));
    let all: Vec<(&'static str, LimitBuilder)> = vec![
        ("token_bucket", bucket()),
        ("token_bucket_uneven", Limit::per_second(190).burst(11)),
        ("token_bucket_odd_period", Limit::per(70, Duration::from_nanos(333_000_007)).burst(13)),
        ("interval_bucket", window().refill_by_interval()),
        ("leaky_meter", bucket().leaky_bucket()),
        ("leaky_queue", Limit::per_second(100).queue(9)),
        ("gcra", bucket().gcra()),
        ("smooth_bursty", bucket().smooth()),
        ("smooth_warming_up", Limit::per_second(100).warm_up(millis(500))),
        ("fixed_window", window().fixed_window()),
        ("fixed_window_anchored", window().fixed_window().anchored()),
        ("sliding_window", window().sliding_window()),
        ("sliding_counter", window().sliding_counter(7)),
        ("sliding_log", window().sliding_log()),
        ("sliding_log_denied_counted", Limit::per(20, millis(20)).sliding_log().count_denied()),
        ("sliding_log_with_gap", window().sliding_log().min_gap(millis(3))),
        ("sliding_log_longer_than_a_block", Limit::per(200, millis(500)).sliding_log()),
        ("concurrency", Limit::concurrent(10).lease(millis(100))),
        ("concurrency_of_many", Limit::concurrent(100).lease(millis(300))),
        ("blocking_bucket", bucket().block_for(millis(50))),
        ("blocking_window", window().fixed_window().block_for(millis(50))),
    ];
    let sample = |name, limit: LimitBuilder, mix| {
        let build = |limit: LimitBuilder, name| limit.build(name).expect("samples are valid");
        Sample { name, limits: [build(limit, name), build(Limit::per_second(300).burst(40), "beside")], mix }
    };
    let mut samples: Vec<_> = all.into_iter().map(|(name, limit)| sample(name, limit, Mix::All)).collect();
    // Only takes: the initial capacity must be enough for some of them to pass, however short the test is.
    samples.push(sample("takes_from_a_token_bucket", bucket().burst(200), Mix::Takes));
    samples
}
