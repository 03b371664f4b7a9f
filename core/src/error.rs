//! What can go wrong between a limiter and its store.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::fmt;

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached or is not ready.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// The store refused: credentials, permissions, configuration.
    Refused,
    /// The store has no room for more state.
    Full,
    /// The stored state is not what this program understands.
    Corrupt,
    /// The algorithm or the store cannot do what was asked.
    Unsupported,
    /// A bug, here or in the store.
    Internal,
}

impl ErrorKind {
    /// A word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Full => "full",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a failed call may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// Certainly not.
    None,
    /// Perhaps. Repeat it only with the same [`OperationId`](crate::OperationId), or count it as spent.
    Unknown,
}

/// A call that a store could not answer. A denial is not an error.
///
/// It can be cloned, because one failed call may have to be told to many callers.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: ErrorKind,
    effect: Effect,
    message: Cow<'static, str>,
    source: Option<Arc<dyn core::error::Error + Send + Sync>>,
}

impl StoreError {
    /// A failure that changed nothing.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, effect: Effect::None, message: message.into(), source: None }
    }

    /// The algorithm or the store cannot do what was asked of a limit.
    pub fn unsupported(limit: &str, why: &str) -> Self {
        Self::new(ErrorKind::Unsupported, format!("limit `{limit}`: {why}"))
    }

    pub(crate) fn no_decision() -> Self {
        Self::new(ErrorKind::Internal, "the store answered a charge without a decision")
    }

    /// The call may have taken effect.
    #[must_use]
    pub fn with_unknown_effect(mut self) -> Self {
        self.effect = Effect::Unknown;
        self
    }

    /// What caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Full)
    }

    /// Whether the call may have changed something.
    pub fn effect(&self) -> Effect {
        self.effect
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.effect == Effect::Unknown {
            f.write_str(" (the call may have taken effect)")?;
        }
        Ok(())
    }
}

impl core::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
