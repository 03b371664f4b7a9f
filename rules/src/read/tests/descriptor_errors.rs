//! Errors of descriptors: what the reference service refuses, and what it silently ignores.

use super::*;

/// Asserts an error in a file with these lines below `descriptors`.
#[track_caller]
fn in_file(marked: &str, message: &str, advice: &str) {
    assert_error(&format!("domain: edge\ndescriptors:\n{marked}\n"), message, advice);
}

#[track_caller]
fn in_limit(marked: &str, message: &str, advice: &str) {
    in_file(&format!("  - key: a\n    rate_limit: {{ {marked} }}"), message, advice);
}

#[test]
fn of_descriptors() {
    in_file("  - §value: a", "a descriptor without `key`", "`key: remote_address`");
    in_file("  - key: §\"\"", "`key` is empty", "`key: remote_address`");
    in_file("  - key: §[a]", "`key` is a list here", "write text, such as `key: remote_address`");
    in_file("  - key: a\n    value: §{ b: c }", "`value` is a map here", "write text");
    in_file("  - §a", "a descriptor is text here", "`{ key: remote_address }`");
    in_file(
        "  - key: a\n    §ratelimit: {}",
        "unknown field `ratelimit` in a descriptor",
        "did you mean `rate_limit`?",
    );
    in_file(
        "  - key: a\n    §unit: day",
        "unknown field `unit` in a descriptor",
        "it is a field of a rate limit",
    );
    in_file("  - key: a\n    descriptors: §{ key: b }", "`descriptors` is a map here", "`- key: …`");
    in_file(
        "  - key: a\n    rate_limit: §5/s",
        "`rate_limit` is text here",
        "write a map, such as `{ unit: minute }`",
    );
    in_file("  - key: a\n    shadow_mode: §maybe", "`shadow_mode` is text here", "`true` or `false`");
    in_file("  - key: a\n    metadata: §text", "`metadata` is text here", "a map of your own");
}

#[test]
fn of_duplicates() {
    let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    in_file(
        &format!("  - {{ key: a, value: b, {limit} }}\n  - {{ key: §a, value: b }}"),
        "the descriptor `a` with the value `b` exists already at this level (line 3)",
        "merge the two",
    );
    in_file(
        "  - key: a\n    descriptors:\n      - key: b\n      - key: §b",
        "the descriptor `b` without a value exists already at this level (line 5)",
        "another value",
    );
    domain(
        "domain: edge\ndescriptors:\n  - key: a\n    descriptors: [{ key: a }]\n  - { key: a, value: a }\n",
    );
}

#[test]
fn of_limits() {
    in_limit("unit: §seconds, requests_per_unit: 5", "`unit` is `seconds`", "did you mean `second`?");
    in_limit(
        "unit: §fortnight, requests_per_unit: 5",
        "`unit` is `fortnight`",
        "write `second`, `minute`, `hour`",
    );
    in_limit("unit: day, requests_per_unit: §-1", "`requests_per_unit` is `-1`", "from 0 to 4294967295");
    in_limit(
        "unit: day, requests_per_unit: §4294967296",
        "`requests_per_unit` is `4294967296`",
        "4294967295",
    );
    in_limit(
        "unit: day, requests_per_unit: §five",
        "`requests_per_unit` is text here",
        "`requests_per_unit: 100`",
    );
    in_limit("unit: day, §unlimited: true", "`unlimited` contradicts `unit` (line 4)", "has no unit");
    in_file(
        "  - key: a\n    §rate_limit: { requests_per_unit: 5 }",
        "`rate_limit` without `unit`",
        "`unit: minute`",
    );
    in_file("  - key: a\n    §rate_limit: {}", "`rate_limit` without `unit`", "`unlimited: true` alone");
    let replaces = |item: &str| format!("unit: day, requests_per_unit: 5, name: own, replaces: {item}");
    in_limit(&replaces("[{ name: §own }]"), "a limit replaces itself", "another limit");
    in_limit(&replaces("[{ name: §\"\" }]"), "an item of `replaces` has an empty `name`", "another limit");
    in_limit(&replaces("[§own]"), "an item of `replaces` is text here", "`{ name: per_minute }`");
    in_limit(&replaces("§other"), "`replaces` is text here", "a list");
    in_limit(&replaces("[§{}]"), "a replaced limit without `name`", "`name: per_minute`");
}

#[test]
fn of_shared_thresholds() {
    let advice = "add a `*` to `value`, or remove it";
    let message = "`share_threshold` without a `*` in `value`";
    in_file("  - key: a\n    value: b\n    §share_threshold: true", message, advice);
    in_file("  - key: a\n    §share_threshold: true", message, advice);
}

#[test]
fn what_the_reference_service_reads_in_another_way_than_its_author() {
    let file = |lines: &str| format!("domain: edge\ndescriptors:\n{lines}\n");
    assert_warning(
        &file("  - key: a\n    §rate_limit: { unit: day }"),
        "`rate_limit` without `requests_per_unit` blocks all requests",
        "`requests_per_unit: 0` if that is meant",
    );
    assert_warning(
        &file("  - key: a\n    rate_limit: { unlimited: true, §requests_per_unit: 5 }"),
        "`requests_per_unit` has no effect with `unlimited`",
        "remove one of them",
    );
    assert_warning(
        &file("  - key: a\n    value: §\"\""),
        "`value` is empty, which matches any value",
        "remove it",
    );
}

#[test]
fn deep_files_are_refused_by_their_syntax() {
    let mut text = "domain: edge\ndescriptors: ".to_owned();
    text.push_str(&"[{ key: a, descriptors: ".repeat(10_000));
    let found = errors(&text);
    assert!(found.iter().any(|error| error.message().contains("nested")), "{}", found[0]);
}
