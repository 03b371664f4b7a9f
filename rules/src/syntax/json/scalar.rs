//! Strings, numbers and words of JSON.

use super::Json;
use crate::diagnostic::quoted;
use crate::syntax::tree::{Scalar, ScalarKind};

impl<'f> Json<'_, 'f> {
    /// Reads a string, at its opening quote.
    pub(super) fn text(&mut self) -> Option<Scalar> {
        let open = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.file.text()[self.at..];
            let run = rest.find(|c: char| matches!(c, '"' | '\\') || c < ' ').unwrap_or(rest.len());
            text.push_str(&rest[..run]);
            self.at += run;
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return Some(Scalar { text: text.into(), kind: ScalarKind::Text });
                }
                Some('\\') => text.push(self.escape()?),
                Some('\n' | '\r') | None => {
                    let span = self.file.span(open..self.at);
                    self.file.error(
                        span,
                        "a quote is not closed",
                        "end the text with `\"`, and write line breaks as `\\n`",
                    );
                    return None;
                }
                Some(_) => {
                    return self
                        .unexpected("no control character in text", "write it as an escape, such as `\\t`");
                }
            }
        }
    }

    /// Reads an escape, at its backslash.
    fn escape(&mut self) -> Option<char> {
        let start = self.at;
        let kind = self.file.text()[start + 1..].chars().next();
        self.at += 2;
        match kind {
            Some('"') => Some('"'),
            Some('\\') => Some('\\'),
            Some('/') => Some('/'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => self.unicode(start),
            other => {
                let span = self.file.span(start..start + 1 + other.map_or(0, char::len_utf8));
                let advice = "write `\\\\` for a backslash; others are `\\\"`, `\\/`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t`, `\\u0000`";
                self.file.error(span, "unknown escape after `\\`", advice);
                None
            }
        }
    }

    /// Reads the digits after `\u`, and the second half of a surrogate pair.
    fn unicode(&mut self, start: usize) -> Option<char> {
        let first = self.digits(start)?;
        let code = match first {
            0xd800..=0xdbff if self.file.text()[self.at..].starts_with("\\u") => {
                self.at += 2;
                let second = self.digits(self.at - 2)?;
                match second {
                    0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            _ => first,
        };
        let character = char::from_u32(code);
        if character.is_none() {
            let span = self.file.span(start..self.at);
            let advice = "write the character itself, or a pair such as `\\ud83d\\ude00`";
            self.file.error(span, "half of a surrogate pair", advice);
        }
        character
    }

    fn digits(&mut self, start: usize) -> Option<u32> {
        let digits = self.file.text().get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            let span = self.file.span(start..start + 2);
            self.file.error(
                span,
                "expected four hexadecimal digits after `\\u`",
                "write `\\u00fc`, or the character itself",
            );
            return None;
        };
        self.at += 4;
        Some(code)
    }

    /// Reads `true`, `false`, `null` or a number.
    pub(super) fn word(&mut self) -> Option<Scalar> {
        let start = self.at;
        let word = self.bare();
        let kind = match word {
            "true" | "false" => Some(ScalarKind::Bool),
            "null" => Some(ScalarKind::Null),
            _ => number(word),
        };
        if let Some(kind) = kind {
            return Some(Scalar { text: word.into(), kind });
        }
        if word.is_empty() {
            self.at = start;
            return self.unexpected("a value", "write a value; text stands between double quotes");
        }
        let span = self.file.span(start..self.at);
        let advice = if word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
            format!(
                "write numbers such as `50` or `1.5`, and quote other text: {}",
                quoted(&format!("\"{word}\""))
            )
        } else {
            format!("quote it: {}", quoted(&format!("\"{word}\"")))
        };
        self.file.error(span, format!("{} is not a value", quoted(word)), advice);
        None
    }

    /// Skips and returns all up to the next separator.
    pub(super) fn bare(&mut self) -> &'f str {
        let start = self.at;
        let rest = &self.file.text()[start..];
        let end =
            rest.find(|c: char| c.is_whitespace() || c < ' ' || ",:[]{}\"".contains(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
}

fn number(word: &str) -> Option<ScalarKind> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (word, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    if !digits(whole) || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    match (fraction, exponent) {
        (None, None) => Some(ScalarKind::Integer),
        _ => (fraction.is_none_or(digits) && exponent.is_none_or(digits)).then_some(ScalarKind::Float),
    }
}
