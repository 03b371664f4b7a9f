//! What a YAML scalar is: the core schema of YAML 1.2, and numbers with `_` as in YAML 1.1.

use granit_parser::{ScalarStyle, Tag};

use crate::syntax::tree::{Scalar, ScalarKind};

/// A tag that says what a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoreTag {
    None,
    /// `!` or `!!str`.
    Text,
    /// `!!int`, `!!map` and the like. They change nothing, because the reader of a field knows what it wants.
    Other,
}

/// Returns what a tag means, or `None` if it is not one of YAML's own.
pub(super) fn core_tag(tag: &Tag) -> Option<CoreTag> {
    if tag.handle().is_empty() && tag.suffix() == "!" || tag.handle() == "!" && tag.suffix().is_empty() {
        return Some(CoreTag::Text);
    }
    match tag.core_suffix()? {
        "str" => Some(CoreTag::Text),
        "null" | "bool" | "int" | "float" | "seq" | "map" => Some(CoreTag::Other),
        _ => None,
    }
}

/// Returns a scalar with its kind.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: CoreTag) -> Scalar {
    let plain = match tag {
        CoreTag::None => style == ScalarStyle::Plain,
        CoreTag::Text => false,
        CoreTag::Other => true,
    };
    Scalar { text: text.into(), kind: if plain { kind(text) } else { ScalarKind::Text } }
}

fn kind(text: &str) -> ScalarKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarKind::Bool,
        _ if is_integer(text) => ScalarKind::Integer,
        _ if is_float(text) => ScalarKind::Float,
        _ => ScalarKind::Text,
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let all = |digits: &str, radix| {
        digits.starts_with(|first: char| first.is_digit(radix))
            && digits.chars().all(|digit| digit == '_' || digit.is_digit(radix))
    };
    match digits.get(..2) {
        Some("0x") => all(&digits[2..], 16),
        Some("0o") => all(&digits[2..], 8),
        Some("0b") => all(&digits[2..], 2),
        _ => all(digits, 10),
    }
}

fn is_float(text: &str) -> bool {
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(number, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    // Rust's floats also have names, which are text in YAML.
    number.starts_with(|first: char| first == '.' || first.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | 'e' | 'E' | '+' | '-'))
        && number.replace('_', "").parse::<f64>().is_ok()
}
