//! The directory of a document: names as paths that are distinct on every file system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_core::StoreError;
use tollgate_core::documents::MAX_DOCUMENT_NAME;

use super::stored::{failure, is_absent};

/// The longest part of a path. File systems allow 255 bytes, some less when they are encrypted.
const MAX_PART: usize = 140;
/// The last character of the directory of a document. Without an end of ours, `con` and `nul` would be devices.
const END: char = '=';
/// The last character of a directory that has the first part of long names.
const CONTINUED: char = '+';

/// In lower case, like everything else in a path.
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns the directory of a document.
///
/// Only lower-case letters, digits, `-` and `_` stand for themselves: upper-case letters are encoded for file systems
/// that ignore case, and all other characters, because file systems normalize Unicode or give them a meaning.
pub(super) fn directory(root: &Path, name: &str) -> PathBuf {
    let encoded = encode(name);
    let mut path = root.to_owned();
    // All characters are ASCII, so that a part can end anywhere, also within a percent-encoded byte.
    let mut rest = encoded.as_str();
    while rest.len() > MAX_PART {
        let (part, after) = rest.split_at(MAX_PART);
        path.push(format!("{part}{CONTINUED}"));
        rest = after;
    }
    path.push(format!("{rest}{END}"));
    path
}

fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            _ => {
                encoded.push('%');
                encoded.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
            }
        }
    }
    encoded
}

/// Returns the name of an encoded one. `None` if it is not what [`encode`] returns for any name.
fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some(first) = rest.chars().next() {
        if first == '%' {
            bytes.push(u8::from_str_radix(rest.get(1..3)?, 16).ok()?);
            rest = rest.get(3..)?;
        } else {
            bytes.extend(first.to_string().bytes());
            rest = &rest[first.len_utf8()..];
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (encode(&name) == encoded).then_some(name)
}

/// Returns the names of all documents of a store, in any order, also of those without a version. Other files in its
/// directory are ignored.
pub(super) fn all(root: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    // Directories to read, each with the part of the names that led to it.
    let mut unread = vec![(root.to_owned(), String::new())];
    while let Some((directory, before)) = unread.pop() {
        let parts = match parts(&directory) {
            Err(error) if is_absent(&error) && directory != root => continue,
            result => result.map_err(|error| failure("read", &directory, error))?,
        };
        for part in parts {
            if let Some(part) = part.strip_suffix(END) {
                names.extend(decode(&format!("{before}{part}")));
            } else if let Some(start) = part.strip_suffix(CONTINUED)
                && start.len() == MAX_PART
                && before.len() < 3 * MAX_DOCUMENT_NAME
            {
                unread.push((directory.join(&part), format!("{before}{start}")));
            }
        }
    }
    Ok(names)
}

/// Returns the names in a directory that are text.
fn parts(directory: &Path) -> io::Result<Vec<String>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(directory)? {
        parts.extend(entry?.file_name().into_string());
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_readable_and_never_special() {
        for (name, path) in [
            ("rules/shop", "rules%2fshop="),
            ("../x", "%2e%2e%2fx="),
            ("CON", "%43%4f%4e="),
            ("con", "con="),
            ("é", "%c3%a9="),
            ("a=", "a%3d="),
        ] {
            assert_eq!(directory(Path::new("d"), name), Path::new("d").join(path));
        }
    }

    #[test]
    fn only_what_was_encoded_is_decoded() {
        for foreign in ["%", "%4", "%zz", "A", "%41%", "%2F", "%61", "%ff", "é", "a.b", "%+1"] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn every_name_has_a_path_of_its_own(
            names in proptest::collection::btree_set("\\PC{1,128}|[aA%/.é]{1,512}", 1..20),
        ) {
            let mut paths = BTreeSet::new();
            for name in &names {
                prop_assert_eq!(decode(&encode(name)), Some(name.clone()));
                let path = directory(Path::new("d"), name).to_str().expect("ASCII").to_owned();
                prop_assert!(path.split(['/', '\\']).all(|part| part.len() <= 255));
                prop_assert_eq!(&path, &path.to_lowercase());
                paths.insert(path);
            }
            prop_assert_eq!(paths.len(), names.len());
        }
    }
}
