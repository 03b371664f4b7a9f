//! Claims of a token, as JSON, as attributes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Attributes;

/// The members of a JSON object, such as the claims of a token: `sub`, or `org.id` for a member of a member. A member
/// whose name has dots is found by that name first. Texts, numbers and booleans are values; lists, objects and `null`
/// are not.
impl Attributes for Map<String, Value> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut members = self;
        let mut rest = name;
        loop {
            if let Some(found) = members.get(rest).and_then(text) {
                return Some(found);
            }
            let (outer, inner) = rest.split_once('.')?;
            members = members.get(outer)?.as_object()?;
            rest = inner;
        }
    }
}

/// A JSON object, as [`Map`].
impl Attributes for Value {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        Attributes::get(self.as_object()?, name)
    }
}

fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(true) => Some(Cow::Borrowed("true")),
        Value::Bool(false) => Some(Cow::Borrowed("false")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
