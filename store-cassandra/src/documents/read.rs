//! Reading documents: the head says which change made a version, and the text is read from what that change has
//! written.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tollgate_core::documents::{Document, MAX_DOCUMENT_NAME, Revision};
use tollgate_core::{ErrorKind, StoreError};

use super::call::{Call, StoredHead};
use super::head::Head;
use super::{Inner, PART_SIZE, item, revision};

/// How many heads are read at the same time.
const HEADS_AT_ONCE: usize = 32;

/// Returns the version that `select` finds in the head. The head was read by this call.
pub(super) async fn document(
    call: &Call<'_>,
    partition: &[u8],
    mut stored: StoredHead,
    select: impl Fn(&Head) -> Option<u64> + Send,
) -> Result<Option<Document>, StoreError> {
    loop {
        let Some(version) = select(&stored.head) else { return Ok(None) };
        let Some((change, size)) = stored.head.text_of(version) else { return Ok(None) };
        let parts = (size as usize).div_ceil(PART_SIZE);
        let items: Vec<_> =
            (item::REVISION..).take(1 + parts).map(|part| item::part(version, change, part)).collect();
        if let Some(values) = call.read(partition, &items).await? {
            return assemble(version, size, &values).map(Some);
        }
        stored = changed_since(call, partition, &stored).await?;
    }
}

fn assemble(version: u64, size: u32, values: &[Vec<u8>]) -> Result<Document, StoreError> {
    let (revision, parts) = values.split_first().ok_or_else(damaged)?;
    let text = String::from_utf8(parts.concat()).map_err(|_| damaged())?;
    if text.len() != size as usize {
        return Err(damaged());
    }
    Ok(Document { text, revision: revision::decode(revision, version, false)? })
}

/// Returns the kept revisions, the newest first.
pub(super) async fn history(call: &Call<'_>, partition: &[u8]) -> Result<Vec<Revision>, StoreError> {
    let mut stored = call.head(partition).await?;
    loop {
        let kept: Vec<_> = stored.head.kept().collect();
        let items: Vec<_> =
            kept.iter().map(|(version, entry)| item::part(*version, entry.change, item::REVISION)).collect();
        if let Some(values) = call.read(partition, &items).await? {
            let revisions = kept.iter().zip(&values);
            return revisions
                .map(|((version, entry), value)| revision::decode(value, *version, entry.size.is_none()))
                .collect();
        }
        stored = changed_since(call, partition, &stored).await?;
    }
}

/// Returns the head after something that it names was not found: later changes have dropped that version.
async fn changed_since(
    call: &Call<'_>,
    partition: &[u8],
    stored: &StoredHead,
) -> Result<StoredHead, StoreError> {
    let current = call.head(partition).await?;
    if current == *stored { Err(damaged()) } else { Ok(current) }
}

fn damaged() -> StoreError {
    let what = "cassandra: a version of a document is incomplete, although it was written in full";
    let advice = "was something deleted from the table, or a node replaced without a repair?";
    StoreError::new(ErrorKind::Internal, format!("{what}; {advice} Another version may be complete"))
}

/// Returns the documents whose names start with `prefix`, with their versions.
pub(super) async fn list(inner: &Inner, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
    if prefix.len() > MAX_DOCUMENT_NAME {
        return Ok(Vec::new());
    }
    let call = inner.start().await?;
    let end = item::after_prefix(prefix);
    let buckets: Vec<_> = (0..item::BUCKETS).map(item::bucket).collect();
    let names = buckets.iter().map(|bucket| call.items(bucket, prefix.as_bytes(), &end));
    let names = try_join_all(names).await?.concat();
    let mut found = BTreeMap::new();
    for names in names.chunks(HEADS_AT_ONCE) {
        // Each has the time of a call, because there may be any number of documents.
        let call = inner.start().await?;
        let versions = names.iter().map(|name| current_version(&call, name));
        found.extend(try_join_all(versions).await?.into_iter().flatten());
    }
    Ok(found.into_iter().collect())
}

/// Returns the name and the current version of a document in the index. `None` if there is no such document: its
/// writer was killed before it was created, or it was deleted.
async fn current_version(call: &Call<'_>, name: &[u8]) -> Result<Option<(String, u64)>, StoreError> {
    let name = String::from_utf8(name.to_vec()).map_err(|_| damaged())?;
    let stored = call.head(&item::partition(&name)).await?;
    Ok(stored.head.current().map(|version| (name, version)))
}
