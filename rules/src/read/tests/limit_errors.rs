//! Errors of limits, plans and costs.

use super::*;

#[track_caller]
fn in_rule(marked: &str, message: &str, advice: &str) {
    assert_error(&rule(marked), message, advice);
}

#[track_caller]
fn in_limit(marked: &str, message: &str, advice: &str) {
    in_rule(&format!("limit: {{ {marked} }}"), message, advice);
}

#[test]
fn of_short_forms() {
    // What is wrong with the text itself, `units` says.
    for text in ["50", "50/parsec", "-5/s", "50/s bursts 100", "0/s", "99999999999/s"] {
        let found = errors(&rule(&format!("limit: {text}")));
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].line(), found[0].column()), (4, 12), "{}", found[0]);
        assert!(!found[0].advice().is_empty());
    }
    in_rule("limit: §[]", "`limit` is an empty list", "such as `50/s`, or `unlimited`");
    in_rule("limit: [5/s, §unlimited]", "`unlimited` is one of several limits", "`limit: unlimited` alone");
    in_rule("limit: [§[5/s]]", "a limit is a list here", "`50/s burst 100`");
    in_rule("§limit:", "`limit` has no value", "such as `limit: 50/s burst 100`");
}

#[test]
fn of_names() {
    let advice = "`{ rate: 5/min, name: second }`";
    in_rule("limit: [5/s, §9/s]", "two limits of the rule are called `1s` (the other on line 4)", advice);
    let same = "limit: [{ rate: 5/s, name: a }, §{ rate: 5/min, name: a }]";
    in_rule(same, "two limits of the rule are called `a` (the other on line 4)", advice);
    in_limit(
        "rate: 5/s, name: §a/b",
        "`name` has a `/`, which separates the parts of a limit's name",
        "`a-b`",
    );
    domain(&rule("limit: [5/s, { rate: 9/s, burst: 90, name: sustained }]"));
}

#[test]
fn of_rates() {
    let either = "write either `rate`, or `count` and `period`";
    in_limit("rate: 5/s, §count: 5", "`count` contradicts `rate` (line 4)", either);
    in_limit("period: 1m, §rate: 5/s", "`rate` contradicts `period` (line 4)", either);
    in_limit("rate: 5/s burst 9, §burst: 9", "`burst` contradicts `rate` (line 4)", "write the burst once");
    in_rule(
        "limit: §{ burst: 9 }",
        "a limit without `rate`",
        "`rate: 5/min`, or `count: 5` and `period: 1m`",
    );
    in_rule("limit: §{ count: 9 }", "a limit without `period`", "`count: 5` and `period: 1m`");
    in_rule("limit: §{ period: 9s }", "a limit without `count`", "`rate: 5/min`");
    in_limit("rate: §[5/s]", "`rate` is a list here", "write a rate, such as `rate: 5/min`");
    in_limit("§rate: ", "`rate` has no value", "such as `rate: 5/min`");
    in_limit("count: §0, period: 1s", "`count`: a count of zero", "1");
    in_limit("count: §5s, period: 1s", "`count`: `5s` is not a number", "this is a duration");
    in_limit("count: §[], period: 1s", "`count` is a list here", "such as `count: 5`");
    in_limit("count: 5, period: §400d", "`period`: `400d` is too long", "at most `366d`");
}

#[test]
fn of_options() {
    in_limit(
        "rate: 5/s, algorithm: fixed_window, §burst: 9",
        "`burst` contradicts `algorithm` (line 4)",
        "`burst` is for `token_bucket`, `gcra`, `leaky_bucket`, `smooth`, `interval_bucket`",
    );
    in_limit(
        "rate: 5/s, §anchored: true",
        "`anchored` does not apply to a token bucket, the default algorithm",
        "add `algorithm: fixed_window`, or remove it",
    );
    in_limit("rate: 5/s, algorithm: §queue", "`algorithm: queue` without `waiting`", "`waiting: 20`");
    in_limit("rate: 5/s, algorithm: §warm_up", "`algorithm: warm_up` without `warm_up`", "`warm_up: 30s`");
    in_limit(
        "rate: 5/s, algorithm: §sliding_counter",
        "`algorithm: sliding_counter` without `sub_buckets`",
        "10",
    );
    in_limit(
        "rate: 5/s, algorithm: §sliding_windw",
        "`algorithm` is `sliding_windw`",
        "did you mean `sliding_window`?",
    );
    in_limit("rate: 5/s, algorithm: §xyz", "`algorithm` is `xyz`", "write `token_bucket`, `gcra`");
    in_limit(
        "rate: 5/s, algorithm: §[]",
        "`algorithm` is a list here",
        "such as `algorithm: sliding_window`",
    );
    for burst in ["-1", "0", "2.5", "many", "true", "2000000000"] {
        let found = errors(&rule(&format!("limit: {{ rate: 5/s, burst: {burst} }}")));
        assert_eq!((found.len(), found[0].column()), (1, 32), "{}", found[0]);
        assert!(found[0].message().starts_with("`burst`: ") && !found[0].advice().is_empty(), "{}", found[0]);
    }
    let bytes = "the burst is in bytes, but the rate is not";
    in_limit("rate: 5/s, burst: §10MB", bytes, "`rate: 10MB/s` and `burst: 20MB`");
    domain(&rule("limit: { rate: 10MB/s, burst: 20MB, cost: size }"));
    domain(&rule("limit: { count: 10k, period: 90s, burst: 20k }"));
    in_limit(
        "rate: 5/d, burst: §1000000",
        "`burst` is 1000000, which takes 546 years to fill at this rate",
        "30 years",
    );
    in_limit(
        "rate: 5/s, algorithm: sliding_counter, sub_buckets: §257",
        "`sub_buckets` is `257`",
        "from 1 to 256",
    );
    in_limit("rate: §200000/h, algorithm: sliding_log", "`count` is 200000", "use at most 100000");
    in_limit(
        "rate: 5/s, block_for: §[]",
        "`block_for` is a list here",
        "a duration, such as `block_for: 15m`",
    );
    in_limit("rate: 5/s, block_for: §500d", "`block_for`: `500d` is too long", "at most `366d`");
    let found = errors(&rule("limit: { rate: 5/s, block_for: 15 }"));
    assert_eq!((found.len(), found[0].column()), (1, 36), "{}", found[0]);
    assert!(found[0].message().starts_with("`block_for`: "), "{}", found[0]);
    in_rule("concurrent: 3\nlease: §0s", "`lease`: a duration of zero", "write");
}

#[test]
fn of_costs() {
    let bytes = "the limit is in bytes, but a request costs 1";
    in_rule("limit: §10MB/s", bytes, "such as `cost: content_length`");
    in_limit("rate: 10MB/s burst 20MB, cost: §1", bytes, "content_length");
    domain(&rule("limit: 10MB/s burst 20MB\ncost: content_length"));
    in_rule("limit: 5/s\ncost: §0", "`cost` is `0`", "use a whole number from 1 to");
    in_limit("rate: 5/s, algorithm: §leaky", "`algorithm` is `leaky`", "did you mean `leaky_bucket`?");
    in_limit("rate: 5/s, algorithm: §sliding", "`algorithm` is `sliding`", "write `token_bucket`, `gcra`");
    for word in ["Unlimited", "unlimted", "none", "infinite"] {
        in_rule(&format!("limit: §{word}"), &format!("`limit`: `{word}` is not a rate"), "write `unlimited`");
    }
    in_rule("limit: 5/s\ncost: §100k", "`cost` is `100k`", "write a whole number, such as `cost: 100000`");
    in_rule("limit: 5/s\ncost: §2kB", "`cost` is `2kB`", "such as `cost: 2000`, or the name of an attribute");
    in_rule("limit: 5/s\ncost: §3x", "`cost` is `3x`", "such as `cost: 3`");
    in_rule("limit: 5/s\ncost: §true", "`cost` is true or false here", "the name of an attribute");
    in_rule("limit: 5/s\ncost: §[1]", "`cost` is a list here", "one cost per limit");
    in_rule("limit: 5/s\ncost: §Tokens", "`Tokens` is not the name of an attribute", "`tokens`");
    in_rule("limit: 5/s\ncost: §{ default: 5 }", "a cost without `attribute`", "`attribute: tokens`");
    in_rule("limit: 5/s\ncost: { attribute: a, default: §0 }", "`default` is `0`", "from 1 to");
    let message = "a cost of 10 is more than the 5 that can pass at once, so nothing passes";
    in_limit("rate: 5/s, cost: §10", message, "lower the cost, or raise the limit");
    in_rule("limit: §5/s\ncost: 10", message, "lower the cost, or raise the limit");
    // Smooth limiters pass any cost, and make the next caller wait.
    domain(&rule("limit: { rate: 5/s, algorithm: smooth, cost: 10 }"));
}

#[test]
fn of_plans() {
    in_rule("plan: §{ free: 5/s }", "a plan without `by`", "`by: plan`");
    in_rule("§plan: { by: plan }", "`plan` without a plan", "such as `free: 50/s`");
    in_rule("plan: §5/s", "`plan` is text here", "write a map, such as `{ by: plan }`");
    let default = "the default plan `fre` is not listed";
    in_rule("plan: { by: plan, default: §fre, free: 5/s }", default, "did you mean `free`?");
    in_rule("plan: { by: plan, default: §x, free: 5/s }", "the default plan `x` is not listed", "use `free`");
    in_rule("plan: { by: plan, free: §[5/s, 9/m] }", "the plan `free` is a list here", "write one limit");
    in_rule("plan: { by: plan, §\"\": 5/s }", "the plan `` has no name that can be read", "such as `free`");
    in_rule("plan: { by: plan, §free: }", "`free` has no value", "write a value after `free`");
    in_rule(
        "plan: { by: §jwt.plan, free: 5/s }",
        "`jwt.plan` is not the name of an attribute",
        "`claim.plan`",
    );
    let same = "write the same for all plans";
    for (other, difference) in [
        ("{ rate: 9/s, algorithm: gcra }", "different algorithms"),
        ("{ rate: 9/s, block_for: 5m }", "a block time only in one of them"),
        ("{ rate: 9/s, name: other }", "different names"),
    ] {
        let message = format!("the plans `pro` and `free` (line 6) have {difference}");
        in_rule(&format!("plan:\n  by: plan\n  free: 5/s\n  pro: §{other}"), &message, same);
    }
}
