//! Errors of rules and of the file around them: each names its place and what would be right.

use super::*;

#[track_caller]
fn in_rule(marked: &str, message: &str, advice: &str) {
    assert_error(&rule(marked), message, advice);
}

#[test]
fn of_the_file() {
    assert_error("§rules:\n  - { name: api, limit: 5/s }\n", "a file without `domain`", "`domain: shop`");
    assert_error("domain: §\"\"\nrules: []\n", "`domain` is empty", "`domain: shop`");
    assert_error(
        "domain: §[a]\nrules: []\n",
        "`domain` is a list here",
        "write text, such as `domain: shop`",
    );
    assert_error("domain: shop\n§rule: []\n", "unknown field `rule` in a file", "did you mean `rules`?");
    assert_error("domain: shop\nrules: §{ name: api }\n", "`rules` is a map here", "write a list");
    assert_error(
        "domain: shop\nrules:\n  - §api\n",
        "a rule is text here",
        "write a map, such as `{ name: api }`",
    );
    assert_error("§- domain: shop\n", "a rule file is a list here", "`{ domain: shop }`");
    for nothing in ["", "\n\n", "# shop\n", "---\n"] {
        let empty = errors(nothing);
        assert_eq!((empty.len(), empty[0].line()), (1, 1), "{nothing}: {}", empty[0]);
        assert!(empty[0].advice().contains("domain: shop"), "{}", empty[0]);
    }
    assert_warning("§domain: shop\n", "the file has no rules", "add `rules`, or `descriptors`");
}

#[test]
fn advice_is_in_the_language_of_the_file() {
    let advice = |name: &str, text: &str| {
        let read = read_files(&[(name, text)], ReadOptions::default()).expect_err("an error");
        read.diagnostics()[0].advice().to_owned()
    };
    assert_eq!(advice("a.toml", "# nothing"), "write at least `domain = \"shop\"`");
    assert_eq!(advice("a.JSON", ""), "write at least `{ \"domain\": \"shop\" }`");
    let rules = advice("a.toml", "domain = \"a\"\n[rules]\nname = \"b\"");
    assert_eq!(rules, "write a list: each rule begins with `[[rules]]`");
    assert_eq!(advice("a.json", "{\"domain\": \"a\", \"rules\": {}}"), "write a list: `[{ \"name\": … }]`");
    let descriptors = advice("a.toml", "domain = \"a\"\n[descriptors]\nkey = \"b\"");
    assert_eq!(descriptors, "write a list: each descriptor begins with `[[descriptors]]`");
}

#[test]
fn unknown_fields() {
    in_rule("§limti: 5/s\nlimit: 5/s", "unknown field `limti` in a rule", "did you mean `limit`?");
    in_rule(
        "§on-store-error: deny\nlimit: 5/s",
        "unknown field `on-store-error` in a rule",
        "`on_store_error`",
    );
    in_rule("limit: 5/s\n§block_for: 5m", "unknown field `block_for` in a rule", "it is a field of a limit");
    in_rule("limit: 5/s\n§unit: 5m", "unknown field `unit` in a rule", "it is a field of a rate limit");
    in_rule("limit: 5/s\n§zzzzz: 5m", "unknown field `zzzzz` in a rule", "`name`, `when`, `per`, `missing`");
    in_rule("limit: { rate: 5/s, §brust: 9 }", "unknown field `brust` in a limit", "did you mean `burst`?");
    in_rule("limit: 5/s\n§\"\": 5m", "a field of a rule has an empty name", "its fields are");
    in_rule("limit: 5/s\nwhen: { path: { §prefx: /a } }", "unknown field `prefx` in a condition", "`prefix`");
}

#[test]
fn names() {
    assert_error("domain: a\nrules:\n  - §limit: 5/s\n", "a rule without `name`", "`name: api`");
    let named = |name: &str| format!("domain: a\nrules:\n  - {{ name: §{name}, limit: 5/s }}\n");
    assert_error(&named("\"\""), "`name` is empty", "such as `name: api`");
    assert_error(
        &named("a/b"),
        "`name` has a `/`, which separates the parts of a limit's name",
        "write `a-b`",
    );
    assert_error(&named("\"a\\tb\""), "`name` has control characters", "printable");
    assert_error(&named(&"n".repeat(65)), "`name` has 65 bytes", "use at most 64");
    assert_error(&named("[a]"), "`name` is a list here", "write text, such as `name: api`");
    domain(&named(&"n".repeat(64)).replace('§', ""));
    let twice = "domain: a\nrules:\n  - { name: api, limit: 5/s }\n  - { name: §api, limit: 9/s }\n";
    assert_error(twice, "the rule `api` exists already (line 3)", "a name of its own");
}

#[test]
fn types() {
    in_rule(
        "limit: 5/s\nshadow: §1",
        "`shadow` is a number here",
        "`true` or `false`, such as `shadow: true`",
    );
    in_rule("limit: 5/s\nshadow: §\"true\"", "`shadow` is text here", "`shadow: true`");
    in_rule("limit: 5/s\npriority: §high", "`priority` is text here", "a whole number from -2147483648");
    in_rule("limit: 5/s\npriority: §1.5", "`priority` is `1.5`", "use a whole number from");
    in_rule("limit: 5/s\npriority: §3000000000", "`priority` is `3000000000`", "to 2147483647");
    in_rule("limit: 5/s\n§shadow:", "`shadow` has no value", "`shadow: true`, or remove it");
    in_rule("limit: 5/s\nwhen: §/api", "`when` is text here", "`{ path: /api/** }`");
    in_rule("concurrent: §0", "`concurrent` is `0`", "use a whole number from 1 to 100000");
    in_rule("concurrent: §010", "`concurrent` is `010`", "write `10`, or `8` if it is octal");
    in_rule("concurrent: §089", "`concurrent` is `089`", "write `89`");
    in_rule("concurrent: §three", "`concurrent` is text here", "`concurrent: 3`");
    in_rule(
        "limit: 5/s\non_store_error: §[deny]",
        "`on_store_error` is a list here",
        "`on_store_error: deny`",
    );
}

#[test]
fn settings_that_contradict_each_other() {
    let advice = "write either `plan`, or `limit` and `concurrent`";
    in_rule("limit: 5/s\n§plan: { by: plan, free: 5/s }", "`plan` contradicts `limit` (line 4)", advice);
    in_rule(
        "plan: { by: plan, free: 5/s }\n§concurrent: 5",
        "`concurrent` contradicts `plan` (line 4)",
        advice,
    );
    in_rule("limit: unlimited\n§concurrent: 5", "`concurrent` contradicts `limit` (line 4)", "not counted");
    in_rule("limit: unlimited\n§cost: 5", "`cost` contradicts `limit` (line 4)", "not counted");
    in_rule("limit: 5/s\n§lease: 60s", "`lease` without `concurrent`", "add `concurrent: 3`");
    in_rule("limit: 5/s\n§missing: deny", "`missing` without `per`", "add `per: [user]`");
    for line in ["§per: user", "§on_store_error: deny", "§shadow: true"] {
        let name = line.split(':').next().unwrap_or_default().trim_start_matches('§');
        assert_warning(
            &rule(&format!("limit: unlimited\n{line}")),
            &format!("`{name}` has no effect with `limit: unlimited`"),
            "remove it",
        );
    }
    let message = "a rule without `limit`, `concurrent` or `plan`";
    assert_error("domain: a\nrules:\n  - §name: api\n", message, "such as `limit: 50/s`");
}

#[test]
fn of_per_and_missing() {
    in_rule("limit: 5/s\nper: §[]", "`per` is an empty list", "name an attribute, such as `per: [user]`");
    in_rule("limit: 5/s\nper: [user, §user]", "`per` names `user` twice", "remove one");
    in_rule("limit: 5/s\nper: §{ a: b }", "`per` is a map here", "a list of them, such as `per: [user]`");
    in_rule("limit: 5/s\nper: [§[user]]", "an item of `per` is a list here", "write the names of attributes");
    let many: Vec<_> = (0..17).map(|index| format!("a{index}")).collect();
    let many = format!("limit: 5/s\nper: §[{}]", many.join(", "));
    in_rule(&many, "`per` names 17 attributes", "use at most 16");
    let missing = |value: &str| format!("limit: 5/s\nper: user\nmissing: {value}");
    in_rule(&missing("§dney"), "`missing` is `dney`", "did you mean `deny`?");
    in_rule(&missing("§[]"), "`missing` is a list here", "`skip`, `deny` or a map (a shared counter)");
    in_rule(&missing("{ §share: a }"), "unknown field `share` in a shared counter", "did you mean `shared`?");
    in_rule(&missing("{ shared: §\"\" }"), "`shared` is empty", "`shared: anonymous`");
    in_rule(
        "limit: 5/s\nper: §user, ip",
        "`user, ip` is not the name of an attribute",
        "in a list: `[user, ip]`",
    );
    for per in ["", "per: user\n"] {
        in_rule(
            &format!("{per}§missing: {{ shared: nobody }}\nplan: {{ by: plan, free: 5/s, pro: 9/s }}"),
            "`missing` has a shared counter, but `plan` no default whose limit counts there",
            "add `default: free` to `plan`, or write `missing: skip` or `missing: deny`",
        );
    }
    domain(&rule("per: user\nmissing: { shared: nobody }\nplan: { by: plan, default: free, free: 5/s }"));
}

#[test]
fn all_errors_of_a_file_at_once() {
    let text = "\
domain: a
ruls: 5
identifiers: { ip: 5 }
rules:
  - name: a/b
    when: { ip: x }
    per: [jwt.sub]
    limit: { rate: 5/s, burst: 0, algorithm: fixed_window }
    shadow: maybe
  - limit: 5/s
descriptors:
  - key: \"\"
";
    let lines: Vec<_> = errors(text).iter().map(Diagnostic::line).collect();
    assert_eq!(lines, [2, 3, 5, 6, 7, 8, 8, 9, 10, 12]);
}

#[test]
fn errors_and_rules_are_bounded() {
    let broken = |count: usize| {
        let rules: Vec<_> =
            (0..count).map(|index| format!("  - {{ name: r{index}, limit: 5/s, x: 1 }}")).collect();
        errors(&format!("domain: a\nrules:\n{}\n", rules.join("\n")))
    };
    let found = broken(2_000);
    assert_eq!(found.len(), 1_000);
    assert_eq!(found[999].message(), "more than 1000 errors");
    let keys = |count: usize| {
        let keys: Vec<_> = (0..count).map(|index| format!("  - {{key: k{index}}}")).collect();
        format!("domain: a\ndescriptors:\n{}\n", keys.join("\n"))
    };
    let most = super::super::reader::MAX_RULES;
    let found = errors(&keys(most + 5));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].message(), found[0].line()), ("more than 200000 rules and descriptors", most + 3));
}
