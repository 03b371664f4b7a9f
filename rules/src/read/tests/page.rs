//! The documented page of the language and the JSON Schema: both say what the reader does.
//!
//! With `TOLLGATE_REWRITE` set, the tables of fields, the errors in the page and the schema are written anew.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::*;
use crate::json_schema;
use crate::read::fields::{FILE, Place, Presence, Shape};
use crate::read::metadata::json;
use crate::syntax;
use crate::syntax::tree::{Node, Value};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

fn file(name: &str) -> String {
    std::fs::read_to_string(path(name)).expect("a file of the repository")
}

/// Asserts that a file is up to date, or rewrites it.
fn assert_current(name: &str, expected: &str) {
    if std::env::var_os("TOLLGATE_REWRITE").is_some() {
        std::fs::write(path(name), expected).expect("a file that can be written");
    }
    assert!(file(name) == expected, "docs/{name} is not up to date: run this test with TOLLGATE_REWRITE=1");
}

/// A fenced block: its language with what follows it, and its text.
struct Block {
    info: String,
    text: String,
    /// Where the text is.
    range: std::ops::Range<usize>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize)> = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(info) = line.strip_prefix("```") else { continue };
        open = match open {
            None => Some((info.trim().to_owned(), at)),
            Some((info, from)) => {
                blocks.push(Block { info, text: page[from..start].to_owned(), range: from..start });
                None
            }
        };
    }
    assert!(open.is_none(), "every block is closed");
    blocks
}

/// Returns the examples of the page that are right: the name of a file, and its text.
fn examples(page: &str) -> Vec<(String, String)> {
    let formats = ["yaml", "toml", "json"];
    let blocks = blocks(page).into_iter().filter(|block| formats.contains(&&*block.info));
    blocks.enumerate().map(|(index, block)| (format!("example-{index}.{}", block.info), block.text)).collect()
}

fn tree(name: &str, text: &str) -> Node {
    let source = Source::new(name, text);
    let mut reporter = Reporter::new([source.clone()].into());
    syntax::parse(0, &source, &mut reporter).expect("an example that can be parsed")
}

/// Notes which fields a value uses, in which kind of map.
fn note<'n>(shape: &'static Shape, node: &'n Node, used: &mut HashSet<(&'static str, &'n str)>) {
    match (shape, &node.value) {
        (Shape::Map(place), Value::Map(entries)) => {
            for entry in entries {
                used.insert((place.name, &entry.key.value));
                if let Some(field) = place.field(&entry.key.value) {
                    note(&field.shape, &entry.value, used);
                } else if let Some(others) = &place.others {
                    used.insert((place.name, "…"));
                    note(&others.shape, &entry.value, used);
                }
            }
        }
        (Shape::List(item), Value::List(items)) => items.iter().for_each(|node| note(item, node, used)),
        (Shape::Any(shapes), _) => shapes.iter().for_each(|shape| note(shape, node, used)),
        _ => {}
    }
}

static WHOLE: Shape = Shape::Map(&FILE);

#[test]
fn every_example_of_the_page_loads() {
    let examples = examples(&file("rules.md"));
    assert!(examples.len() > 10, "{} examples", examples.len());
    for (name, text) in &examples {
        match read_files(&[(name, text)], ReadOptions::default()) {
            Ok((_, warnings)) => assert!(warnings.is_empty(), "{}\n{text}", warnings[0]),
            Err(errors) => panic!("{errors}\n{text}"),
        }
    }
}

#[test]
fn every_field_has_an_example() {
    let examples = examples(&file("rules.md"));
    let trees: Vec<_> = examples.iter().map(|(name, text)| tree(name, text)).collect();
    let mut used = HashSet::new();
    for tree in &trees {
        note(&WHOLE, tree, &mut used);
    }
    for place in Place::all() {
        for field in place.fields {
            assert!(
                used.contains(&(place.name, field.name)),
                "no example of `{}` in a {}",
                field.name,
                place.name
            );
        }
        assert!(
            place.others.is_none() || used.contains(&(place.name, "…")),
            "no other key in a {}",
            place.name
        );
    }
}

/// Returns the rows of a kind of map.
fn table(place: &Place) -> String {
    let mut table = "| field | what it holds | default | meaning |\n|---|---|---|---|\n".to_owned();
    for field in place.fields {
        let default = match field.presence {
            Presence::Required => "required",
            Presence::Default(default) => default,
        };
        let _ = writeln!(table, "| `{}` | {} | {default} | {} |", field.name, field.shape, field.doc);
    }
    if let Some(others) = &place.others {
        let _ = writeln!(table, "| any other | {} | | {} |", others.shape, others.doc);
    }
    table
}

#[test]
fn the_tables_of_the_page_are_those_of_the_reader() {
    let page = file("rules.md");
    let mut expected = String::new();
    let mut rest = &*page;
    let mut named = HashSet::new();
    while let Some((before, after)) = rest.split_once("<!-- fields: ") {
        let (name, after) = after.split_once(" -->\n").expect("the name of a kind of map");
        let (_, after) = after.split_once("<!-- end -->").expect("the end of the table");
        let place = Place::all().into_iter().find(|place| place.name == name).expect("a kind of map");
        named.insert(place.name);
        let _ = write!(expected, "{before}<!-- fields: {name} -->\n{}<!-- end -->", table(place));
        rest = after;
    }
    expected.push_str(rest);
    for place in Place::all() {
        assert!(named.contains(place.name), "there is no table of `{}`", place.name);
    }
    assert_current("rules.md", &expected);
}

#[test]
fn the_errors_of_the_page_are_those_of_the_reader() {
    let page = file("rules.md");
    let blocks = blocks(&page);
    let mut expected = page.clone();
    // From the last to the first, so that ranges remain right.
    let mut errors = 0;
    for pair in blocks.windows(2).rev() {
        let [wrong, shown] = pair else { continue };
        if wrong.info != "yaml wrong" {
            continue;
        }
        let found =
            read_files(&[("shop.yaml", &wrong.text)], ReadOptions::default()).expect_err("a wrong file");
        assert_eq!(shown.info, "text", "what is wrong follows");
        expected.replace_range(shown.range.clone(), &format!("{found}\n"));
        errors += 1;
    }
    assert!(errors > 0);
    assert_current("rules.md", &expected);
}

#[test]
fn the_schema_is_current() {
    let mut text = serde_json::to_string_pretty(&json_schema()).expect("a schema");
    text.push('\n');
    assert_current("rules.schema.json", &text);
}

#[test]
fn the_schema_accepts_every_example() {
    let schema = json_schema();
    let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let mut files = examples(&file("rules.md"));
    files.push(("design.yaml".to_owned(), super::design::YAML.to_owned()));
    files.push((
        "edge.yaml".to_owned(),
        super::descriptors::EDGE.replace("yes", "true").replace("on\n", "true\n"),
    ));
    for (name, text) in &files {
        let value = json(&tree(name, text));
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}\n{text}");
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::draft202012::new(&json_schema()).expect("a valid schema");
    for lines in [
        "limti: 5/s",
        "limit: 5",
        "limit: fast",
        "limit: { rate: 5/s, burst: 0 }",
        "limit: { rate: 5/s, algorithm: buckets }",
        "concurrent: many",
        "limit: 5/s\nshadow: maybe",
        "limit: 5/s\nper: []\nmissing: drop",
        "limit: 5/s\non_store_error: panic",
        "plan: { free: 5/s }",
    ] {
        let text = rule(lines);
        assert!(!errors(&text).is_empty(), "{lines}");
        assert!(!validator.is_valid(&json(&tree("rules.yaml", &text))), "{lines}");
    }
}

/// A field of the table that nobody reads would be silently ignored.
#[test]
fn every_field_of_the_table_is_read() {
    // Around each kind of map: a file that is right, with `§` for an entry of the map.
    let around = |name: &str| match name {
        "file" => "§\n".to_owned(),
        "rule" => "domain: a\nrules: [{ § }]\n".to_owned(),
        "when" => rule("limit: 5/s\nwhen: { § }"),
        "condition" => rule("limit: 5/s\nwhen: { path: { § } }"),
        "pattern" => rule("limit: 5/s\nwhen: { path: { not: { § } } }"),
        "shared_counter" => rule("limit: 5/s\nper: user\nmissing: { § }"),
        "cost" => rule("limit: 5/s\ncost: { § }"),
        "limit" => rule("limit: { § }"),
        "plan" => rule("plan: { free: 5/s, § }"),
        "identifiers" => "domain: a\nrules: []\nidentifiers: { § }\n".to_owned(),
        "client_ip" => "domain: a\nrules: []\nidentifiers: { ip: { § } }\n".to_owned(),
        "identifier" => "domain: a\nrules: []\nidentifiers: { user: { § } }\n".to_owned(),
        "descriptor" => "domain: a\ndescriptors: [{ § }]\n".to_owned(),
        "rate_limit" => "domain: a\ndescriptors: [{ key: a, rate_limit: { § } }]\n".to_owned(),
        "replaced_limit" => {
            "domain: a\ndescriptors: [{ key: a, rate_limit: { unit: day, replaces: [{ § }] } }]\n".to_owned()
        }
        other => panic!("a new kind of map: {other}"),
    };
    for place in Place::all() {
        for field in place.fields {
            let text = around(place.name).replace('§', &format!("{}: [[[]]]", field.name));
            let at = text.find("[[[]]]").expect("the value");
            let found = errors(&text);
            let spans = found.iter().map(|error| (error.span.start as usize, error.span.end as usize));
            let is_reported = spans.into_iter().any(|(start, end)| start >= at && end <= at + 6);
            let all: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert!(is_reported, "`{}` of a {} is not read:\n{}", field.name, place.name, all.join("\n"));
        }
    }
}
