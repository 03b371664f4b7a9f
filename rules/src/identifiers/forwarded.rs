//! The lists of hops in `X-Forwarded-For` and `Forwarded` (RFC 7239), read from the right.
//!
//! A proxy appends to what it receives, so the end of a list is what trusted proxies wrote, and its start is whatever a
//! client sent. Reading from the right, no quote or backslash of the client can change how the end is read.

use std::borrow::Cow;
use std::net::IpAddr;

use super::address::parse_address;

/// What a proxy says about whom it serves: an address, or `None` if it is unknown, hidden or unreadable.
type Hop = Option<IpAddr>;

/// Reads the hops of a line of `X-Forwarded-For`, the last one first. Empty elements are skipped.
pub(super) fn x_forwarded_for_hops(line: &[u8]) -> impl Iterator<Item = Hop> {
    let elements = line.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    elements.filter(|element| !element.is_empty()).map(|element| parse_address(str::from_utf8(element).ok()?))
}

/// Reads the hops of a line of `Forwarded`, the last one first. Empty elements are skipped.
pub(super) fn forwarded_hops(line: &[u8]) -> impl Iterator<Item = Hop> {
    let mut rest = Some(line);
    let elements = std::iter::from_fn(move || {
        let (before, element) = split_last_element(rest?);
        rest = before;
        Some(element.trim_ascii())
    });
    elements.filter(|element| !element.is_empty()).map(|element| forwarded_for(str::from_utf8(element).ok()?))
}

/// Splits at the last comma that is not in a quoted string. Seen from the right, the first quote ends a string, and the
/// next one without a backslash before it starts it.
fn split_last_element(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut quoted = false;
    let mut end = line.len();
    while let Some(position) = end.checked_sub(1) {
        end = position;
        match line[position] {
            b',' if !quoted => return (Some(&line[..position]), &line[position + 1..]),
            b'"' if !quoted => quoted = true,
            b'"' => {
                let backslashes = line[..position].iter().rev().take_while(|byte| **byte == b'\\').count();
                quoted = backslashes % 2 == 1;
            }
            _ => {}
        }
    }
    (None, line)
}

/// Returns the address in the parameter `for` of an element: `for=192.0.2.43;proto=http;by=203.0.113.43`. `None` if the
/// element is malformed or has none or several of them.
fn forwarded_for(element: &str) -> Hop {
    let mut found = None;
    let mut rest = element;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = split_value(after)?;
        if name.trim_matches(BLANKS).eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
        let after = after.trim_start_matches(BLANKS);
        if after.is_empty() {
            break;
        }
        rest = after.strip_prefix(';')?;
        // Some write a semicolon after the last parameter.
        if rest.trim_start_matches(BLANKS).is_empty() {
            break;
        }
    }
    parse_address(&found?)
}

const BLANKS: [char; 2] = [' ', '\t'];

/// Splits a value off: a quoted string, or a token. IPv6 addresses and ports without quotes are read as well, although
/// RFC 7239 demands quotes.
fn split_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', '"', '\\', ' ', '\t']).unwrap_or(text.len());
        let (token, after) = text.split_at(end);
        return Some((Cow::Borrowed(token), after));
    };
    let mut unescaped = String::new();
    let mut start = 0;
    let mut bytes = quoted.bytes().enumerate();
    while let Some((position, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let value = if unescaped.is_empty() {
                    Cow::Borrowed(&quoted[start..position])
                } else {
                    unescaped.push_str(&quoted[start..position]);
                    Cow::Owned(unescaped)
                };
                return Some((value, &quoted[position + 1..]));
            }
            b'\\' => {
                unescaped.push_str(&quoted[start..position]);
                start = position + 1;
                bytes.next();
            }
            _ => {}
        }
    }
    None
}
