//! Validation, identity and bounds of limits.

use core::time::Duration;

use super::*;

fn assert_invalid(builder: LimitBuilder, field: &str, message: &str) {
    let error = builder.build("api").expect_err(field);
    assert_eq!(error.field(), field, "{error}");
    let text = alloc::string::ToString::to_string(&error);
    assert!(text.starts_with("limit `api`: ") && text.contains(message), "{text}");
}

#[test]
fn errors_name_the_field_and_what_would_be_valid() {
    let day = Duration::from_secs(86_400);
    assert_invalid(Limit::per_second(0), "count", "use at least 1");
    assert_invalid(Limit::per_second(2_000_000_000), "count", "use at most 1000000000");
    assert_invalid(Limit::per(1, Duration::ZERO), "period", "is zero");
    assert_invalid(Limit::per(1, 400 * day), "period", "use at most 366 days");
    assert_invalid(Limit::per(1, Duration::MAX), "period", "use at most 366 days");
    assert_invalid(Limit::per(10, Duration::from_nanos(3)), "count", "more than one per nanosecond");
    assert_invalid(Limit::per_second(5).burst(0), "burst", "use at least 1");
    assert_invalid(Limit::per(1, 300 * day).burst(1_000), "burst", "30 years");
    assert_invalid(Limit::per(1, 300 * day).queue(1_000), "waiting", "30 years");
    assert_invalid(Limit::per_second(5).queue(0), "waiting", "use at least 1");
    assert_invalid(Limit::per_second(5).sliding_counter(0), "sub_buckets", "use at least 1");
    assert_invalid(Limit::per_second(5).sliding_counter(1_000), "sub_buckets", "use at most 256");
    assert_invalid(Limit::per(5, Duration::from_nanos(9)).sliding_counter(10), "sub_buckets", "use fewer");
    assert_invalid(Limit::per_second(200_000).sliding_log(), "count", "use at most 100000");
    assert_invalid(Limit::concurrent(200_000), "count", "use at most 100000");
    assert_invalid(Limit::concurrent(5).lease(Duration::ZERO), "lease", "is zero");
    assert_invalid(Limit::per_second(5).warm_up(Duration::ZERO), "warm_up", "is zero");
    assert_invalid(Limit::per_second(5).warm_up(day).cold_factor(0), "cold_factor", "use at least 1");
    assert_invalid(Limit::per_second(5).block_for(Duration::ZERO), "block_for", "is zero");
}

#[test]
fn an_option_that_the_algorithm_does_not_have_is_an_error() {
    let second = Duration::from_secs(1);
    assert_invalid(
        Limit::per_second(5).fixed_window().burst(10),
        "burst",
        "does not apply to the algorithm `fixed window`",
    );
    assert_invalid(Limit::per_second(5).anchored(), "anchored", "only fixed windows");
    assert_invalid(Limit::per_second(5).count_denied(), "count_denied", "only sliding logs");
    assert_invalid(Limit::per_second(5).min_gap(second), "min_gap", "only sliding logs");
    assert_invalid(Limit::per_second(5).cold_factor(3), "cold_factor", "warm up");
    assert_invalid(Limit::per_second(5).lease(second), "lease", "only concurrency limits");
}

#[test]
fn names_are_validated() {
    for (name, message) in [("", "is empty"), ("a\0b", "control characters"), (&"n".repeat(200), "200 bytes")]
    {
        let error = Limit::per_second(5).build(name).expect_err("an invalid name");
        assert_eq!(error.field(), "name");
        assert!(error.problem().contains(message), "{error}");
    }
}

#[test]
fn getters_return_the_parameters() {
    let limit = Limit::per_second(50).burst(100).build("api").expect("valid");
    assert_eq!((limit.count(), limit.period(), limit.capacity()), (50, Duration::from_secs(1), 100));
    assert_eq!(
        Limit::per_minute(7).build("api").expect("valid").capacity(),
        7,
        "the default burst is the count"
    );
    assert_eq!(Limit::per_second(1).queue(4).build("api").expect("valid").capacity(), 5);
}

#[test]
fn the_same_name_and_algorithm_share_state() {
    let build = |builder: LimitBuilder, name| builder.build(name).expect("valid").id();
    assert_eq!(build(Limit::per_second(5), "api"), build(Limit::per_hour(9).burst(3), "api"));
    assert_ne!(build(Limit::per_second(5), "api"), build(Limit::per_second(5), "web"));
    assert_ne!(build(Limit::per_second(5), "api"), build(Limit::per_second(5).fixed_window(), "api"));
    let blocking = Limit::per_second(5).block_for(Duration::from_secs(1));
    assert_ne!(build(Limit::per_second(5), "api"), build(blocking, "api"));
}

#[test]
fn extreme_parameters_are_valid_and_do_not_overflow() {
    let fastest = Limit::per_second(Limit::MAX_COUNT).build("fastest").expect("one per nanosecond");
    let slowest = Limit::per(1, Limit::MAX_PERIOD).burst(30).build("slowest").expect("thirty years");
    for limit in [fastest, slowest] {
        for now in [crate::Time::EPOCH, crate::Time::from_secs(1_790_000_000), crate::Time::MAX] {
            let mut state = crate::store::State::default();
            let taken = state.apply(&limit.charge("key").with_cost(limit.capacity()), now);
            assert!(taken.is_allowed() || now == crate::Time::MAX, "{taken:?}");
            let debit = limit.charge("key").with_cost(u32::MAX).with_action(Action::Debit { at: None });
            for _ in 0..10 {
                let _ = state.apply(&debit, now);
            }
            assert!(state.apply(&limit.charge("key"), now).is_denied() || now == crate::Time::MAX);
        }
    }
}
