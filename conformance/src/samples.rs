//! The limits that trials use: every algorithm with its variants, small enough to exhaust.

use std::time::Duration;

use tollgate_core::{Limit, LimitBuilder};

/// A limit, and the name of its trials.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) limit: Limit,
    /// The same limit with other parameters.
    pub(crate) changed: [Limit; 2],
}

fn sample(name: &'static str, limit: LimitBuilder, changed: [LimitBuilder; 2]) -> Sample {
    let build = |builder: LimitBuilder| builder.build(name).expect("samples are valid");
    Sample { name, limit: build(limit), changed: changed.map(build) }
}

/// Returns the samples: at least one per algorithm.
pub(crate) fn samples() -> Vec<Sample> {
    let second = Duration::from_secs(1);
    let ten = Limit::per_second(10);
    let (more, fewer) = (Limit::per_second(25).burst(40), Limit::per_minute(90).burst(4));
    let windows = |with: fn(LimitBuilder) -> LimitBuilder| {
        (with(Limit::per_second(10)), [with(Limit::per_second(40)), with(Limit::per_minute(4))])
    };
    let flows = |with: fn(LimitBuilder) -> LimitBuilder| {
        (with(Limit::per_second(10)), [with(more.clone()), with(fewer.clone())])
    };
    let mut all = Vec::new();
    let mut add = |name, (limit, changed)| all.push(sample(name, limit, changed));
    add("token_bucket", flows(|limit| limit));
    add(
        "token_bucket_uneven",
        (Limit::per_second(7).burst(11), [Limit::per_second(700_000_000), Limit::per_minute(13)]),
    );
    add("interval_bucket", flows(LimitBuilder::refill_by_interval));
    add("leaky_meter", flows(LimitBuilder::leaky_bucket));
    add(
        "leaky_queue",
        (ten.clone().queue(9), [Limit::per_second(30).queue(20), Limit::per_minute(70).queue(3)]),
    );
    add("gcra", flows(LimitBuilder::gcra));
    add("smooth_bursty", flows(LimitBuilder::smooth));
    add(
        "smooth_warming_up",
        (
            ten.clone().warm_up(2 * second),
            [Limit::per_second(30).warm_up(second), Limit::per_second(3).warm_up(4 * second).cold_factor(5)],
        ),
    );
    add("fixed_window", windows(LimitBuilder::fixed_window));
    add("fixed_window_anchored", windows(|limit| limit.fixed_window().anchored()));
    add("sliding_window", windows(LimitBuilder::sliding_window));
    add("sliding_counter", windows(|limit| limit.sliding_counter(7)));
    add("sliding_log", windows(LimitBuilder::sliding_log));
    add("sliding_log_denied_counted", windows(|limit| limit.sliding_log().count_denied()));
    add("sliding_log_with_gap", windows(|limit| limit.sliding_log().min_gap(Duration::from_millis(30))));
    add(
        "concurrency",
        (
            Limit::concurrent(10).lease(second),
            [Limit::concurrent(40).lease(2 * second), Limit::concurrent(4).lease(second / 2)],
        ),
    );
    add("blocking_bucket", flows(|limit| limit.block_for(Duration::from_secs(3))));
    add("blocking_window", windows(|limit| limit.fixed_window().block_for(Duration::from_secs(3))));
    all
}
