//! Rows as they were seen last, so that a transaction can begin without a read.

use std::sync::Arc;

use moka::sync::Cache;

/// What an entry takes beside its bytes, about.
const OVERHEAD: usize = 200;

/// Bounded: what is asked for least goes first, and only costs a second transaction when it comes back.
#[derive(Debug)]
pub(crate) struct LastSeen(Cache<Vec<u8>, Arc<[u8]>>);

impl LastSeen {
    pub(crate) fn new(bytes: u64) -> Self {
        let weigh = |name: &Vec<u8>, row: &Arc<[u8]>| {
            u32::try_from(name.len() + row.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().weigher(weigh).max_capacity(bytes).build())
    }

    /// The row as it was; `None` if it was not there, or is not remembered.
    pub(crate) fn get(&self, partition: &[u8], row: &str) -> Option<Arc<[u8]>> {
        self.0.get(&name(partition, row))
    }

    pub(crate) fn put(&self, partition: &[u8], row: &str, value: Option<Arc<[u8]>>) {
        let name = name(partition, row);
        match value {
            Some(value) => self.0.insert(name, value),
            None => self.0.invalidate(&name),
        }
    }
}

/// With the length of the first part, no two pairs of parts read alike.
fn name(partition: &[u8], row: &str) -> Vec<u8> {
    [&(partition.len() as u64).to_be_bytes(), partition, row.as_bytes()].concat()
}
