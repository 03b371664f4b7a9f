//! Rows as this store saw them last, so that a transaction needs no read before it.

use std::sync::Arc;

use moka::sync::Cache;

/// The approximate size of an entry beyond its own bytes.
const OVERHEAD: usize = 200;

/// A bounded cache. Rarely used rows are evicted first; a miss costs one more transaction.
#[derive(Debug)]
pub(crate) struct RowCache(Cache<Vec<u8>, Arc<[u8]>>);

impl RowCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let weigh = |key: &Vec<u8>, row: &Arc<[u8]>| {
            u32::try_from(key.len() + row.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(weigh).max_capacity(bytes).build())
    }

    /// Returns the row as it was seen last. `None` if it did not exist, or is not cached.
    pub(crate) fn get(&self, partition: &[u8], row: &str) -> Option<Arc<[u8]>> {
        self.0.get(&cache_key(partition, row))
    }

    pub(crate) fn put(&self, partition: &[u8], row: &str, value: Option<Arc<[u8]>>) {
        let key = cache_key(partition, row);
        match value {
            Some(value) => self.0.insert(key, value),
            None => self.0.invalidate(&key),
        }
    }
}

/// Joins partition and row. The length prefix makes the result unambiguous.
fn cache_key(partition: &[u8], row: &str) -> Vec<u8> {
    [&(partition.len() as u64).to_be_bytes(), partition, row.as_bytes()].concat()
}
