//! Sentences and warnings of rule files.

use std::fmt::Write;

use super::*;

fn report(file: &str) -> CheckReport {
    check([Source::new("shop.yaml", file)]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn sentences(file: &str) -> Vec<String> {
    report(file).meanings().iter().map(|meaning| meaning.sentence().to_owned()).collect()
}

/// Each warning with its line and column.
fn warnings(rules: &str) -> Vec<String> {
    let report = report(&format!("domain: shop\n{rules}"));
    let place =
        |warning: &Diagnostic| format!("{}:{}: {}", warning.line(), warning.column(), warning.message());
    report.warnings().iter().map(place).collect()
}

#[test]
fn every_rule_of_a_file_is_a_sentence() {
    let file = "
domain: shop
rules:
  - { name: api, when: { path: /api/**, method: [GET, POST] }, per: [user], limit: [50/s burst 100, 10000/day] }
  - { name: tiers, per: user, plan: { by: plan, default: free, free: 50/s, pro: unlimited } }
  - { name: exports, when: { path: /export/** }, per: user, concurrent: 3, lease: 60s, missing: deny }
  - { name: llm, per: [api_key, model], limit: { rate: 100000/min, cost: tokens }, on_store_error: share 1/10 }
  - { name: probes, when: { header.x-probe: { present: true } }, limit: unlimited, priority: 5, shadow: true }
  - { name: all, limit: { rate: 5/15m, algorithm: fixed_window }, on_store_error: 'allow for 30s, then deny' }
";
    let expected = [
        "Requests whose `path` matches `/api/**` and whose `method` is `GET` or is `POST` may take 50 per second (up \
         to 100 at once) and 10,000 per day, counted per `user`. It does not apply to requests without `user`.",
        "All requests may take what the plan in `plan` allows: `free` 50 per second and `pro` any number (without a known \
         plan: `free`), counted per `user`. It does not apply to requests without `user`.",
        "Requests whose `path` matches `/export/**` may take 3 at the same time, each for at most 1 minute, counted per \
         `user`. Requests without `user` are denied.",
        "All requests may take 100,000 per minute, where each counts what `tokens` says, or 1, counted per `api_key` and \
         `model`. It does not apply to requests without `api_key` or `model`. While the store fails, they are decided by \
         each process, with one of 10 parts of the limit.",
        "Requests with `header.x-probe` are not limited. Where it applies, rules with a priority below 5 do not.",
        "All requests may take 5 in each window of 15 minutes, all of them together. While the store fails, they are \
         allowed for 30 seconds, and denied then.",
    ];
    assert_eq!(sentences(file), expected);
}

#[test]
fn every_algorithm_is_described() {
    for (limit, expected) in [
        ("{ rate: 5/s, algorithm: gcra, burst: 9 }", "5 per second (up to 9 at once)"),
        ("{ rate: 5/s, algorithm: leaky_bucket }", "5 per second"),
        ("{ rate: 5/h, algorithm: interval_bucket }", "5 per hour, refilled at the end of each period"),
        (
            "{ rate: 5/s, algorithm: queue, waiting: 10 }",
            "5 per second, one after the other, with 10 waiting",
        ),
        (
            "{ rate: 5/s, algorithm: smooth, burst: 20 }",
            "5 per second (up to 20 at once), where each waits for those before it",
        ),
        ("{ rate: 5/90s, algorithm: sliding_log }", "5 in any 90 seconds"),
        ("{ rate: 5/s, algorithm: warm_up, warm_up: 3s }", "5 per second after a warm-up of 3 seconds"),
        (
            "{ rate: 5/min, algorithm: fixed_window, anchored: true }",
            "5 in each window of 1 minute that starts with its first request",
        ),
        ("{ rate: 5/min, algorithm: sliding_window }", "about 5 in any minute"),
        ("{ rate: 5/min, algorithm: sliding_counter, sub_buckets: 6 }", "about 5 in any minute"),
        (
            "{ rate: 5/min, algorithm: sliding_log, min_gap: 1s }",
            "5 in any minute, with at least 1 second between two",
        ),
        (
            "{ rate: 5/min, algorithm: sliding_log, count_denied: true }",
            "5 in any minute, denied ones included",
        ),
        ("{ rate: 5/min, block_for: 15m }", "5 per minute, and nothing for 15 minutes after a denial"),
        ("{ rate: 5/min, cost: 3 }", "5 per minute, where each counts 3"),
    ] {
        let file = format!("{{ domain: shop, rules: [{{ name: api, limit: {limit} }}] }}");
        assert_eq!(sentences(&file), [format!("All requests may take {expected}, all of them together.")]);
    }
}

#[test]
fn conditions_are_described() {
    for (condition, expected) in [
        ("{ ip: 10.0.0.0/8 }", "whose `ip` is in 10.0.0.0/8"),
        ("{ ip: 10.0.0.1 }", "whose `ip` is 10.0.0.1"),
        ("{ user: 'test-*' }", "whose `user` starts with `test-`"),
        ("{ user: { not: [a, b] } }", "without a `user` that is `a` or is `b`"),
        ("{ user: { present: false } }", "without `user`"),
    ] {
        let file = format!("{{ domain: shop, rules: [{{ name: api, when: {condition}, limit: 5/s }}] }}");
        assert_eq!(
            sentences(&file),
            [format!("Requests {expected} may take 5 per second, all of them together.")]
        );
    }
}

#[test]
fn every_descriptor_with_a_limit_is_a_sentence() {
    let file = "
domain: mongo
descriptors:
  - key: database
    value: users
    rate_limit: { unit: second, requests_per_unit: 500 }
    descriptors:
      - { key: tenant, rate_limit: { unit: day, requests_per_unit: 9, name: tenants }, shadow_mode: true }
  - { key: database, value: 'a*', rate_limit: { unlimited: true, replaces: [{ name: tenants }] } }
  - { key: database, value: secret, rate_limit: { unit: hour, requests_per_unit: 0 } }
";
    let report = report(file);
    let meanings: Vec<_> = report.meanings().iter().map(|one| (one.name(), one.sentence())).collect();
    assert_eq!(
        meanings,
        [
            (
                "database=users",
                "Descriptors with `database` = `users` may take 500 in each window of 1 second."
            ),
            (
                "database=users/tenant",
                "Descriptors with `database` = `users` and any `tenant` may take 9 in each window of 1 day, counted per \
                 value of `tenant`. Nothing is denied: it is in shadow mode."
            ),
            (
                "database=a*",
                "Descriptors with `database` = `a*` are not limited. Where it applies, `tenants` does not."
            ),
            ("database=secret", "Descriptors with `database` = `secret` are denied."),
        ]
    );
    assert!(report.to_string().starts_with("domain mongo\n  database=users: Descriptors"), "{report}");
}

#[test]
fn rules_that_can_never_apply_are_warned_of() {
    let found = warnings(
        "rules:
  - { name: a, when: { user: { present: false } }, per: user, limit: 5/s }
  - { name: b, when: { path: api/items }, limit: 5/s }
  - { name: c, when: { path: /x/** }, limit: 5/s }
  - { name: d, when: { path: /x/** , method: GET }, limit: 9/s }
  - { name: e, when: { path: /x/y/** }, limit: unlimited, priority: 1 }
  - { name: f, when: { path: '/x/y/**' , method: GET }, limit: 1/s }",
    );
    assert_eq!(
        found,
        [
            "3:24: rule `a` can never apply: it is for requests without `user`, and counts by `user`",
            "4:30: the path `api/items` does not begin with `/`",
            "6:60: this limit of rule `d` never denies anything, because `shop/c/1s` is tighter",
            "8:13: rule `f` never applies: `e` has a higher priority, and applies to all of its requests",
        ]
    );
}

#[test]
fn limits_that_never_bind_are_warned_of() {
    let within =
        |limits: &str| warnings(&format!("rules: [{{ name: api, per: user, limit: {limits} }}]")).len();
    for (limits, expected) in [
        ("[50/s, 10000/day]", 0),
        ("[1/s, 200000/day]", 1),
        ("[1/s burst 10, 86000/day]", 0),
        ("[{ rate: 1/s, algorithm: fixed_window }, { rate: 200000/day, algorithm: fixed_window }]", 1),
        ("[{ rate: 1/s, algorithm: fixed_window }, { rate: 86400/day, algorithm: fixed_window }]", 0),
        ("[{ rate: 9/s, cost: 5 }, 2000000/day]", 0),
    ] {
        assert_eq!(within(limits), expected, "{limits}");
    }
    let found = warnings(
        "rules:
  - { name: all, per: user, limit: 5/s }
  - { name: api, when: { path: /api/** }, per: user, limit: 6/s }
  - { name: other, when: { path: /api/** }, per: ip, limit: 6/s }
  - { name: same, per: user, limit: 5/s }",
    );
    assert_eq!(
        found,
        [
            "4:61: this limit of rule `api` never denies anything, because `shop/all/1s` is tighter",
            "6:37: this limit of rule `same` never denies anything, because `shop/all/1s` is tighter",
        ]
    );
}

#[test]
fn shadow_mode_is_warned_of() {
    let found = warnings("rules: [{ name: api, limit: 5/s, shadow: true }]");
    assert_eq!(found, ["2:17: rule `api` is in shadow mode: it counts, and denies nothing"]);
}

#[test]
fn descriptors_behind_a_wildcard_are_warned_of() {
    let found = warnings(
        "descriptors:
  - { key: path, value: '/a*', rate_limit: { unit: day, requests_per_unit: 1, name: a } }
  - { key: path, value: '/a/b*', rate_limit: { unit: day, requests_per_unit: 1, name: a } }
  - { key: path, value: '/b*', rate_limit: { unit: day, requests_per_unit: 1 } }",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("4:12: this descriptor never matches: `/a*` comes before it"), "{found:?}");
    assert!(found[1].contains("another limit is named `a`, too"), "{found:?}");
}

#[test]
fn names_that_no_limit_has_are_warned_of() {
    let found = warnings(
        "descriptors:
  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, name: tenants } }
  - { key: b, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: tenant }] } }
  - { key: c, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: tenants }] } }",
    );
    assert_eq!(found, ["4:27: it replaces `tenant`, and no limit has this name"]);
}

#[test]
fn warnings_are_apart_from_each_other() {
    let rules =
        "rules: [{ name: a, limit: 5/s, shadow: true }, { name: b, limit: 5/s, per: ip, shadow: true }]";
    let shown = report(&format!("domain: shop\n{rules}")).to_string();
    assert_eq!(shown.matches("\n\nwarning: ").count(), 2, "{shown}");
    assert!(shown.ends_with("to enforce it\n"), "{shown}");
}

#[test]
fn files_of_one_domain_are_checked_together() {
    let file = |name: &str, rule: &str| Source::new(name, format!("domain: shop\nrules:\n  - {rule}\n"));
    let files = [file("a.yaml", "{ name: a, limit: 5/s }"), file("b.yaml", "{ name: b, limit: 9/s }")];
    assert!(check(files.clone()).is_err());
    let report = check_merged(files).unwrap();
    assert_eq!(report.meanings().len(), 2);
    let [warning] = report.warnings() else { panic!("{report}") };
    assert_eq!((warning.file(), warning.line()), ("b.yaml", 3));
    assert!(warning.message().contains("`shop/a/1s` is tighter"), "{warning}");
}

#[test]
fn a_wrong_file_has_no_meaning() {
    let errors = check([Source::new("shop.yaml", "domain: shop\nrules: [{ name: api, limit: 5 }]")]);
    assert!(errors.is_err());
}

#[test]
fn many_rules_are_checked_in_bounded_time() {
    let mut file = "domain: shop\nrules:\n".to_owned();
    for number in 0..5_000 {
        let _ = writeln!(file, "  - {{ name: r{number}, when: {{ path: /p{number} }}, limit: 5/s }}");
    }
    assert_eq!(report(&file).meanings().len(), 5_000);
}
