//! Changes of a document: what is new is written first, where nobody looks for it, and one transaction on the head
//! makes it a version.

use tollgate_core::documents::{Change, DocumentError, Revision, check_document};
use tollgate_core::{IdempotencyKey, StoreError};

use super::call::{Call, StoredHead};
use super::head::Entry;
use super::{Inner, PART_SIZE, item, revision};
use crate::error::{self, Failure};

/// How a transaction has ended.
enum Outcome {
    Applied,
    /// Another change was faster, and has left this head.
    Lost(StoredHead),
}

/// Creates or replaces a document, or deletes it if there is no text.
pub(super) async fn change(
    inner: &Inner,
    name: &str,
    text: Option<&str>,
    expected: Option<u64>,
    change: &Change,
) -> Result<Revision, DocumentError> {
    check_document(name, text.unwrap_or_default())?;
    revision::check(change)?;
    let partition = item::partition(name);
    let mut call = inner.start().await?;
    let mut stored = call.head(&partition).await?;
    loop {
        let current = stored.head.current();
        if current != expected {
            return Err(DocumentError::Conflict { expected, current });
        }
        let version = stored.head.last + 1;
        // Random, so that what two changes write for the same version is separate.
        let id = IdempotencyKey::unique().get();
        if expected.is_none() {
            // Before the document exists: a name in the index does not say that there is a document.
            call.write(&item::bucket_of(name), &[(name.as_bytes().to_vec(), &[])]).await?;
        }
        write_version(&call, &partition, (version, id), text, change).await?;
        let size = text.map(|text| u32::try_from(text.len()).unwrap_or(u32::MAX));
        let entry = Entry { change: id, size };
        match replace_head(&mut call, &partition, &stored, entry, inner.versions).await? {
            Outcome::Applied => {
                sweep(&call, &partition, stored.head.changed(entry, inner.versions).first).await;
                return Ok(change.revision(version, text.is_none()));
            }
            Outcome::Lost(current) => {
                let first = item::change_items(version, id);
                call.remove(&partition, &first, &item::part(version, id, u32::MAX)).await;
                // If the document was created and deleted again, the change may still be right.
                stored = current;
            }
        }
    }
}

/// Writes who makes a version, and its text in parts. None of it is visible before the head names the change.
async fn write_version(
    call: &Call<'_>,
    partition: &[u8],
    (version, id): (u64, u128),
    text: Option<&str>,
    change: &Change,
) -> Result<(), StoreError> {
    let revision = revision::encode(change);
    let parts = text.unwrap_or_default().as_bytes().chunks(PART_SIZE);
    let values = std::iter::once(&revision[..]).chain(parts);
    let items: Vec<_> =
        (item::REVISION..).zip(values).map(|(part, value)| (item::part(version, id, part), value)).collect();
    call.write(partition, &items).await
}

/// Adds a change to the head by one transaction, on the condition that the head is as it was read.
async fn replace_head(
    call: &mut Call<'_>,
    partition: &[u8],
    stored: &StoredHead,
    entry: Entry,
    versions: u32,
) -> Result<Outcome, StoreError> {
    let new = stored.head.changed(entry, versions);
    loop {
        let current = match call.replace(partition, stored, &new).await {
            Ok(None) => return Ok(Outcome::Applied),
            Ok(Some(current)) => current,
            Err(Failure::NotExecuted(error)) => return Err(call.with_effect(error)),
            Err(Failure::Unknown(lost)) => {
                let current = call.head(partition).await.map_err(|_| call.with_effect(lost.clone()))?;
                if current == *stored {
                    // It may still arrive; it is the same transaction then.
                    call.wait_to_retry(lost).await?;
                    continue;
                }
                current
            }
        };
        // No head comes back: a transaction that has not changed this one by now never will.
        let outcome = match current.head.entry(new.last) {
            Some(made) if made.change == entry.change => Outcome::Applied,
            None if call.is_in_doubt() => return Err(error::outcome_unknown()),
            Some(_) | None => Outcome::Lost(current),
        };
        call.has_resolved_doubt();
        return Ok(outcome);
    }
}

/// Removes what belongs to versions before the first kept one: their texts, and what changes have left behind that
/// were killed, or lost to another one.
async fn sweep(call: &Call<'_>, partition: &[u8], first: u64) {
    if first > 1 {
        call.remove(partition, &item::version_items(0), &item::version_items(first)).await;
    }
}
