//! JSON files.

use crate::syntax::tests::{parsed, places, problems, tree};

#[test]
fn rules_become_a_tree() {
    let text = r#"{"domain": "shop", "rules": [{"name": "api", "limit": ["50/s", 5], "shadow": false, "x": null, "y": {}, "z": []}]}"#;
    assert_eq!(
        tree("a.json", text),
        "{domain: \"shop\", rules: \
         [{name: \"api\", limit: [\"50/s\", 5i], shadow: false, x: null, y: {}, z: []}]}",
    );
    assert_eq!(tree("a.json", "\u{feff} [ 1 , { \"a\" : \"b\" } ]\r\n\t"), "[1i, {a: \"b\"}]");
    assert_eq!(parsed("a.json", " \n"), (String::new(), Vec::new()));
}

#[test]
fn every_value_knows_its_place() {
    let text = "{\"ü\": [1, \"y\\n\"],\n \"b\": {\"c\": null}}";
    assert_eq!(
        places("a.json", text),
        [text, "\"ü\"", "[1, \"y\\n\"]", "1", "\"y\\n\"", "\"b\"", "{\"c\": null}", "\"c\"", "null"],
    );
}

#[test]
fn numbers() {
    for (text, kind) in
        [("0", "0i"), ("-0", "-0i"), ("10", "10i"), ("-1.5", "-1.5f"), ("1e9", "1e9f"), ("1.0E-9", "1.0E-9f")]
    {
        assert_eq!(tree("a.json", text), kind);
    }
    for text in ["01", "+1", ".5", "1.", "1e", "1e+", "--1", "0x1", "1_000", "Infinity", "-", "1.5.5"] {
        assert_eq!(problems("a.json", text).len(), 1, "{text}");
    }
}

#[test]
fn escapes() {
    const HALF: &str =
        "half of a surrogate pair; write the character itself, or a pair such as `\\ud83d\\ude00`";
    const DIGITS: &str =
        "expected four hexadecimal digits after `\\u`; write `\\u00fc`, or the character itself";
    const UNKNOWN: &str = "unknown escape after `\\`; write `\\\\` for a backslash; \
                           others are `\\\"`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t`, `\\u0000`";
    assert_eq!(
        tree("a.json", r#""\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00ü""#),
        format!("{:?}", "\"\\/\u{8}\u{c}\n\r\tü😀ü"),
    );
    for (text, problem) in [
        (r#"["\ud83d"]"#, format!("1:3 \\ud83d: {HALF}")),
        (r#"["\ude00"]"#, format!("1:3 \\ude00: {HALF}")),
        (r#"["\ud83d\u0041"]"#, format!("1:3 \\ud83d\\u0041: {HALF}")),
        (r#"["\ud83d\n"]"#, format!("1:3 \\ud83d: {HALF}")),
        (r#"["\u12"]"#, format!("1:3 \\u: {DIGITS}")),
        (r#"["\u+123"]"#, format!("1:3 \\u: {DIGITS}")),
        (r#"["\uüüü"]"#, format!("1:3 \\u: {DIGITS}")),
        (r#"["\ud83d\u"]"#, format!("1:9 \\u: {DIGITS}")),
        (r#"["\x"]"#, format!("1:3 \\x: {UNKNOWN}")),
        (r#"["\ü"]"#, format!("1:3 \\ü: {UNKNOWN}")),
        (r#"["\"#, format!("1:3 \\: {UNKNOWN}")),
    ] {
        assert_eq!(problems("a.json", text), [problem], "{text}");
    }
}

#[test]
fn duplicate_keys_are_all_reported() {
    assert_eq!(
        parsed("a.json", "{\"a\": 1,\n\"\\u0061\": 2,\n\"b\": {\"c\": 1, \"c\": 2}}"),
        (
            "{a: 1i, b: {c: 1i}}".to_owned(),
            vec![
                "2:1 \"\\u0061\": duplicate key `a`; it is already in line 1: remove one of the two"
                    .to_owned(),
                "3:15 \"c\": duplicate key `c`; it is already in line 3: remove one of the two".to_owned(),
            ],
        ),
    );
}

#[test]
fn syntax_errors_say_what_was_expected() {
    for (text, problem) in [
        ("{a: 1}", "1:2 a: expected a key between double quotes; quote it: `\"a\"`"),
        ("{5: 1}", "1:2 5: expected a key between double quotes; quote it: `\"5\"`"),
        ("{: 1}", "1:2 :: expected a key between double quotes; write a key between double quotes"),
        (
            "{",
            "1:2 : the file ends where a key between double quotes is expected; write a key between double quotes",
        ),
        ("{\"a\" 1}", "1:6 1: expected `:`; write a `:` between the key and its value"),
        ("{\"a\": }", "1:7 }: expected a value; write a value; text stands between double quotes"),
        (
            "{\"a\":",
            "1:6 : the file ends where a value is expected; write a value; text stands between double quotes",
        ),
        ("{\"a\": 1 \"b\": 2}", "1:9 \": expected `,` or `}`; separate items and entries by `,`"),
        ("[1 2]", "1:4 2: expected `,` or `]`; separate items and entries by `,`"),
        ("[1}", "1:3 }: expected `,` or `]`; separate items and entries by `,`"),
        ("{\"a\": [1,\n2", "1:7 [: a `[` is not closed; close every `[` with `]`"),
        ("{\"a\": 1", "1:1 {: a `{` is not closed; close every `{` with `}`"),
        ("[1,]", "1:3 ,: `,` in front of `]`; remove it: JSON has no trailing commas"),
        ("{\"a\": 1,\n}", "1:8 ,: `,` in front of `}`; remove it: JSON has no trailing commas"),
        ("[1] x", "1:5 x: expected the end of the file; one file holds one value: remove what follows it"),
        ("[1] // x\n", "1:5 // x: a comment; remove it: JSON has no comments, YAML and TOML have"),
        ("# x\n[]", "1:1 # x: a comment; remove it: JSON has no comments, YAML and TOML have"),
        (
            "[50/s]",
            "1:2 50/s: `50/s` is not a value; write numbers such as `50` or `1.5`, and quote other text: `\"50/s\"`",
        ),
        ("[True]", "1:2 True: `True` is not a value; quote it: `\"True\"`"),
        ("['a']", "1:2 'a': `'a'` is not a value; quote it: `\"'a'\"`"),
        (
            "[\"a\n\"]",
            "1:2 \"a: a quote is not closed; end the text with `\"`, and write line breaks as `\\n`",
        ),
        ("[\"a", "1:2 \"a: a quote is not closed; end the text with `\"`, and write line breaks as `\\n`"),
        ("[\"a\tb\"]", "1:4 \t: expected no control character in text; write it as an escape, such as `\\t`"),
    ] {
        assert_eq!(parsed("a.json", text), (String::new(), vec![problem.to_owned()]), "{text:?}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(problems("a.json", &nested(64)), [""; 0]);
    let message = "lists and maps are nested deeper than 64 levels; \
                   write this part with fewer levels; an unclosed `[` or `{` also looks like this";
    assert_eq!(problems("a.json", &nested(65)), [format!("1:65 [: {message}")]);
    assert_eq!(problems("a.json", &"[".repeat(1_000_000)), [format!("1:65 [: {message}")]);
    assert_eq!(problems("a.json", &"{\"a\":".repeat(1_000_000)), [format!("1:321 {{: {message}")]);
}

#[test]
fn too_many_values_are_refused() {
    let text = format!("[{}1]", "1,".repeat(2_000_000));
    let problems = problems("a.json", &text);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("1:4000000 1: more than 2000000 values"), "{problems:?}");
}
