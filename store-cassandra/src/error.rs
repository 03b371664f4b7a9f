//! What can go wrong on the way to a cluster and back.

use std::error::Error;

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, NewSessionError, PrepareError, RequestAttemptError,
};
use scylla::statement::Consistency;
use tollgate_core::{ErrorKind, StoreError};

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It certainly changed nothing.
    NotDone(StoreError),
    /// Nobody knows what became of it.
    Unknown(StoreError),
}

impl Fault {
    /// What the caller of something that changes nothing is told.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NotDone(error) | Self::Unknown(error) => error,
        }
    }
}

fn error(kind: ErrorKind, what: &str, cause: &(impl Error + Clone + Send + Sync + 'static)) -> StoreError {
    StoreError::new(kind, format!("cassandra {what}: {cause}")).with_source(cause.clone())
}

/// A request that failed.
pub(crate) fn of_request(cause: &ExecutionError) -> Fault {
    match cause {
        ExecutionError::LastAttemptError(attempt) => of_attempt(attempt),
        ExecutionError::RequestTimeout(_) => {
            Fault::Unknown(error(ErrorKind::Timeout, "did not answer in time", cause))
        }
        ExecutionError::BadQuery(_) => {
            Fault::NotDone(error(ErrorKind::Internal, "was asked nonsense", cause))
        }
        ExecutionError::EmptyPlan => Fault::NotDone(error(
            ErrorKind::Unavailable,
            "has no node to ask; check the datacenter that the store was told to use",
            cause,
        )),
        ExecutionError::ConnectionPoolError(_) | ExecutionError::PrepareError(_) => {
            Fault::NotDone(error(ErrorKind::Unavailable, "cannot be reached", cause))
        }
        _ => Fault::Unknown(error(ErrorKind::Unavailable, "failed", cause)),
    }
}

/// An attempt on one node that failed.
fn of_attempt(cause: &RequestAttemptError) -> Fault {
    let RequestAttemptError::DbError(code, _) = cause else {
        return match cause {
            RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
                Fault::NotDone(error(ErrorKind::Internal, "was asked nonsense", cause))
            }
            RequestAttemptError::UnableToAllocStreamId => {
                Fault::NotDone(error(ErrorKind::Unavailable, "has more calls in flight than it takes", cause))
            }
            _ => Fault::Unknown(error(ErrorKind::Unavailable, "lost the connection", cause)),
        };
    };
    if changes_nothing(code) {
        Fault::NotDone(of_code(code, cause))
    } else {
        Fault::Unknown(of_code(code, cause))
    }
}

/// Whether a node that says this has not begun to do what it was asked. Too few replicas may also turn up when they have
/// agreed already and only have to store it, which is said by another level.
pub(crate) fn changes_nothing(code: &DbError) -> bool {
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

fn of_code(code: &DbError, cause: &RequestAttemptError) -> StoreError {
    let (kind, what) = match code {
        DbError::Unavailable { consistency, required, alive } => {
            let what = format!("has {alive} live replicas of the {required} that {consistency} needs");
            return StoreError::new(ErrorKind::Unavailable, what_of(&what)).with_source(cause.clone());
        }
        DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. } => (
            ErrorKind::Timeout,
            "did not agree in time: replicas are slow or away, or many write the same key at once",
        ),
        DbError::WriteFailure { .. } | DbError::ReadFailure { .. } => {
            (ErrorKind::Unavailable, "failed on some replicas")
        }
        DbError::Overloaded | DbError::RateLimitReached { .. } => (ErrorKind::Unavailable, "is overloaded"),
        DbError::IsBootstrapping => (ErrorKind::Unavailable, "is still starting"),
        DbError::Unauthorized => {
            (ErrorKind::Refused, "does not permit what the store needs (SELECT and MODIFY on its table)")
        }
        DbError::AuthenticationError => (ErrorKind::Refused, "refused the credentials"),
        DbError::Invalid | DbError::SyntaxError | DbError::ConfigError => (
            ErrorKind::Refused,
            "does not take the store's statements; is its table there? (Config::create_schema)",
        ),
        _ => (ErrorKind::Unavailable, "failed"),
    };
    error(kind, what, cause)
}

fn what_of(what: &str) -> String {
    format!("cassandra {what}")
}

/// No node of the cluster could be connected to.
pub(crate) fn not_connected(cause: &NewSessionError, hosts: &str) -> StoreError {
    let (kind, what) = if credentials_refused(cause) {
        (ErrorKind::Refused, "refused the credentials; check user and password in the URL")
    } else {
        (ErrorKind::Unavailable, "cannot be reached")
    };
    StoreError::new(kind, format!("cassandra at {hosts} {what}: {cause}")).with_source(cause.clone())
}

/// The driver tells why the last connection that it tried could not be made some levels down.
fn credentials_refused(cause: &NewSessionError) -> bool {
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

/// A statement that could not be prepared.
pub(crate) fn not_prepared(cause: &PrepareError) -> StoreError {
    match cause {
        PrepareError::AllAttemptsFailed { first_attempt } => of_attempt(first_attempt).into_error(),
        _ => error(ErrorKind::Unavailable, "cannot be reached", cause),
    }
}

/// The runtime went away while a connection was made.
pub(crate) fn not_connecting(cause: tokio::task::JoinError) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "cassandra: the task that connects has ended").with_source(cause)
}

/// Nothing came back in the time there was.
pub(crate) fn late() -> StoreError {
    StoreError::new(ErrorKind::Timeout, "cassandra did not answer in time")
}

/// Others of this process were in line before it for as long as it had time.
pub(crate) fn too_many() -> StoreError {
    let what = "cassandra: the calls for this key that came before it took all of its time";
    let advice = "the cluster is slow, or there are too many of them: gather them (Coalesced)";
    StoreError::new(ErrorKind::Timeout, format!("{what}; {advice}"))
}

/// So many others have written the row since a transaction was lost that nobody can tell whether it was among them.
pub(crate) fn forgotten() -> StoreError {
    let what = "cassandra did not answer in time, and too many others have written the row since to tell what became of it";
    StoreError::new(ErrorKind::Timeout, what).with_unknown_effect()
}

/// Other processes changed the row again and again.
pub(crate) fn outrun(times: u32) -> StoreError {
    let what = format!("cassandra: {times} times other processes were faster to write the same key");
    StoreError::new(ErrorKind::Timeout, format!("{what}; give it more time, or have fewer of them"))
}

/// An answer that no statement of ours gives.
pub(crate) fn not_understood(cause: impl Error + Send + Sync + 'static) -> StoreError {
    let message = format!("cassandra answered in a way that no statement of the store does: {cause}");
    StoreError::new(ErrorKind::Internal, message).with_source(cause)
}
