//! Names of attributes, and what they are usually confused with.

use std::sync::Arc;

use super::fields::ATTRIBUTES;
use super::reader::{Reader, kind_of};
use super::section::Setting;
use crate::diagnostic::quoted;
use crate::source::{Span, Spanned};
use crate::syntax::tree::{Node, Value};

/// Families of attributes: `header.x-tenant`.
pub(super) const FAMILIES: [&str; 4] = ["header", "cookie", "query", "claim"];

/// Families as other programs call them.
const OTHER_FAMILIES: [(&str, &str); 12] = [
    ("headers", "header"),
    ("http_header", "header"),
    ("cookies", "cookie"),
    ("queries", "query"),
    ("param", "query"),
    ("params", "query"),
    ("query_param", "query"),
    ("query_params", "query"),
    ("args", "query"),
    ("claims", "claim"),
    ("jwt", "claim"),
    ("token", "claim"),
];

/// The most attributes of one key.
const MAX_ATTRIBUTES: usize = 16;

/// Attributes as other programs call them.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("remote_address", "ip"),
    ("remote_addr", "ip"),
    ("client_ip", "ip"),
    ("ip_address", "ip"),
    ("uri", "path"),
    ("url", "path"),
    ("user_id", "user"),
    ("apikey", "api_key"),
    ("api-key", "api_key"),
];

impl Reader<'_> {
    /// Reads the name of an attribute. Names of headers are in lower case, as in HTTP/2.
    pub(super) fn attribute(&mut self, text: &str, span: Span) -> Option<Spanned<Arc<str>>> {
        match attribute(text) {
            Ok(name) => {
                if let Some((_, right)) = OTHER_NAMES.iter().find(|(other, _)| *other == name) {
                    let message =
                        format!("the attribute {} is none that Tollgate finds itself", quoted(&name));
                    self.warning(span, message, format!("did you mean `{right}`?"));
                }
                Some(Spanned { value: name.into(), span })
            }
            Err(advice) => {
                self.error(span, format!("{} is not the name of an attribute", quoted(text)), advice);
                None
            }
        }
    }

    /// Reads one attribute.
    pub(super) fn attribute_of(&mut self, setting: &Setting<'_>) -> Option<Spanned<Arc<str>>> {
        let text = self.text(setting)?;
        self.attribute(text.value, text.span)
    }

    /// Reads one attribute or a list of them, each once.
    pub(super) fn attributes(
        &mut self,
        owner: &str,
        node: &Node,
        example: &str,
    ) -> Option<Vec<Spanned<Arc<str>>>> {
        let single;
        let items = match &node.value {
            Value::List(items) => items,
            Value::Scalar(_) => {
                single = [node.clone()];
                &single[..]
            }
            Value::Map(_) => {
                let advice = format!("write an attribute or a list of them, such as `{example}`");
                self.error(node.span, format!("{owner} is a map here"), advice);
                return None;
            }
        };
        if items.is_empty() {
            let advice = format!("name an attribute, such as `{example}`, or remove it");
            self.error(node.span, format!("{owner} is an empty list"), advice);
            return None;
        }
        if items.len() > MAX_ATTRIBUTES {
            let message = format!("{owner} names {} attributes", items.len());
            self.error(node.span, message, format!("use at most {MAX_ATTRIBUTES}"));
            return None;
        }
        let mut names: Vec<Spanned<Arc<str>>> = Vec::with_capacity(items.len());
        let mut complete = true;
        for item in items {
            let Value::Scalar(scalar) = &item.value else {
                let message = format!("an item of {owner} is {} here", kind_of(item));
                self.error(item.span, message, format!("write the names of attributes, such as `{example}`"));
                complete = false;
                continue;
            };
            match self.attribute(&scalar.text, item.span) {
                Some(name) if names.iter().any(|known| known.value == name.value) => {
                    let message = format!("{owner} names {} twice", quoted(&name.value));
                    self.error(item.span, message, "remove one of them");
                    complete = false;
                }
                Some(name) => names.push(name),
                None => complete = false,
            }
        }
        complete.then_some(names)
    }
}

/// Returns the name of an attribute as it is looked up, or what would be right.
fn attribute(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    let Some((family, name)) = text.split_once('.') else {
        return if text.is_empty() {
            Err(format!("write one of {}, or a name of your own", listed()))
        } else if let Some(right) = OTHER_NAMES.iter().find(|(other, _)| *other == lower && *other != text) {
            Err(format!("did you mean `{}`?", right.1))
        } else {
            word(text).map(str::to_owned)
        };
    };
    let lower_family = family.to_ascii_lowercase();
    let other = OTHER_FAMILIES.iter().find(|(other, _)| *other == lower_family);
    if let Some((_, right)) = other {
        return Err(format!("did you mean {}?", quoted(&format!("{right}.{name}"))));
    }
    if !FAMILIES.contains(&&*lower_family) {
        return word(text).map(str::to_owned);
    }
    if lower_family != family {
        return Err(format!("did you mean {}?", quoted(&format!("{lower_family}.{name}"))));
    }
    if name.is_empty() {
        return Err(format!("write the name of the {family} after the dot, such as `{}`", example(family)));
    }
    if name.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(format!("the name of a {family} has no blanks; write `{}`", example(family)));
    }
    if name.contains('*') {
        return Err(format!("name each {family}: there are no patterns here"));
    }
    // Names of claims, cookies and query parameters have a case, those of headers have none.
    if family == "header" {
        if !name.bytes().all(is_token) {
            return Err(
                "names of headers have letters, digits and `-` only, such as `header.x-tenant`".to_owned()
            );
        }
        return Ok(lower);
    }
    Ok(text.to_owned())
}

/// Checks a name that belongs to no family.
fn word(text: &str) -> Result<&str, String> {
    if text.contains(',') {
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        return Err(format!(
            "write each attribute for itself, in a list: {}",
            quoted(&format!("[{}]", names.join(", ")))
        ));
    }
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.-".contains(letter);
    if text.chars().all(fits) {
        return Ok(text);
    }
    let right: String = text.to_ascii_lowercase().chars().map(|c| if fits(c) { c } else { '_' }).collect();
    Err(format!("use lower-case letters, digits, `_`, `-` and `.` only: {}", quoted(&right)))
}

fn listed() -> String {
    ATTRIBUTES.map(|name| format!("`{name}`")).join(", ")
}

fn example(family: &str) -> &'static str {
    match family {
        "header" => "header.x-tenant",
        "cookie" => "cookie.session",
        "query" => "query.page",
        _ => "claim.sub",
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte)
}
