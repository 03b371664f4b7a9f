//! Free maps of a rule file, as JSON.

use serde_json::{Map, Number, Value as Json};

use crate::syntax::tree::{Entry, Node, Scalar, ScalarKind, Value};

/// Converts a map. Its depth is bounded by the syntax.
pub(crate) fn json_map(entries: &[Entry]) -> Map<String, Json> {
    entries.iter().map(|entry| (entry.key.value.to_string(), json(&entry.value))).collect()
}

/// Converts a value.
pub(crate) fn json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) => json_scalar(scalar),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => Json::Object(json_map(entries)),
    }
}

/// Numbers that JSON does not have remain text.
fn json_scalar(scalar: &Scalar) -> Json {
    let text = || Json::String(scalar.text.to_string());
    match scalar.kind {
        ScalarKind::Null => Json::Null,
        ScalarKind::Bool => Json::Bool(scalar.text.eq_ignore_ascii_case("true")),
        ScalarKind::Integer => super::scalar::whole(&scalar.text).map_or_else(text, Json::from),
        ScalarKind::Float => {
            let number = scalar.text.replace('_', "").parse().ok().and_then(Number::from_f64);
            number.map_or_else(text, Json::Number)
        }
        ScalarKind::Text => text(),
    }
}
