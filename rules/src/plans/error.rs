//! Why a plan could not be found or assigned.

use std::fmt;

use tollgate_core::documents::DocumentError;
use tollgate_core::{ConfigError, StoreError};

/// Why a plan could not be found or assigned. Contains no names of users.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// A setting is invalid.
    Config(ConfigError),
    /// The user already has a plan.
    AlreadyRegistered,
    /// The user has no plan, and there is no default plan.
    UnknownUser,
    /// No plan has this name.
    UnknownPlan {
        /// The unknown name.
        plan: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The name of the user cannot be part of the name of a document. Contains what is wrong with it.
    InvalidUser(String),
    /// Somebody else changed the user's plan.
    Conflict {
        /// The version that the change was to replace.
        expected: Option<u64>,
        /// The version that the other change has made. `None` if it has removed the user.
        current: Option<u64>,
    },
    /// The store did not answer, the user's plan is not known from before, and there is no default plan; or a change
    /// failed.
    Store(StoreError),
}

impl PlanError {
    pub(super) fn of_document(error: DocumentError) -> Self {
        match error {
            DocumentError::Conflict { expected, current } => Self::Conflict { expected, current },
            DocumentError::InvalidName(problem) => Self::InvalidUser(problem),
            other => Self::Store(store_error(other)),
        }
    }
}

/// Returns the error of a store that failed, or that has something else than plans.
pub(super) fn store_error(error: DocumentError) -> StoreError {
    match error {
        DocumentError::Store(error) => error,
        other => StoreError::new(tollgate_core::ErrorKind::Refused, other.to_string()),
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::AlreadyRegistered => {
                f.write_str("this user already has a plan; use `change` to assign another one")
            }
            Self::UnknownUser => f.write_str("this user has no plan; use `register`, or set a default plan"),
            Self::UnknownPlan { plan, known } => {
                write!(f, "unknown plan `{plan}`; known plans: {}", known.join(", "))
            }
            Self::InvalidUser(problem) => write!(f, "the name of the user {problem}"),
            Self::Conflict { expected, current } => {
                let version = |version: &Option<u64>| {
                    version.map_or("no plan".to_owned(), |version| format!("version {version}"))
                };
                write!(
                    f,
                    "the change expects {} of this user's plan, but somebody else has made it {}; look at it, and repeat \
                     the change if it is still right",
                    version(expected),
                    version(current)
                )
            }
            Self::Store(error) => write!(f, "the store of plans does not answer: {error}"),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::AlreadyRegistered
            | Self::UnknownUser
            | Self::UnknownPlan { .. }
            | Self::InvalidUser(_)
            | Self::Conflict { .. } => None,
        }
    }
}
