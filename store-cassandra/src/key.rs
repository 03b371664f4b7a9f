//! Where states are stored: one partition per entity, one row per limit.

use sha2::{Digest, Sha256};
use tollgate_core::{Key, Limit};

/// A longer partition key is replaced by a digest. Cassandra accepts up to 64 KiB, but keeps every key in indexes and
/// caches on every replica.
const MAX_LENGTH: usize = 512;

/// The first byte of a partition key, so that no key equals the digest of another.
const PLAIN: u8 = 0;
const DIGEST: u8 = 1;

/// A partition that no entity has, for pings.
pub(crate) const PING: &[u8] = &[2];

/// Returns the partition key of an entity.
pub(crate) fn partition(key: Key<'_>) -> Vec<u8> {
    let (namespace, entity) = (key.namespace(), key.entity());
    // The length prefix makes the pair unambiguous.
    let length = (namespace.len() as u64).to_be_bytes();
    let mut partition = Vec::with_capacity((namespace.len() + entity.len()).min(MAX_LENGTH) + 3);
    match u16::try_from(namespace.len()) {
        Ok(short) if namespace.len() + entity.len() <= MAX_LENGTH => {
            partition.push(PLAIN);
            partition.extend_from_slice(&short.to_be_bytes());
            partition.extend_from_slice(namespace);
            partition.extend_from_slice(entity);
        }
        _ => {
            partition.push(DIGEST);
            let digest = Sha256::new().chain_update(length).chain_update(namespace).chain_update(entity);
            partition.extend_from_slice(&digest.finalize());
        }
    }
    partition
}

/// Returns the name of a limit's row. The algorithm, and whether the limit blocks, are part of its identity.
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
        // A key that equals the digest of a long key.
        partitions.push(partition(Key::new("", &partitions[3][1..])));
        partitions.push(partition(Key::from(&partitions[3])));
        assert!(partitions.iter().all(|partition| partition.len() <= MAX_LENGTH + 3));
        let count = partitions.len();
        partitions.sort();
        partitions.dedup();
        assert_eq!(partitions.len(), count);
    }

    #[test]
    fn a_limit_with_another_algorithm_has_another_row() {
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
