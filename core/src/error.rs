//! Errors of stores, and of configurations that cannot be built.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached or is not ready.
    Unavailable,
    /// The store did not answer in time.
    Timeout,
    /// The store refused the call: credentials, permissions, configuration.
    Refused,
    /// The store has no room for more state.
    Full,
    /// The stored state is not in a format that this version reads.
    Corrupt,
    /// The algorithm or the store does not support the call.
    Unsupported,
    /// A bug, in this library or in the store.
    Internal,
}

impl ErrorKind {
    /// Returns its name, for logs and metric labels.
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

/// Whether a failed call may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It has not.
    None,
    /// It may have. Repeat it only with the same [`IdempotencyKey`](crate::IdempotencyKey), or count it as spent.
    Unknown,
}

/// An error of a call to a store. A denial is not an error.
///
/// It can be cloned, because one failed call may answer many callers.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: ErrorKind,
    effect: Effect,
    message: Cow<'static, str>,
    source: Option<Arc<dyn core::error::Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of a call that took no effect.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, effect: Effect::None, message: message.into(), source: None }
    }

    /// Creates an error for a limit that does not support the call.
    pub fn unsupported(limit: &str, why: &str) -> Self {
        Self::new(ErrorKind::Unsupported, format!("limit `{limit}`: {why}"))
    }

    pub(crate) fn no_decision() -> Self {
        Self::new(ErrorKind::Internal, "the store returned no decision for a charge")
    }

    /// Marks that the call may have taken effect.
    #[must_use]
    pub fn with_unknown_effect(mut self) -> Self {
        self.effect = Effect::Unknown;
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Full)
    }

    /// Returns whether the call may have taken effect.
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

/// The error of a wrapper whose configuration is invalid: which setting, what is wrong with it, and what would be
/// valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    subject: &'static str,
    setting: &'static str,
    problem: String,
    advice: String,
}

impl ConfigError {
    /// Creates an error about a setting of `subject`. The parts read as one sentence: "`Guarded`: `deadline` is 0ns;
    /// use more than zero".
    pub fn new(
        subject: &'static str,
        setting: &'static str,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { subject, setting, problem: problem.into(), advice: advice.into() }
    }

    /// Returns the invalid setting: the name of the builder's method.
    pub fn setting(&self) -> &'static str {
        self.setting
    }

    /// Returns what is wrong with the setting.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns what would be valid.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, setting, problem, advice } = self;
        write!(f, "`{subject}`: `{setting}` {problem}; {advice}")
    }
}

impl core::error::Error for ConfigError {}
