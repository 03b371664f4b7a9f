//! The JSON Schema of rule files, so that editors complete and check them.

use serde_json::{Map, Value, json};

use crate::diagnostic::Reporter;
use crate::read::fields::{Field, Others, Place, Presence, Shape};
use crate::read::metadata;
use crate::source::Source;
use crate::syntax;

/// Returns the JSON Schema (draft 2020-12) of rule files in YAML, TOML and JSON.
///
/// It is made from the same table of fields that files are read by. What it cannot express, such as settings that
/// contradict each other, only the reader checks.
pub fn json_schema() -> Value {
    let mut definitions: Map<String, Value> =
        Place::all().into_iter().map(|place| (place.name.to_owned(), definition(place))).collect();
    let mut schema = match definitions.remove("file") {
        Some(Value::Object(file)) => file,
        _ => Map::new(),
    };
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("Tollgate rules"));
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(schema)
}

fn definition(place: &Place) -> Value {
    let mut properties: Map<String, Value> =
        place.fields.iter().map(|field| (field.name.to_owned(), property(place, field))).collect();
    let required = place.fields.iter().filter(|field| field.presence == Presence::Required);
    let required: Vec<_> = required.map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "description": place.doc });
    let additional = match &place.others {
        Some(others) => {
            for name in others.suggested.iter().filter(|name| place.field(name).is_none()) {
                properties.insert((*name).to_owned(), other(others));
            }
            other(others)
        }
        None => json!(false),
    };
    schema["properties"] = Value::Object(properties);
    schema["additionalProperties"] = additional;
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(place: &Place, field: &Field) -> Value {
    let mut schema = shape(&field.shape);
    if place.skips_empty && field.presence != Presence::Required {
        schema = json!({ "anyOf": [schema, { "type": "null" }] });
    }
    let description = match field.presence {
        Presence::Required => field.doc.to_owned(),
        Presence::Default(default) => format!("{} Default: {default}.", field.doc),
    };
    schema["description"] = json!(description);
    if let Some(example) = example(field.example) {
        schema["examples"] = json!([example]);
    }
    schema
}

fn other(others: &Others) -> Value {
    let mut schema = shape(&others.shape);
    schema["description"] = json!(others.doc);
    schema
}

/// Reads an example of the table.
fn example(text: &str) -> Option<Value> {
    let source = Source::new("example", text);
    let mut reporter = Reporter::new([source.clone()].into());
    syntax::parse(0, &source, &mut reporter).map(|node| metadata::json(&node))
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Attribute => json!({ "type": "string", "pattern": "^\\S+$" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Amount => json!({
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 1_000_000_000 }, text(r"^\s*[0-9].*[a-zA-Z]")],
        }),
        Shape::Duration => text(r"^\s*[0-9].*[a-zA-Zµ]"),
        Shape::Rate | Shape::Short => text(r"^\s*[0-9].*[a-zA-Z]"),
        Shape::Network => text(r"^[0-9a-fA-F:.]+(/[0-9]{1,3})?$"),
        Shape::Word { words, any_case: false } => json!({ "enum": words }),
        Shape::Word { words, any_case: true } => {
            json!({ "anyOf": [{ "enum": words }, text(&format!("^({})$", in_any_case(words)))] })
        }
        Shape::StoreError => json!({
            "anyOf": [{ "enum": ["allow", "deny"] }, text("^share "), text("^allow for .*deny *$")],
        }),
        Shape::Map(place) => json!({ "$ref": format!("#/$defs/{}", place.name) }),
        Shape::List(item) => json!({ "type": "array", "items": self::shape(item) }),
        Shape::Any(shapes) => json!({ "anyOf": shapes.iter().map(self::shape).collect::<Vec<_>>() }),
        Shape::Free => json!({ "type": "object" }),
    }
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

/// Returns a pattern of words in any case: patterns of JSON Schema have no flags.
fn in_any_case(words: &[&str]) -> String {
    let word = |word: &&str| -> String {
        let letter = |letter: char| {
            if letter.is_ascii_alphabetic() {
                format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase())
            } else {
                letter.to_string()
            }
        };
        word.chars().map(letter).collect()
    };
    words.iter().map(word).collect::<Vec<_>>().join("|")
}
