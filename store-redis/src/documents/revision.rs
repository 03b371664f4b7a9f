//! How a revision is stored: format, whether it is a deletion, change id, time, author and comment.
//!
//! Scripts read the first three of them (`scripts/documents/stored.lua`).

use tollgate_core::documents::{Change, Revision};
use tollgate_core::{IdempotencyKey, Time};

use crate::reader::Reader;

const FORMAT: u8 = 1;

/// Encodes the revision that a change makes, without its version. The id recognizes a change that was sent twice.
pub(super) fn encode(change: &Change, deleted: bool, id: IdempotencyKey) -> Vec<u8> {
    let Change { author, time, comment } = change;
    let mut stored = vec![FORMAT, deleted.into()];
    stored.extend_from_slice(&id.get().to_be_bytes());
    stored.extend_from_slice(&time.nanos().to_be_bytes());
    stored.extend_from_slice(&(author.len() as u64).to_be_bytes());
    stored.extend_from_slice(author.as_bytes());
    stored.extend_from_slice(comment.as_bytes());
    stored
}

/// Decodes a version number and its revision. `None` if they are malformed.
pub(super) fn decode(version: &[u8], stored: &[u8]) -> Option<Revision> {
    let version = number(version)?;
    let mut reader = Reader::new(stored);
    if reader.u8()? != FORMAT {
        return None;
    }
    let deleted = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let _id: &[u8; 16] = reader.array()?;
    let time = Time::from_nanos(reader.u64()?);
    let length = usize::try_from(reader.u64()?).ok()?;
    let author = text(reader.bytes(length)?)?;
    let comment = text(reader.rest())?;
    Some(Revision { version, author, time, comment, deleted })
}

/// Decodes a version number.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Decodes a text. `None` if it is not UTF-8.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change> {
        let at = |time| Change::by("ann", Time::from_nanos(time));
        vec![
            at(1).with_comment("more for \u{1f600} and \0 zero bytes"),
            Change::by("", Time::EPOCH),
            Change::by("\u{e4}", Time::MAX).with_comment("\u{e4}"),
        ]
    }

    #[test]
    fn revisions_are_read_as_they_were_written() {
        for change in changes() {
            for deleted in [false, true] {
                let stored = encode(&change, deleted, IdempotencyKey::new(7));
                assert_eq!(decode(b"3", &stored), Some(change.revision(3, deleted)));
            }
        }
    }

    #[test]
    fn the_change_id_is_where_scripts_look_for_it() {
        let id = IdempotencyKey::new(0x0102_0304);
        let stored = encode(&changes()[0], true, id);
        assert_eq!(stored[..2], [FORMAT, 1]);
        assert_eq!(stored[2..18], id.get().to_be_bytes());
    }

    #[test]
    fn malformed_revisions_are_rejected() {
        let stored = encode(&Change::by("ann", Time::EPOCH), false, IdempotencyKey::new(7));
        for length in 0..stored.len() {
            assert_eq!(decode(b"1", &stored[..length]), None, "{length} bytes");
        }
        let replaced = |at: usize, byte| {
            let mut stored = stored.clone();
            stored[at] = byte;
            decode(b"1", &stored)
        };
        assert_eq!(replaced(0, 2), None, "another format");
        assert_eq!(replaced(1, 2), None, "neither a deletion nor a text");
        assert_eq!(replaced(26, 255), None, "an author longer than the revision");
        assert_eq!(replaced(35, 255), None, "an author that is no text");
        for version in [&b""[..], b"-1", b"one", b"18446744073709551616", b"\xff"] {
            assert_eq!(decode(version, &stored), None, "{version:?}");
        }
    }
}
