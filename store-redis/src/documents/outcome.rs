//! What a change came to: a new version, or a conflict with another change.

use tollgate_core::documents::DocumentError;
use tollgate_core::{ErrorKind, StoreError};

use super::revision;

/// What a change came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The version that it made.
    Made(u64),
    /// Nothing was changed.
    Conflict {
        /// The current version.
        current: Option<u64>,
        /// The oldest version whose change id is known.
        oldest: u64,
    },
}

impl Outcome {
    /// Decodes the reply of `change.lua`. `None` if it is malformed.
    pub(super) fn decode(parts: &[&[u8]]) -> Option<Self> {
        match parts {
            [b"1", version] => revision::number(version).map(Self::Made),
            [b"0", b"", oldest] => Some(Self::Conflict { current: None, oldest: revision::number(oldest)? }),
            [b"0", current, oldest] => {
                let current = Some(revision::number(current)?);
                Some(Self::Conflict { current, oldest: revision::number(oldest)? })
            }
            _ => None,
        }
    }

    /// Returns the version that the change made. If the call was `repeated`, its first copy may have won.
    pub(super) fn version(self, expected: Option<u64>, repeated: bool) -> Result<u64, DocumentError> {
        match self {
            Self::Made(version) => Ok(version),
            Self::Conflict { current, oldest } => {
                // The version that the change would have made, if its first copy had won, or an older one.
                let first_possible = expected.map_or(1, |expected| expected.saturating_add(1));
                if repeated && first_possible < oldest {
                    let message = "the reply to a change was lost, and so many changes followed that its version is no \
                                   longer kept; read the document";
                    return Err(StoreError::new(ErrorKind::Unavailable, message)
                        .with_unknown_effect()
                        .into());
                }
                Err(DocumentError::Conflict { expected, current })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Effect;

    #[test]
    fn outcomes_are_decoded() {
        let conflict = |current| Some(Outcome::Conflict { current, oldest: 4 });
        assert_eq!(Outcome::decode(&[b"1", b"7"]), Some(Outcome::Made(7)));
        assert_eq!(Outcome::decode(&[b"0", b"7", b"4"]), conflict(Some(7)));
        assert_eq!(Outcome::decode(&[b"0", b"", b"4"]), conflict(None));
        let malformed: [&[&[u8]]; 6] =
            [&[], &[b"1"], &[b"2", b"7"], &[b"1", b"x"], &[b"0", b"x", b"4"], &[b"0", b"7", b"x"]];
        for malformed in malformed {
            assert_eq!(Outcome::decode(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_repeated_change_is_a_conflict_only_if_its_first_copy_cannot_have_won() {
        let result = |expected, oldest, repeated| {
            Outcome::Conflict { current: Some(30), oldest }
                .version(expected, repeated)
                .expect_err("no version")
        };
        // Its version would be 10.
        for (oldest, repeated, conflict) in
            [(11, false, true), (9, true, true), (10, true, true), (11, true, false), (1, true, true)]
        {
            let error = result(Some(9), oldest, repeated);
            let is_conflict =
                matches!(error, DocumentError::Conflict { expected: Some(9), current: Some(30) });
            assert_eq!(is_conflict, conflict, "{oldest} {repeated}: {error}");
            let is_unknown =
                matches!(&error, DocumentError::Store(error) if error.effect() == Effect::Unknown);
            assert_eq!(is_unknown, !conflict, "{oldest} {repeated}: {error}");
        }
        assert!(matches!(result(None, 1, true), DocumentError::Conflict { .. }));
        assert!(matches!(result(None, 2, true), DocumentError::Store(_)), "it may have created any version");
        assert!(matches!(result(None, 2, false), DocumentError::Conflict { .. }));
    }
}
