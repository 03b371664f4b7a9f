//! TOML files.

use crate::syntax::tests::{parsed, places, problems, tree};

#[test]
fn rules_become_a_tree() {
    let text = "domain = \"shop\"\n\n[[rules]]\nname = 'api'\nwhen = { path = \"/api/**\", method = [\"GET\"] }\n\
                limit = [\"50/s burst 100\", 5]\nshadow = true\n\n[[rules]]\nname = \"b\"\n[rules.plan]\nby = \"plan\"\nx.y = 1.5\n";
    assert_eq!(
        tree("a.toml", text),
        "{domain: \"shop\", rules: [\
         {name: \"api\", when: {path: \"/api/**\", method: [\"GET\"]}, limit: [\"50/s burst 100\", 5i], shadow: true}, \
         {name: \"b\", plan: {by: \"plan\", x: {y: 1.5f}}}]}",
    );
    assert_eq!(tree("a.toml", "\u{feff}z = 1\r\na = 2\r\n"), "{z: 1i, a: 2i}");
    assert_eq!(
        tree("a.toml", "a = 1_000\nb = 0x1F\nc = -1e3\nd = 2026-11-19\n\"5\" = ''"),
        "{a: 1_000i, b: 0x1Fi, c: -1e3f, d: \"2026-11-19\", 5: \"\"}"
    );
    assert_eq!(parsed("a.toml", "# comment\n"), (String::new(), Vec::new()));
}

#[test]
fn every_value_knows_its_place() {
    let text = "ü = [1, \"y\\n\"]\n";
    assert!(problems("a.toml", text)[0].starts_with("1:1 ü: expected a key; "));
    let text = "\"ü\" = [1, \"y\\n\"]\nb = {c = '''x\ny'''}\n[t]\nd = true\n";
    assert_eq!(
        places("a.toml", text),
        [
            text,
            "\"ü\"",
            "[1, \"y\\n\"]",
            "1",
            "\"y\\n\"",
            "b",
            "{c = '''x\ny'''}",
            "c",
            "'''x\ny'''",
            "t",
            "[t]",
            "d",
            "true"
        ],
    );
}

#[test]
fn duplicate_keys_are_all_reported() {
    for (text, expected) in [
        ("a = 1\na = 2\na = 3\n", vec!["2:1 a 1", "3:1 a 1"]),
        ("[t]\nx = 1\n[u]\nx = 1\n[t]\ny = 2\n", vec!["5:2 t 1"]),
        ("[t]\nx = 1\n[u]\nx = 1\nt = 1\n\nx = 2\n[t]", vec!["7:1 x 4", "8:2 t 1"]),
        ("[t]\nx = 1\ny = {x = 2}\nx = 3\n", vec!["4:1 x 2"]),
        ("y = {x = 2,\nx = 3}\n", vec!["2:1 x 1"]),
        ("\"a b\" = 1\n\"a b\" = 2\n", vec!["2:1 \"a b\" 1"]),
        ("a.b = 1\na = 2\n", vec!["2:1 a 1"]),
    ] {
        let expected: Vec<String> = expected
            .iter()
            .map(|problem| {
                let (place, line) = problem.rsplit_once(' ').unwrap();
                let key = place.split_once(' ').unwrap().1;
                format!("{place}: duplicate key `{key}`; it is already in line {line}: remove one of the two")
            })
            .collect();
        assert_eq!(parsed("a.toml", text), (String::new(), expected), "{text}");
    }
}

#[test]
fn syntax_errors_say_what_was_expected() {
    const OPEN: &str = "close every `[` with `]` and every `{` with `}`";
    const TEXT: &str = "a quote is not closed, or the text has a character that must be escaped; \
                        end the text with the quote that it starts with, and write control characters as escapes";
    for (text, expected) in [
        ("limit = 50/s\nx = 5m", vec!["1:9 50/s: text without quotes; quote it: `\"50/s\"`".to_owned(), "2:5 5m: text without quotes; quote it: `\"5m\"`".to_owned()]),
        ("x = tru", vec!["1:5 tru: text without quotes; quote it: `\"tru\"`".to_owned()]),
        ("x =\ny = 1", vec!["1:4 : a value is missing; write `key = value`; text stands between quotes".to_owned()]),
        ("x\ny = 1", vec!["1:2 : a key without a value; write `key = value`".to_owned()]),
        ("x = [1, 2\n", vec![format!("1:10 : unclosed array, expected `]`; {OPEN}")]),
        ("x = {y = 1\n", vec![format!("1:11 : unclosed inline table, expected `}}`; {OPEN}")]),
        ("[x\ny = 1\n", vec![format!("1:3 : unclosed table, expected `]`; {OPEN}")]),
        ("x = [\"a\" \"b\"]\n", vec!["1:10 : missing comma between array elements, expected `,`; separate items by `,`, and close every `[` with `]`".to_owned()]),
        ("x = 'y\n", vec![format!("1:7 : {TEXT}")]),
        ("x = \"\u{1}\"", vec![format!("1:6 \u{1}: {TEXT}")]),
        ("x = \"a\\q\"", vec!["1:8 : unknown escape after `\\`; write `\\\\` for a backslash, or use `'`, which has no escapes".to_owned()]),
        ("= 1", vec!["1:1 : expected a key; write `key = value`, and quote keys with other characters than letters, digits, `-` and `_`".to_owned()]),
    ] {
        assert_eq!(parsed("a.toml", text), (String::new(), expected), "{text:?}");
    }
}

#[test]
fn after_an_error_large_files_are_not_read_on() {
    let errors = |lines: usize| {
        problems("a.toml", &format!("# {}\n{}", "x".repeat(1_000_000), "a = b\n".repeat(lines)))
    };
    assert!(errors(100).len() >= 100);
    assert_eq!(errors(100_000), ["2:5 b: text without quotes; quote it: `\"b\"`"]);
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |levels: usize| format!("a = {}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(problems("a.toml", &nested(63)), [""; 0]);
    let message = "lists and maps are nested deeper than 64 levels; \
                   write this part with fewer levels; an unclosed `[` or `{` also looks like this";
    let dotted = |levels: usize| format!("[{}a]\nb = 1", "a.".repeat(levels));
    for text in [
        nested(64),
        nested(1_000_000),
        format!("a = {}", "[".repeat(1_000_000)),
        format!("a = {}", "{a = ".repeat(1_000_000)),
        dotted(64),
        dotted(1_000_000),
        format!("{}a = 1", "a.".repeat(1_000_000)),
    ] {
        let problems = problems("a.toml", &text);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with(message), "{problems:?}");
    }
}

#[test]
fn too_many_values_are_refused() {
    let problems = problems("a.toml", &format!("a = [{}1]", "1,".repeat(2_000_000)));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains(": more than 2000000 values"), "{problems:?}");
}
