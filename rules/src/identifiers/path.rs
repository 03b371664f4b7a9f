//! Paths of requests, written in one way only.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Writes a path in its normal form, so that another spelling of the same path does not evade a rule:
///
/// 1. Escapes are decoded once (`%61` is `a`, `%2e` is `.`), except those of `/`, `%`, control characters and bytes
///    that are not UTF-8, which stay escapes with upper-case digits. What is no valid escape stays as it is.
/// 2. Empty segments and `.` are removed (`//a/./b` is `/a/b`), and `..` with the segment before it.
/// 3. A slash at the end stays; so does a path that starts with none (`*`). Case, `;` and backslashes are not changed.
pub(super) fn normalize_path(path: &str) -> Cow<'_, str> {
    let Some(relative) = path.strip_prefix('/') else { return Cow::Borrowed(path) };
    let decoded = decode(relative);
    if is_normal(&decoded) {
        return match decoded {
            Cow::Borrowed(_) => Cow::Borrowed(path),
            Cow::Owned(decoded) => Cow::Owned(format!("/{decoded}")),
        };
    }
    let mut normal = String::with_capacity(path.len());
    // Whether the last segment is a directory: the path ends with a slash.
    let mut directory = false;
    for segment in decoded.split('/') {
        directory = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => normal.truncate(normal.rfind('/').unwrap_or(0)),
            _ => {
                normal.push('/');
                normal.push_str(segment);
            }
        }
    }
    if directory {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// Checks for segments that normalization removes. The last one may be empty.
fn is_normal(relative: &str) -> bool {
    let mut segments = relative.split('/');
    let last = segments.next_back().unwrap_or_default();
    !matches!(last, "." | "..") && segments.all(|segment| !matches!(segment, "" | "." | ".."))
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = if byte == b'%' { after.split_at_checked(2) } else { None };
        let decoded = escaped.and_then(|(digits, after)| Some((decode_digits(digits)?, digits, after)));
        rest = match decoded {
            None => {
                bytes.push(byte);
                after
            }
            Some((b'/' | b'%' | 0..0x20 | 0x7f, digits, after)) => {
                bytes.push(b'%');
                bytes.extend(digits.iter().map(u8::to_ascii_uppercase));
                after
            }
            Some((decoded, _, after)) => {
                bytes.push(decoded);
                after
            }
        };
    }
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a `String` never fails.
            let _ = write!(decoded, "%{byte:02X}");
        }
    }
    Cow::Owned(decoded)
}

fn decode_digits(digits: &[u8]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()
}
