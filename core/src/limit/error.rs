//! The error of a limit that cannot be built.

use alloc::string::String;
use core::fmt;

/// The error of a limit whose parameters are invalid: which field, what is wrong with it, and what would be valid.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use tollgate::Limit;
///
/// let error = Limit::per_second(0).build("api").unwrap_err();
/// assert_eq!(error.field(), "count");
/// assert_eq!(error.to_string(), "limit `api`: count is 0; use at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    pub(super) name: String,
    pub(super) field: &'static str,
    pub(super) problem: String,
    pub(super) advice: String,
}

impl LimitError {
    /// Returns the invalid field.
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns what is wrong with the field.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns what would be valid.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, field, problem, advice } = self;
        write!(f, "limit `{name}`: {field} {problem}; {advice}")
    }
}

impl core::error::Error for LimitError {}
