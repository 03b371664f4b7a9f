//! Scalars of a rule file: texts, names, numbers, flags, words and durations.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Limit;

use super::fields::Shape;
use super::reader::{MAX_NAME, Reader};
use super::section::Setting;
use crate::diagnostic::quoted;
use crate::nearest::nearest;
use crate::source::Spanned;
use crate::syntax::tree::{Scalar, ScalarKind};
use crate::units;

impl Reader<'_> {
    /// Reads any scalar as its text.
    pub(super) fn text<'n>(&mut self, setting: &Setting<'n>) -> Option<Spanned<&'n str>> {
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        Some(Spanned { value: &*scalar.text, span: setting.node.span })
    }

    /// Reads a text that is not empty and has no control characters.
    pub(super) fn printable<'n>(&mut self, setting: &Setting<'n>) -> Option<Spanned<&'n str>> {
        let text = self.text(setting)?;
        let name = setting.field.name;
        let example = setting.field.example;
        if text.value.trim().is_empty() {
            self.error(
                text.span,
                format!("`{name}` is empty"),
                format!("write a name, such as `{name}: {example}`"),
            );
            return None;
        }
        if text.value.chars().any(char::is_control) {
            let message = format!("`{name}` has control characters");
            self.error(
                text.span,
                message,
                format!("use printable characters only, such as `{name}: {example}`"),
            );
            return None;
        }
        Some(text)
    }

    /// Reads a name that becomes a part of a limit's name.
    pub(super) fn name(&mut self, setting: &Setting<'_>) -> Option<Spanned<Arc<str>>> {
        let text = self.printable(setting)?;
        let field = setting.field.name;
        if text.value.len() > MAX_NAME {
            let message = format!("`{field}` has {} bytes", text.value.len());
            self.error(text.span, message, format!("use at most {MAX_NAME}"));
            return None;
        }
        if text.value.contains('/') {
            let message = format!("`{field}` has a `/`, which separates the parts of a limit's name");
            self.error(text.span, message, format!("write {}", quoted(&text.value.replace('/', "-"))));
            return None;
        }
        Some(Spanned { value: text.value.into(), span: text.span })
    }

    /// Reads a flag. The reference service also knows the words of older YAML.
    pub(super) fn flag(&mut self, setting: &Setting<'_>, older_words: bool) -> Option<bool> {
        if let Some(Scalar { text, kind }) = setting.scalar() {
            let word = text.to_ascii_lowercase();
            match (&*word, *kind) {
                ("true", ScalarKind::Bool) => return Some(true),
                ("false", ScalarKind::Bool) => return Some(false),
                ("yes" | "on" | "y", ScalarKind::Text) if older_words => return Some(true),
                ("no" | "off" | "n", ScalarKind::Text) if older_words => return Some(false),
                _ => {}
            }
        }
        self.wrong_type(setting);
        None
    }

    /// Reads a whole number within the bounds of its field.
    pub(super) fn number(&mut self, setting: &Setting<'_>) -> Option<i64> {
        let (min, max) = bounds(&setting.field.shape).unwrap_or((0, i64::from(u32::MAX)));
        let scalar = setting.scalar();
        let is_number = |scalar: &&Scalar| matches!(scalar.kind, ScalarKind::Integer | ScalarKind::Float);
        let Some(scalar) = scalar.filter(is_number) else {
            self.wrong_type(setting);
            return None;
        };
        let number = whole(&scalar.text).filter(|number| (min..=max).contains(number));
        if let Some(advice) = leading_zero(&scalar.text) {
            // Octal to some readers of YAML, decimal to others.
            let message = format!("`{}` is {}", setting.field.name, quoted(&scalar.text));
            self.error(setting.node.span, message, advice);
            return None;
        }
        if number.is_none() {
            let name = setting.field.name;
            let message = format!("`{name}` is {}", quoted(&scalar.text));
            let advice = format!(
                "use a whole number from {min} to {max}, such as `{name}: {}`",
                setting.field.example
            );
            self.error(setting.node.span, message, advice);
        }
        number
    }

    /// Reads a whole number that is within 32 bits by the bounds of its field.
    pub(super) fn count(&mut self, setting: &Setting<'_>) -> Option<u32> {
        self.number(setting).and_then(|number| u32::try_from(number).ok())
    }

    /// Reads a number that may have a multiplier or be a size, and whether it is a size.
    pub(super) fn amount(&mut self, setting: &Setting<'_>) -> Option<(u32, bool)> {
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        match units::count(&scalar.text) {
            Ok(count) => Some((count, false)),
            Err(problem) => match units::size(&scalar.text).map(u32::try_from) {
                Ok(Ok(bytes))
                    if (1..=Limit::MAX_COUNT).contains(&bytes) && scalar.kind == ScalarKind::Text =>
                {
                    Some((bytes, true))
                }
                _ => {
                    let message = format!("`{}`: {}", setting.field.name, problem.message);
                    self.error(setting.node.span, message, problem.advice);
                    None
                }
            },
        }
    }

    /// Reads one of several words.
    pub(super) fn word(&mut self, setting: &Setting<'_>) -> Option<&'static str> {
        let Some((words, any_case)) = words(&setting.field.shape) else {
            self.wrong_type(setting);
            return None;
        };
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        let same = |word: &&&str| {
            if any_case { word.eq_ignore_ascii_case(&scalar.text) } else { ***word == *scalar.text }
        };
        let found = words.iter().find(same).copied();
        if found.is_none() {
            let message = format!("`{}` is {}", setting.field.name, quoted(&scalar.text));
            let right = nearest(&scalar.text, words.iter().copied());
            let advice = match right.or_else(|| only_longer(&scalar.text, words)) {
                Some(right) => format!("did you mean `{right}`?"),
                None => format!("write {}", setting.field.shape),
            };
            self.error(setting.node.span, message, advice);
        }
        found
    }

    /// Reads a duration.
    pub(super) fn duration(&mut self, setting: &Setting<'_>) -> Option<Duration> {
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        match units::duration(&scalar.text) {
            Ok(duration) => Some(duration),
            Err(problem) => {
                let message = format!("`{}`: {}", setting.field.name, problem.message);
                self.error(setting.node.span, message, problem.advice);
                None
            }
        }
    }
}

/// Returns the word that begins with this text, if there is only one: `leaky_bucket` for `leaky`.
fn only_longer(text: &str, words: &'static [&'static str]) -> Option<&'static str> {
    let mut longer = words.iter().copied().filter(|word| !text.is_empty() && word.starts_with(text));
    longer.next().filter(|_| longer.next().is_none())
}

/// Returns a number that may have `_` between digits, a base, or be a float without a fraction.
pub(super) fn whole(text: &str) -> Option<i64> {
    let plain = text.replace('_', "");
    let digits = plain.strip_prefix('+').unwrap_or(&plain);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return i64::from_str_radix(digits, radix).ok();
        }
    }
    digits.parse().ok().or_else(|| {
        let float: f64 = digits.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })
}

/// Returns what is right in place of a number with a zero in front, such as `010`.
fn leading_zero(text: &str) -> Option<String> {
    let digits = text.strip_prefix('0').filter(|rest| !rest.is_empty())?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimal = digits.trim_start_matches('0');
    let decimal = quoted(if decimal.is_empty() { "0" } else { decimal });
    Some(match i64::from_str_radix(digits, 8) {
        Ok(octal) if octal > 7 => format!("write {decimal}, or `{octal}` if it is octal"),
        Ok(_) | Err(_) => format!("write {decimal}"),
    })
}

fn bounds(shape: &Shape) -> Option<(i64, i64)> {
    match shape {
        Shape::Integer { min, max } => Some((*min, *max)),
        Shape::Any(shapes) => shapes.iter().find_map(bounds),
        Shape::Text
        | Shape::Attribute
        | Shape::Bool
        | Shape::Amount
        | Shape::Duration
        | Shape::Rate
        | Shape::Short
        | Shape::Network
        | Shape::Word { .. }
        | Shape::StoreError
        | Shape::Map(_)
        | Shape::List(_)
        | Shape::Free => None,
    }
}

fn words(shape: &Shape) -> Option<(&'static [&'static str], bool)> {
    match shape {
        Shape::Word { words, any_case } => Some((words, *any_case)),
        Shape::Any(shapes) => shapes.iter().find_map(words),
        Shape::Text
        | Shape::Attribute
        | Shape::Bool
        | Shape::Integer { .. }
        | Shape::Amount
        | Shape::Duration
        | Shape::Rate
        | Shape::Short
        | Shape::Network
        | Shape::StoreError
        | Shape::Map(_)
        | Shape::List(_)
        | Shape::Free => None,
    }
}
