//! The head of a document: its last versions, and which changes made them.

use tollgate_core::documents::MAX_DOCUMENT_SIZE;
use tollgate_core::{ErrorKind, StoreError};

/// The form of stored heads.
const FORMAT: u8 = 1;
/// Format, last version, first kept version.
const PREFIX: usize = 17;
/// The change, and the size of the text.
const ENTRY: usize = 20;
/// Stands for the size of a deleted document.
const DELETED: u32 = u32::MAX;
/// How many changes a head names at least, to find out whether one whose response was lost was applied.
const MIN_ENTRIES: u64 = 32;

/// Which versions a document has. The default is a document that never existed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The last version, 0 if there is none.
    pub(super) last: u64,
    /// The first version whose text is kept.
    pub(super) first: u64,
    /// The last changes, the oldest first. The last one made the last version. They reach back further than the kept
    /// versions may.
    entries: Vec<Entry>,
}

/// A change that made a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// A random id.
    pub(super) change: u128,
    /// The size of the text in bytes. `None` if the change deleted the document.
    pub(super) size: Option<u32>,
}

impl Default for Head {
    fn default() -> Self {
        Self { last: 0, first: 1, entries: Vec::new() }
    }
}

impl Head {
    /// Returns the current version. `None` if the document does not exist.
    pub(super) fn current(&self) -> Option<u64> {
        self.text_of(self.last).map(|_| self.last)
    }

    /// Returns the change that made a version. `None` if the head does not reach back far enough, or not yet there.
    pub(super) fn entry(&self, version: u64) -> Option<Entry> {
        let age = usize::try_from(self.last.checked_sub(version)?).ok()?;
        let index = self.entries.len().checked_sub(1)?.checked_sub(age)?;
        self.entries.get(index).copied()
    }

    /// Returns the change and the size of the text of a kept version that was not a deletion.
    pub(super) fn text_of(&self, version: u64) -> Option<(u128, u32)> {
        let entry = self.entry(version).filter(|_| version >= self.first)?;
        Some((entry.change, entry.size?))
    }

    /// Returns the kept versions, the newest first.
    pub(super) fn kept(&self) -> impl Iterator<Item = (u64, Entry)> {
        (self.first..=self.last).rev().filter_map(|version| Some((version, self.entry(version)?)))
    }

    /// Returns the head after one more change, with at most this many versions kept.
    pub(super) fn changed(&self, entry: Entry, versions: u32) -> Self {
        let last = self.last + 1;
        let first = self.first.max((last + 1).saturating_sub(versions.into()));
        let mut entries = self.entries.clone();
        entries.push(entry);
        let needed = usize::try_from(Self::entries_of(last, first)).unwrap_or(usize::MAX);
        entries.drain(..entries.len().saturating_sub(needed));
        Self { last, first, entries }
    }

    /// Returns how many changes the head of these versions names.
    fn entries_of(last: u64, first: u64) -> u64 {
        (last + 1 - first).max(MIN_ENTRIES).min(last)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PREFIX + self.entries.len() * ENTRY);
        bytes.push(FORMAT);
        bytes.extend(self.last.to_be_bytes());
        bytes.extend(self.first.to_be_bytes());
        for entry in &self.entries {
            bytes.extend(entry.change.to_be_bytes());
            bytes.extend(entry.size.unwrap_or(DELETED).to_be_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(bytes).ok_or_else(|| {
            let what =
                "cassandra: the versions of a document are stored in a form that this program does not know";
            StoreError::new(ErrorKind::Internal, format!("{what}; was it written by a newer program?"))
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (prefix, rest) = bytes.split_at_checked(PREFIX)?;
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        let (last, first) = (number(&prefix[1..9])?, number(&prefix[9..])?);
        let (entries, rest) = rest.as_chunks::<ENTRY>();
        let entries = entries.iter().map(|entry| {
            let (change, size) = entry.split_at(16);
            let size = u32::from_be_bytes(size.try_into().ok()?);
            if size != DELETED && usize::try_from(size).ok()? > MAX_DOCUMENT_SIZE {
                return None;
            }
            let change = u128::from_be_bytes(change.try_into().ok()?);
            Some(Entry { change, size: (size != DELETED).then_some(size) })
        });
        let head = Self { last, first, entries: entries.collect::<Option<_>>()? };
        let is_valid = prefix[0] == FORMAT
            && rest.is_empty()
            && (last < u64::MAX && (1..=last).contains(&first))
            && head.entries.len() as u64 == Self::entries_of(last, first);
        is_valid.then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(changes: u64, versions: u32) -> Head {
        let entry =
            |change: u64| Entry { change: change.into(), size: (!change.is_multiple_of(3)).then_some(7) };
        (1..=changes).fold(Head::default(), |head, change| head.changed(entry(change), versions))
    }

    #[test]
    fn versions_grow_and_the_last_ones_are_kept() {
        for (changes, versions, first) in [(1, 20, 1), (20, 20, 1), (21, 20, 2), (100, 20, 81), (100, 1, 100)]
        {
            let head = head(changes, versions);
            assert_eq!((head.last, head.first), (changes, first));
            let kept: Vec<_> = head.kept().collect();
            assert_eq!(kept.len() as u64, changes + 1 - first);
            assert!(kept.iter().all(|(version, entry)| u128::from(*version) == entry.change), "{kept:?}");
            assert!(kept.is_sorted_by(|one, next| one.0 > next.0));
        }
        let head = head(100, 20);
        assert_eq!((head.text_of(80), head.text_of(101), head.text_of(81)), (None, None, None));
        assert_eq!((head.text_of(82), head.current()), (Some((82, 7)), Some(100)));
        assert_eq!(super::tests::head(99, 20).current(), None, "deleted");
        assert_eq!(Head::default().current(), None);
    }

    /// A version that was dropped does not come back when more are kept.
    #[test]
    fn the_number_of_kept_versions_can_change() {
        let (few, entry) = (head(50, 2), Entry { change: 51, size: None });
        assert_eq!((few.first, few.changed(entry, 20).first, few.changed(entry, 1).first), (49, 49, 51));
    }

    #[test]
    fn changes_are_found_after_many_others() {
        let head = head(100, 1);
        assert_eq!(head.entry(69).map(|entry| entry.change), Some(69));
        assert_eq!((head.entry(68), head.entry(101)), (None, None));
    }

    #[test]
    fn a_head_survives_its_stored_form() {
        for (changes, versions) in [(1, 1), (1, 20), (30, 20), (500, 100), (500, 1)] {
            let head = head(changes, versions);
            assert_eq!(Head::decode(&head.encode()).expect("valid"), head);
        }
    }

    #[test]
    fn other_forms_are_errors() {
        let valid = head(3, 2).encode();
        let mut damaged: Vec<Vec<u8>> = (0..valid.len()).map(|length| valid[..length].to_vec()).collect();
        for (index, byte) in [(0, 2), (8, 0), (8, 9), (16, 0), (16, 4), (33, 2)] {
            damaged.push(valid.clone());
            damaged.last_mut().expect("just added")[index] = byte;
        }
        for bytes in damaged {
            if let Ok(head) = Head::decode(&bytes) {
                panic!("{bytes:?} is {head:?}");
            }
        }
    }
}
