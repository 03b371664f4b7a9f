//! YAML files.

use std::fmt::Write;

use crate::syntax::tests::{parsed, places, problems, tree};

const DESIGN: &str = r"domain: shop
rules:
  - name: api
    when: { path: /api/**, method: [GET, POST] }    # all must match
    per: [user]
    limit: [50/s burst 100, 10000/day]
  - name: login
    limit: { rate: 5/min, algorithm: sliding_window, block_for: 15m }
  - name: tiers
    plan: { by: plan, default: free, free: 50/s, standard: 500/s }
";

#[test]
fn rules_become_a_tree() {
    assert_eq!(
        tree("a.yaml", DESIGN),
        "{domain: \"shop\", rules: [\
         {name: \"api\", when: {path: \"/api/**\", method: [\"GET\", \"POST\"]}, per: [\"user\"], \
         limit: [\"50/s burst 100\", \"10000/day\"]}, \
         {name: \"login\", limit: {rate: \"5/min\", algorithm: \"sliding_window\", block_for: \"15m\"}}, \
         {name: \"tiers\", plan: {by: \"plan\", default: \"free\", free: \"50/s\", standard: \"500/s\"}}]}",
    );
}

#[test]
fn every_value_knows_its_place() {
    let text = "a: {b: 'x', ü: [1, \"y\"]}\nc:\n  - d: |\n      text\n      more\n  - e\nf:\ng: ~\n";
    assert_eq!(
        places("a.yaml", text),
        [
            text.trim_end(),
            "a",
            "{b: 'x', ü: [1, \"y\"]}",
            "b",
            "'x'",
            "ü",
            "[1, \"y\"]",
            "1",
            "\"y\"",
            "c",
            "- d: |\n      text\n      more\n  - e",
            "d: |\n      text\n      more",
            "d",
            "text\n      more",
            "e",
            "f",
            "f",
            "g",
            "~",
        ],
    );
}

#[test]
fn kinds_of_scalars() {
    for (text, kind) in [
        ("5", "5i"),
        ("-5", "-5i"),
        ("+5", "+5i"),
        ("1_000", "1_000i"),
        ("0x1F", "0x1Fi"),
        ("0o17", "0o17i"),
        ("0x", "\"0x\""),
        ("_1", "\"_1\""),
        ("1.5", "1.5f"),
        ("1e3", "1e3f"),
        (".5", ".5f"),
        ("-.inf", "-.inff"),
        (".nan", ".nanf"),
        ("inf", "\"inf\""),
        ("1.2.3.4", "\"1.2.3.4\""),
        ("15m", "\"15m\""),
        ("50/s", "\"50/s\""),
        ("2001:db8::/32", "\"2001:db8::/32\""),
        ("2026-11-19", "\"2026-11-19\""),
        ("-", "[null]"),
        ("true", "true"),
        ("False", "False"),
        ("yes", "\"yes\""),
        ("'5'", "\"5\""),
        ("\"true\"", "\"true\""),
        ("!!str 5", "\"5\""),
        ("! 5", "\"5\""),
        ("!!int '5'", "5i"),
        ("null", "null"),
        ("''", "\"\""),
        ("\"a\\tb\\u00fc\\n\"", "\"a\\tbü\\n\""),
    ] {
        assert_eq!(tree("a.yaml", text), kind, "{text}");
    }
}

#[test]
fn an_empty_document_is_nothing() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "\u{feff}"] {
        assert_eq!(parsed("a.yaml", text), (String::new(), Vec::new()), "{text:?}");
    }
    assert_eq!(tree("a.yaml", "\u{feff}a: 1\n"), "{a: 1i}");
    assert_eq!(tree("a.yaml", "%YAML 1.2\n---\na: 1\n...\n"), "{a: 1i}");
    assert_eq!(tree("a.yaml", "a: 1\r\nb: 2\r\n"), "{a: 1i, b: 2i}");
}

#[test]
fn duplicate_keys_are_all_reported() {
    let text = "limit: 1\nname: a\nlimit: 2\nnested:\n  x: 1\n  \"x\": 2\n  x: 3\nname: b\n";
    let (tree, problems) = parsed("a.yaml", text);
    assert_eq!(tree, "{limit: 1i, name: \"a\", nested: {x: 1i}}");
    assert_eq!(
        problems,
        [
            "3:1 limit: duplicate key `limit`; it is already in line 1: remove one of the two",
            "6:3 \"x\": duplicate key `x`; it is already in line 5: remove one of the two",
            "7:3 x: duplicate key `x`; it is already in line 5: remove one of the two",
            "8:1 name: duplicate key `name`; it is already in line 2: remove one of the two",
        ],
    );
}

#[test]
fn duplicates_are_found_in_large_maps() {
    let mut text = String::new();
    for key in 0..200 {
        writeln!(text, "k{}: 1", key % 150).unwrap();
    }
    let problems = problems("a.yaml", &text);
    assert_eq!(problems.len(), 50);
    assert_eq!(
        problems[49],
        "200:1 k49: duplicate key `k49`; it is already in line 50: remove one of the two"
    );
}

#[test]
fn keys_must_be_text() {
    assert_eq!(
        problems("a.yaml", "5: a\ntrue: b\n~: c\n1.5: d\n? [x]\n: e\n? {y: z}\n: f\n: g\n'5': h\n"),
        [
            "1:1 5: the key `5` is a number, not text; quote it: `\"5\"`",
            "2:1 true: the key `true` is true or false, not text; quote it: `\"true\"`",
            "3:1 ~: the key `~` is null, not text; quote it: `\"~\"`",
            "4:1 1.5: the key `1.5` is a number, not text; quote it: `\"1.5\"`",
            "5:3 [x]: the key is a list, not text; write the key as text, and quote it if it starts with `[` or `{`",
            "7:3 {y: z}: the key is a map, not text; write the key as text, and quote it if it starts with `[` or `{`",
            "9:1 : a key is missing; write a name in front of the `:`",
            "10:1 '5': duplicate key `5`; it is already in line 1: remove one of the two",
        ],
    );
}

#[test]
fn aliases_are_copies() {
    assert_eq!(
        tree("a.yaml", "a: &x [1, 2]\nb: *x\nc: [*x, *x]"),
        "{a: [1i, 2i], b: [1i, 2i], c: [[1i, 2i], [1i, 2i]]}"
    );
    assert_eq!(tree("a.yaml", "a: &unused 1\nb: &x y\n*x : 2"), "{a: 1i, b: \"y\", y: 2i}");
    assert_eq!(tree("a.yaml", "a: &x 1\nb: &x 2\nc: *x"), "{a: 1i, b: 2i, c: 2i}");
    // The place of a copy is that of its original.
    assert_eq!(places("a.yaml", "a: &x [1]\nb: *x")[4..], ["b", "[1]", "1"]);
}

#[test]
fn unknown_aliases_are_all_reported() {
    assert_eq!(
        problems("a.yaml", "a: *x\nb: [*y]\npath: **\n"),
        [
            "1:4 *x: unknown alias `*x`; define it before this line with `&x`, or quote the text",
            "2:5 *y: unknown alias `*y`; define it before this line with `&y`, or quote the text",
            "3:7 **: unknown alias `**`; define it before this line with `&*`, or quote the text",
        ],
    );
    assert_eq!(
        problems("a.yaml", "a: &x [1, *x]"),
        ["1:11 *x: an alias inside of the value that it stands for; write the value in full here"],
    );
}

#[test]
fn merge_keys_fill_in_what_is_missing() {
    let text = "base: &base {unit: second, n: 1}\nother: &other {n: 2, m: 3}\n";
    let merged = |map: &str| {
        let tree = tree("a.yaml", &format!("{text}x: {map}"));
        tree.split_once("x: ").unwrap().1.trim_end_matches('}').to_owned()
    };
    assert_eq!(merged("{<<: *base, n: 5}"), "{n: 5i, unit: \"second\"");
    assert_eq!(merged("{n: 5, <<: *base}"), "{n: 5i, unit: \"second\"");
    assert_eq!(merged("{<<: [*other, *base]}"), "{n: 2i, m: 3i, unit: \"second\"");
    assert_eq!(merged("{<<: {k: 1}}"), "{k: 1i");
    assert_eq!(merged("{'<<': 1}"), "{<<: 1i");
    assert_eq!(
        problems("a.yaml", "a: {<<: 5}\nb:\n  <<:\nc: {<<: [{x: 1}, y]}\nd: {<<: {x: 1}, <<: {y: 1}}"),
        [
            "1:9 5: `<<` merges maps, and this is none; write an alias of a map: `<<: *defaults`",
            "3:3 <<: `<<` merges maps, and this is none; write an alias of a map: `<<: *defaults`",
            "4:18 y: `<<` merges maps, and this is none; write an alias of a map: `<<: *defaults`",
            "5:17 <<: duplicate key `<<`; the other merges what is in line 5: write one `<<: [*first, *second]`",
        ],
    );
}

#[test]
fn aliases_that_explode_are_refused() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, last) in ('b'..='z').zip('a'..) {
        let aliases = format!("*{last}, ").repeat(10);
        writeln!(text, "{name}: &{name} [{aliases}]").unwrap();
    }
    let advice = "more than 2000000 values, with aliases expanded; \
                  split the rules into several files, and repeat less by aliases";
    let problems = problems("a.yaml", &text);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("7:") && problems[0].ends_with(advice), "{problems:?}");
}

#[test]
fn anchors_that_hold_too_much_are_refused() {
    let mut text = String::new();
    for level in 0..50 {
        write!(text, "&a{level} [").unwrap();
    }
    text.push_str(&"x, ".repeat(200_000));
    text.push_str(&"]".repeat(50));
    let problems = problems("a.yaml", &text);
    assert_eq!(problems.len(), 1);
    let end =
        "more than 2000000 values have anchors; give anchors to small values, not to the values around them";
    assert!(problems[0].ends_with(end));
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(problems("a.yaml", &nested(64)), [""; 0]);
    let message = "lists and maps are nested deeper than 64 levels; \
                   write this part with fewer levels; an unclosed `[` or `{` also looks like this";
    for text in
        [nested(65), nested(1_000_000), "[".repeat(1_000_000), "{a: ".repeat(1_000), "- ".repeat(100_000)]
    {
        let problems = problems("a.yaml", &text);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("1:") && problems[0].ends_with(message), "{problems:?}");
    }
    // Through aliases.
    let text = format!("a: &a {}\nb: {}*a{}\n", nested(40), "[".repeat(30), "]".repeat(30));
    let problems = problems("a.yaml", &text);
    assert!(problems[0].starts_with("2:34 *a: ") && problems[0].ends_with(message), "{problems:?}");
}

#[test]
fn a_second_document_is_refused() {
    let advice = "a second document starts here; \
                  one file holds one document: remove the line with `---`, or make it a file of its own";
    assert_eq!(
        parsed("a.yaml", "---\na: 1\na: 2\n---\nb: 1\n"),
        (
            "{a: 1i}".to_owned(),
            vec![
                "3:1 a: duplicate key `a`; it is already in line 2: remove one of the two".to_owned(),
                format!("4:1 ---: {advice}"),
            ],
        ),
    );
}

#[test]
fn unknown_tags_are_reported() {
    assert_eq!(
        problems("a.yaml", "a: !secret x\nb: !!binary x\n"),
        [
            "1:12 x: unknown tag `!secret`; remove `!secret`: rule files have no such tags",
            "2:13 x: unknown tag `!!binary`; remove `!!binary`: rule files have no such tags",
        ],
    );
}

#[test]
fn syntax_errors_say_what_was_expected() {
    const INDENT: &str =
        "give all entries of a map, and all items of a list, the same number of blanks in front";
    const OPEN: &str = "close every `[` with `]` and every `{` with `}`";
    const COLON: &str = "check the indentation and the brackets above, and quote text that contains `: `";
    const SPECIAL: &str = "put text with special characters between quotes";
    const ESCAPE: &str = "write `\\\\` for a backslash, or use single quotes, which have no escapes";
    const CONTROL: &str = "remove it, or write it as an escape between double quotes, such as `\"\\0\"`";
    for (text, problem, advice) in [
        (
            "a:\n\tb: 1\n",
            "2:1 \t: a tab is used as indentation",
            "indent with blanks: YAML does not allow tabs there",
        ),
        (
            "a:\n- x\n\t- y: 1\n",
            "3:1 \t: a tab is used as indentation",
            "indent with blanks: YAML does not allow tabs there",
        ),
        ("a: [1, 2\nb: 3\n", "2:2 :: `:` is not expected here", COLON),
        ("a: [1, 2", "1:4 [: a `[` is not closed", OPEN),
        ("a: {b: 1", "1:4 {: a `{` is not closed", OPEN),
        ("a: [1}", "1:4 [: the bracket does not fit the one that it closes", OPEN),
        ("a: ]", "1:4 ]: this bracket closes nothing", OPEN),
        ("a: 1\n  b: 2\n", "2:4 :: `:` is not expected here", COLON),
        ("a:\n    b: 1\n  c: 2\n", "3:3 c: expected another `key: value` of the map above", INDENT),
        ("a:\n  - 1\n  b: 2\n", "3:3 b: expected another item of the list above, starting with `- `", INDENT),
        ("a: b: c\n", "1:5 :: `:` is not expected here", COLON),
        (
            "a: \"x\n",
            "1:4 \": a quote is not closed",
            "end the text with the quote that it starts with, or indent its further lines",
        ),
        ("a: \"x\\q\"\n", "1:4 \": unknown escape after `\\`", ESCAPE),
        ("a: \"\\ud800\"\n", "1:4 \": unknown escape after `\\`", ESCAPE),
        (
            "a: 'it's'\n",
            "1:8 s: text after a closing quote",
            "put all of the text between the quotes; a `'` between single quotes is written `''`",
        ),
        ("a: @x\n", "1:4 @: text must not start with this character", SPECIAL),
        ("a: `x`\n", "1:4 `: text must not start with this character", SPECIAL),
        ("a: %x\n", "1:4 %: text must not start with this character", SPECIAL),
        ("a: \u{1}\n", "1:4 \u{1}: a control character", CONTROL),
        ("a: b\0c\n", "1:5 \0: a control character", CONTROL),
        ("a:b\nc: 1\n", "1:1 a:b: a blank is missing after `:`", "write `a: b`"),
        ("a:\n  - b:c\n    d: 1\n", "2:5 b:c: a blank is missing after `:`", "write `b: c`"),
        (
            "a:\n  - b: 'x\n    c: 1\n",
            "2:8 ': a quote is not closed",
            "end the text with the quote that it starts with, or indent its further lines",
        ),
        ("a: & b\n", "1:4 &: expected a name after `&` or `*`", "quote text that starts with `&` or `*`"),
        ("a: - b\n", "1:4 -: a list item is not expected here", "start the list in a line of its own"),
        ("a\nb: 1\n", "2:2 :: `:` is not expected here", COLON),
        ("a: 1\nb\n", "2:1 b: expected `:` after the key", "write `key: value`, with the key in one line"),
        (
            "a: {b: 1 c: 2}\n",
            "1:11 :: expected `,` or `}`",
            "separate the entries between `{` and `}` by `,`",
        ),
        (
            "a: |x\n",
            "1:4 |: expected a line break after `|` or `>`",
            "start the text in the next line, or quote it",
        ),
        ("a: !x!y z\n", "1:4 !: unknown tag", "quote text that starts with `!`"),
        ("%YAML 3.0\n---\na: 1", "1:1 %: unsupported YAML major version", "see the syntax of YAML 1.2"),
    ] {
        assert_eq!(parsed("a.yaml", text), (String::new(), vec![format!("{problem}; {advice}")]), "{text:?}");
    }
}
