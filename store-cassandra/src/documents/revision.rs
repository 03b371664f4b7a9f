//! The stored form of who made a version, when and why.

use tollgate_core::documents::{Change, Revision};
use tollgate_core::{ErrorKind, StoreError, Time};

/// The form of stored revisions.
const FORMAT: u8 = 1;
/// The longest author and comment together, in bytes.
pub(super) const MAX_LENGTH: usize = 64 * 1024;

/// Checks the length of the author and the comment.
pub(super) fn check(change: &Change) -> Result<(), StoreError> {
    let length = change.author.len() + change.comment.len();
    if length > MAX_LENGTH {
        return Err(StoreError::new(
            ErrorKind::Refused,
            format!("cassandra: author and comment have {length} bytes together; use at most {MAX_LENGTH}"),
        ));
    }
    Ok(())
}

/// Returns the format, the time, the length of the author, the author and the comment.
pub(super) fn encode(change: &Change) -> Vec<u8> {
    let length = u32::try_from(change.author.len()).unwrap_or(u32::MAX);
    let mut bytes = vec![FORMAT];
    bytes.extend(change.time.nanos().to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(change.author.as_bytes());
    bytes.extend(change.comment.as_bytes());
    bytes
}

pub(super) fn decode(bytes: &[u8], version: u64, deleted: bool) -> Result<Revision, StoreError> {
    let change = parse(bytes).ok_or_else(|| {
        let what =
            "cassandra: the revision of a document is stored in a form that this program does not know";
        StoreError::new(ErrorKind::Internal, format!("{what}; was it written by a newer program?"))
    })?;
    Ok(change.revision(version, deleted))
}

fn parse(bytes: &[u8]) -> Option<Change> {
    let (format, bytes) = bytes.split_first()?;
    let (time, bytes) = bytes.split_first_chunk::<8>()?;
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let (author, comment) = bytes.split_at_checked(u32::from_be_bytes(*length).try_into().ok()?)?;
    let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.to_owned());
    let change =
        Change::by(text(author)?, Time::from_nanos(u64::from_be_bytes(*time))).with_comment(text(comment)?);
    (*format == FORMAT).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_survives_its_stored_form() {
        for (author, time, comment) in
            [("", Time::EPOCH, ""), ("ada", Time::from_secs(1_790_000_000), "für alle"), ("é", Time::MAX, "")]
        {
            let change = Change::by(author, time).with_comment(comment);
            assert_eq!(decode(&encode(&change), 7, true).expect("valid"), change.revision(7, true));
        }
    }

    #[test]
    fn other_forms_are_errors() {
        let valid = encode(&Change::by("ada", Time::EPOCH));
        for length in 0..valid.len() {
            assert!(decode(&valid[..length], 1, false).is_err(), "{length}");
        }
        for (index, byte) in [(0, 2), (12, 200), (13, 0xff)] {
            let mut damaged = valid.clone();
            damaged[index] = byte;
            assert!(decode(&damaged, 1, false).is_err(), "{index}");
        }
    }

    #[test]
    fn long_comments_are_refused_with_the_bound() {
        let change = Change::by("ada", Time::EPOCH).with_comment("x".repeat(MAX_LENGTH));
        let error = check(&change).expect_err("too long").to_string();
        assert!(error.contains("have 65539 bytes together; use at most 65536"), "{error}");
        assert!(check(&Change::by("ada", Time::EPOCH)).is_ok());
    }
}
