//! Conversion of driver and server errors, and the errors of the store itself.

use std::error::Error;

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, NewSessionError, PrepareError, RequestAttemptError,
};
use scylla::statement::Consistency;
use tollgate_core::{ErrorKind, StoreError};

/// Why a request has no response.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The request was certainly not executed.
    NotExecuted(StoreError),
    /// The request may have been executed.
    Unknown(StoreError),
}

impl Failure {
    /// Returns the error of a request that changes nothing.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NotExecuted(error) | Self::Unknown(error) => error,
        }
    }
}

fn error(kind: ErrorKind, what: &str, cause: &(impl Error + Clone + Send + Sync + 'static)) -> StoreError {
    StoreError::new(kind, format!("cassandra {what}: {cause}")).with_source(cause.clone())
}

/// Converts the error of a request.
pub(crate) fn from_execution(cause: &ExecutionError) -> Failure {
    match cause {
        ExecutionError::LastAttemptError(attempt) => from_attempt(attempt),
        ExecutionError::RequestTimeout(_) => {
            Failure::Unknown(error(ErrorKind::Timeout, "did not answer in time", cause))
        }
        ExecutionError::BadQuery(_) => {
            Failure::NotExecuted(error(ErrorKind::Internal, "cannot be sent the request", cause))
        }
        ExecutionError::EmptyPlan => Failure::NotExecuted(error(
            ErrorKind::Unavailable,
            "has no node in the configured datacenter; check Config::local_datacenter",
            cause,
        )),
        ExecutionError::ConnectionPoolError(_) | ExecutionError::PrepareError(_) => {
            Failure::NotExecuted(error(ErrorKind::Unavailable, "cannot be reached", cause))
        }
        _ => Failure::Unknown(error(ErrorKind::Unavailable, "failed", cause)),
    }
}

/// Converts the error of an attempt on one node.
fn from_attempt(cause: &RequestAttemptError) -> Failure {
    let RequestAttemptError::DbError(code, _) = cause else {
        return match cause {
            RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
                Failure::NotExecuted(error(ErrorKind::Internal, "cannot be sent the request", cause))
            }
            RequestAttemptError::UnableToAllocStreamId => {
                Failure::NotExecuted(error(ErrorKind::Unavailable, "has too many requests in flight", cause))
            }
            _ => Failure::Unknown(error(ErrorKind::Unavailable, "lost the connection", cause)),
        };
    };
    if is_not_executed(code) {
        Failure::NotExecuted(from_code(code, cause))
    } else {
        Failure::Unknown(from_code(code, cause))
    }
}

/// Returns whether a node that responds with this error has certainly not executed the request. Too few replicas can
/// also be reported after the replicas have agreed on a transaction, while it is stored; the consistency level is not
/// a serial one then.
pub(crate) fn is_not_executed(code: &DbError) -> bool {
    matches!(
        code,
        DbError::Unavailable { consistency: Consistency::Serial | Consistency::LocalSerial, .. }
            | DbError::IsBootstrapping
            | DbError::SyntaxError
            | DbError::Invalid
            | DbError::Unauthorized
            | DbError::AuthenticationError
            | DbError::ConfigError
            | DbError::Unprepared { .. }
            | DbError::RateLimitReached { .. }
    )
}

fn from_code(code: &DbError, cause: &RequestAttemptError) -> StoreError {
    let (kind, what) = match code {
        DbError::Unavailable { consistency, required, alive } => {
            let message =
                format!("cassandra has {alive} live replicas, but {consistency} requires {required}");
            return StoreError::new(ErrorKind::Unavailable, message).with_source(cause.clone());
        }
        DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. } => (
            ErrorKind::Timeout,
            "did not reach consensus in time: replicas are slow or down, or many clients write the same key",
        ),
        DbError::WriteFailure { .. } | DbError::ReadFailure { .. } => {
            (ErrorKind::Unavailable, "failed on some replicas")
        }
        DbError::Overloaded | DbError::RateLimitReached { .. } => (ErrorKind::Unavailable, "is overloaded"),
        DbError::IsBootstrapping => (ErrorKind::Unavailable, "is still starting"),
        DbError::Unauthorized => {
            (ErrorKind::Refused, "denied a permission; the store needs SELECT and MODIFY on its table")
        }
        DbError::AuthenticationError => (ErrorKind::Refused, "rejected the credentials"),
        DbError::Invalid | DbError::SyntaxError | DbError::ConfigError => (
            ErrorKind::Refused,
            "rejected a statement; does the table exist? Create it with Config::create_schema",
        ),
        _ => (ErrorKind::Unavailable, "failed"),
    };
    error(kind, what, cause)
}

/// Converts the error of a session that could not be opened.
pub(crate) fn from_connect(cause: &NewSessionError, hosts: &str) -> StoreError {
    let (kind, what) = if credentials_rejected(cause) {
        (ErrorKind::Refused, "rejected the credentials; check user and password in the URL")
    } else {
        (ErrorKind::Unavailable, "cannot be reached")
    };
    StoreError::new(kind, format!("cassandra at {hosts} {what}: {cause}")).with_source(cause.clone())
}

/// Returns whether the last connection attempt failed because of the credentials. The driver nests that error deeply.
fn credentials_rejected(cause: &NewSessionError) -> bool {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error: ConnectionError::ConnectionSetupRequestError(setup),
    })) = cause
    else {
        return false;
    };
    matches!(
        setup.error,
        ConnectionSetupRequestErrorKind::MissingAuthentication
            | ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, _)
    )
}

/// Converts the error of a statement that could not be prepared.
pub(crate) fn from_prepare(cause: &PrepareError) -> StoreError {
    match cause {
        PrepareError::AllAttemptsFailed { first_attempt } => from_attempt(first_attempt).into_error(),
        _ => error(ErrorKind::Unavailable, "cannot be reached", cause),
    }
}

/// The runtime was shut down during a connection attempt.
pub(crate) fn connect_task_ended(cause: tokio::task::JoinError) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "cassandra: the task that connects has ended").with_source(cause)
}

/// No response before the deadline.
pub(crate) fn timed_out() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "cassandra did not answer in time")
}

/// Earlier calls of this process held the partition's lock until the deadline.
pub(crate) fn queue_timeout() -> StoreError {
    let what = "cassandra: the call timed out while it waited for earlier calls for the same key";
    let advice = "the cluster is slow, or there are too many calls: batch them (Coalesced)";
    StoreError::new(ErrorKind::Timeout, format!("{what}; {advice}"))
}

/// Since a response was lost, the row has been written more often than it has room to record.
pub(crate) fn outcome_unknown() -> StoreError {
    let what = "cassandra did not answer in time, and the row has been written too often since to find out the outcome";
    StoreError::new(ErrorKind::Timeout, what).with_unknown_effect()
}

/// Other processes changed the row again and again.
pub(crate) fn contention(lost_races: u32) -> StoreError {
    let what = format!("cassandra: {lost_races} times another process was faster to write the same key");
    StoreError::new(ErrorKind::Timeout, format!("{what}; raise Config::call_timeout, or reduce contention"))
}

/// A response that none of the store's statements has.
pub(crate) fn unexpected_response(cause: impl Error + Send + Sync + 'static) -> StoreError {
    let message = format!("cassandra sent an unexpected response: {cause}");
    StoreError::new(ErrorKind::Internal, message).with_source(cause)
}
