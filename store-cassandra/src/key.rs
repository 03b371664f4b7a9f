//! Where states live: a partition per entity, a row per limit.

use sha2::{Digest, Sha256};
use tollgate_core::{Key, Limit};

/// A partition key longer than this is replaced by a digest. Cassandra takes up to 64 KiB, but carries each of them
/// through every replica, index and cache.
const LONGEST: usize = 512;

/// What a partition key begins with, so that no key can be taken for the digest of another.
const WHOLE: u8 = 0;
const DIGEST: u8 = 1;

/// The partition of an entity.
pub(crate) fn partition(key: Key<'_>) -> Vec<u8> {
    let (namespace, entity) = (key.namespace(), key.entity());
    // With the length of the first part, no two pairs of parts read alike.
    let length = (namespace.len() as u64).to_be_bytes();
    let mut name = Vec::with_capacity((namespace.len() + entity.len()).min(LONGEST) + 3);
    match u16::try_from(namespace.len()) {
        Ok(short) if namespace.len() + entity.len() <= LONGEST => {
            name.push(WHOLE);
            name.extend_from_slice(&short.to_be_bytes());
            name.extend_from_slice(namespace);
            name.extend_from_slice(entity);
        }
        _ => {
            name.push(DIGEST);
            let digest = Sha256::new().chain_update(length).chain_update(namespace).chain_update(entity);
            name.extend_from_slice(&digest.finalize());
        }
    }
    name
}

/// The row of a limit. Its algorithm and whether it blocks are part of its identity.
pub(crate) fn row(limit: &Limit) -> String {
    let block = if limit.block_time().is_some() { "b" } else { "" };
    format!("{}~{}{block}", limit.name(), limit.kind() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_keys_have_different_partitions() {
        let long = "x".repeat(70_000);
        let keys = [
            Key::new("", "ab"),
            Key::new("a", "b"),
            Key::new("ab", ""),
            Key::new("", &long),
            Key::new(&long, ""),
            Key::new("x", &long[1..]),
        ];
        let mut partitions: Vec<_> = keys.iter().map(|key| partition(*key)).collect();
        // The digest of a long key is a key like any other.
        partitions.push(partition(Key::new("", &partitions[3][1..])));
        partitions.push(partition(Key::from(&partitions[3])));
        assert!(partitions.iter().all(|partition| partition.len() <= LONGEST + 3));
        let count = partitions.len();
        partitions.sort();
        partitions.dedup();
        assert_eq!(partitions.len(), count);
    }

    #[test]
    fn a_limit_of_another_kind_has_another_row() {
        let rows = [
            Limit::per_second(1).build("api"),
            Limit::per_second(1).sliding_log().build("api"),
            Limit::per_second(1).block_for(std::time::Duration::from_secs(1)).build("api"),
            Limit::per_second(2).build("api"),
        ]
        .map(|limit| row(&limit.expect("valid")));
        assert_eq!(rows, ["api~1", "api~6", "api~1b", "api~1"]);
    }
}
