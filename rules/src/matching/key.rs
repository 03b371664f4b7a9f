//! Keys: the values of `per` as one entity.
//!
//! Different lists of values have different entities, whatever the values are. One plain value is its own entity, so
//! that operators recognize it. Several are separated by `|`. Within a value, `\` and `|` are preceded by `\`; an empty
//! value is `\e`, and the name of a shared counter follows `\*`.

use smallvec::SmallVec;

use crate::identifiers::KeyForm;

/// The keys of one request, one after the other. Inline for what most requests need.
pub(super) type KeyBytes = SmallVec<[u8; 128]>;

const SEPARATOR: u8 = b'|';
const ESCAPE: u8 = b'\\';
const EMPTY: u8 = b'e';
const SHARED: u8 = b'*';

/// Appends the values of one key.
pub(super) struct KeyWriter<'k> {
    bytes: &'k mut KeyBytes,
    start: usize,
    is_empty: bool,
}

/// The place of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyRange {
    start: usize,
    end: usize,
}

impl KeyRange {
    pub(super) fn of(self, bytes: &KeyBytes) -> &[u8] {
        &bytes[self.start..self.end]
    }
}

impl<'k> KeyWriter<'k> {
    pub(super) fn new(bytes: &'k mut KeyBytes) -> Self {
        let start = bytes.len();
        Self { bytes, start, is_empty: true }
    }

    /// Appends the value of an attribute.
    pub(super) fn value(&mut self, form: KeyForm, value: &str) {
        if !self.is_empty {
            self.bytes.push(SEPARATOR);
        }
        self.is_empty = false;
        if value.is_empty() {
            self.bytes.extend_from_slice(&[ESCAPE, EMPTY]);
        } else {
            form.write(value, |part| escape(part, self.bytes));
        }
    }

    /// Appends the name of a counter that requests without a value share.
    pub(super) fn shared(&mut self, name: &str) {
        self.is_empty = false;
        self.bytes.extend_from_slice(&[ESCAPE, SHARED]);
        escape(name.as_bytes(), self.bytes);
    }

    pub(super) fn end(self) -> KeyRange {
        KeyRange { start: self.start, end: self.bytes.len() }
    }
}

fn escape(part: &[u8], bytes: &mut KeyBytes) {
    let mut plain = part;
    while let Some(at) = plain.iter().position(|byte| [SEPARATOR, ESCAPE].contains(byte)) {
        bytes.extend_from_slice(&plain[..at]);
        bytes.extend_from_slice(&[ESCAPE, plain[at]]);
        plain = &plain[at + 1..];
    }
    bytes.extend_from_slice(plain);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn entity(values: &[String]) -> Vec<u8> {
        let mut bytes = KeyBytes::new();
        let mut key = KeyWriter::new(&mut bytes);
        for value in values {
            key.value(KeyForm::Plain, value);
        }
        key.end().of(&bytes).to_vec()
    }

    fn shared(name: &str) -> Vec<u8> {
        let mut bytes = KeyBytes::new();
        let mut key = KeyWriter::new(&mut bytes);
        key.shared(name);
        key.end().of(&bytes).to_vec()
    }

    /// All lists of up to three values, of up to two letters each.
    fn lists() -> Vec<Vec<String>> {
        const LETTERS: [&str; 5] = ["e", "|", "*", "\\", "a"];
        let pairs =
            LETTERS.iter().flat_map(|first| LETTERS.iter().map(move |second| format!("{first}{second}")));
        let mut values: Vec<String> = LETTERS.iter().map(|&letter| letter.to_owned()).chain(pairs).collect();
        values.push(String::new());
        let mut lists = vec![Vec::new()];
        let mut longest = 0..1;
        for _ in 0..3 {
            let start = lists.len();
            for list in longest {
                for value in &values {
                    lists.push([&lists[list][..], std::slice::from_ref(value)].concat());
                }
            }
            longest = start..lists.len();
        }
        lists
    }

    #[test]
    fn different_keys_have_different_entities() {
        let mut seen: HashMap<Vec<u8>, String> = HashMap::new();
        let mut insert = |entity: Vec<u8>, key: String| {
            if let Some(other) = seen.insert(entity, key.clone()) {
                panic!("{key} and {other} have the same entity");
            }
        };
        let lists = lists();
        assert!(lists.len() > 30_000);
        for values in &lists {
            insert(entity(values), format!("{values:?}"));
        }
        for name in lists.iter().filter(|values| values.len() == 1) {
            insert(shared(&name[0]), format!("the shared counter {name:?}"));
        }
    }

    proptest! {
        #[test]
        fn entities_of_any_text_differ(
            values in prop::collection::vec(".{0,6}", 0..4),
            others in prop::collection::vec(".{0,6}", 0..4),
        ) {
            prop_assert_eq!(values == others, entity(&values) == entity(&others));
            prop_assert_ne!(shared(&others.concat()), entity(&values));
        }
    }

    #[test]
    fn one_plain_value_is_its_own_entity() {
        assert_eq!(entity(&["alice@example.org".to_owned()]), b"alice@example.org");
        assert_eq!(entity(&["alice".to_owned(), "pro".to_owned()]), b"alice|pro");
    }
}
