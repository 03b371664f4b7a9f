//! Where documents are stored: a partition per document, and the index of names in a few partitions.

use sha2::{Digest, Sha256};

/// How many partitions the index of names has. Fixed by the schema version.
pub(super) const BUCKETS: u8 = 4;

/// The first byte of a partition key.
const DOCUMENT: u8 = 0;
const NAMES: u8 = 1;

/// The item that says which versions a document has. The only one that changes, by transactions.
pub(super) const HEAD: &[u8] = &[0];
/// The first byte of the items of versions.
const VERSION: u8 = 1;
/// The part that says who made a version. Parts of the text follow.
pub(super) const REVISION: u32 = 0;

/// Returns the partition of a document.
pub(super) fn partition(name: &str) -> Vec<u8> {
    [&[DOCUMENT], name.as_bytes()].concat()
}

/// Returns the partition of the index that has this name.
pub(super) fn bucket_of(name: &str) -> Vec<u8> {
    bucket(Sha256::digest(name.as_bytes())[0] % BUCKETS)
}

/// Returns a partition of the index. Its items are names.
pub(super) fn bucket(number: u8) -> Vec<u8> {
    vec![NAMES, number]
}

/// Returns the first item after all names with this prefix: UTF-8 never contains the byte 255.
pub(super) fn after_prefix(prefix: &str) -> Vec<u8> {
    [prefix.as_bytes(), &[u8::MAX]].concat()
}

/// Returns the item for a part of what a change has written for a version. Another change for the same version has
/// other items.
pub(super) fn part(version: u64, change: u128, part: u32) -> Vec<u8> {
    [change_items(version, change), part.to_be_bytes().to_vec()].concat()
}

/// Returns what the items of a change start with. Earlier versions have smaller items.
pub(super) fn change_items(version: u64, change: u128) -> Vec<u8> {
    [&version_items(version)[..], &change.to_be_bytes()].concat()
}

/// Returns what the items of a version start with.
pub(super) fn version_items(version: u64) -> Vec<u8> {
    [&[VERSION], &version.to_be_bytes()[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_earlier_versions_are_smaller_and_the_head_is_no_version() {
        let mut items: Vec<_> = [1, 2, 255, 256, u64::MAX]
            .into_iter()
            .flat_map(|version| [part(version, 0, 0), part(version, 0, 300), part(version, u128::MAX, 7)])
            .collect();
        items.insert(0, HEAD.to_vec());
        assert!(items.is_sorted());
        assert!(version_items(2) > part(1, u128::MAX, u32::MAX) && version_items(2) < part(2, 0, 0));
    }

    #[test]
    fn a_prefix_ends_before_the_next_name() {
        for prefix in ["", "a", "é", "\u{10ffff}"] {
            let end = after_prefix(prefix);
            for rest in ["", "a", "\u{10ffff}"] {
                let name = format!("{prefix}{rest}");
                assert!(name.as_bytes() >= prefix.as_bytes() && name.as_bytes() < &end[..], "{name}");
            }
        }
        assert!(b"b"[..] >= after_prefix("a")[..]);
    }
}
