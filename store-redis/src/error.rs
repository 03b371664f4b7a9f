//! Failures of calls, and the errors that callers get.

use redis::{RedisError, ServerErrorKind};
use tollgate_core::{ErrorKind, Limit, StoreError};

/// Why a call has no result.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The call was not sent.
    NotSent(StoreError),
    /// The call was sent, and its reply was lost: it may have been executed.
    Lost(StoreError),
    /// The server replied that it did not execute the call.
    Refused(Refusal),
}

/// An error reply to a call that was not executed.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// `NOSCRIPT`: the script is not cached.
    NoScript,
    /// `MOVED`: another node owns the slot.
    Moved { slot: u16, address: Address },
    /// `ASK`: the slot is being migrated; this call belongs to the other node.
    Ask { address: Address },
    /// `TRYAGAIN`: only some of the call's keys have been migrated.
    TryAgain(StoreError),
    /// `READONLY`: the server is a replica.
    ReadOnly(StoreError),
    /// The server is not ready: loading, without its primary, or in a cluster that is down.
    NotReady(StoreError),
    /// Any other error.
    Other(StoreError),
}

/// The host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Fault {
    /// Converts into the error that the caller gets.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NotSent(error) => error,
            Self::Lost(error) => error.with_unknown_effect(),
            Self::Refused(refusal) => refusal.into_error(),
        }
    }
}

impl Refusal {
    fn into_error(self) -> StoreError {
        match self {
            Self::NoScript => unavailable("redis keeps flushing its scripts".to_owned()),
            Self::Moved { slot, address } => unavailable(format!(
                "too many redirects of slot {slot}, the last one to {address}: the cluster is being resharded, or its \
                 nodes disagree"
            )),
            Self::Ask { address } => unavailable(format!(
                "too many redirects of a slot, the last one to {address}: the cluster is being resharded"
            )),
            Self::TryAgain(error) | Self::ReadOnly(error) | Self::NotReady(error) | Self::Other(error) => {
                error
            }
        }
    }
}

fn unavailable(message: String) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, message)
}

/// Classifies an error of a call that was sent.
pub(crate) fn after_sending(error: RedisError, server: &str) -> Fault {
    let store_error = |kind, what: &str| {
        let detail = error.detail().unwrap_or_default();
        let code = error.code().unwrap_or_default();
        let text = format!("redis at {server} {what}: {code} {detail}");
        StoreError::new(kind, text.trim_end().to_owned())
    };
    let redis::ErrorKind::Server(kind) = error.kind() else {
        return match error.code() {
            Some(code) => Fault::Refused(other(code, error.detail(), &store_error)),
            None => Fault::Lost(broken(error, server)),
        };
    };
    let redirect = || error.redirect_node().and_then(|(node, slot)| Some((Address::parse(node)?, slot)));
    Fault::Refused(match kind {
        ServerErrorKind::NoScript => Refusal::NoScript,
        ServerErrorKind::Moved => match redirect() {
            Some((address, slot)) => Refusal::Moved { slot, address },
            None => Refusal::NotReady(store_error(
                ErrorKind::Unavailable,
                "moved a slot and did not report the new address",
            )),
        },
        ServerErrorKind::Ask => match redirect() {
            Some((address, _)) => Refusal::Ask { address },
            None => Refusal::NotReady(store_error(
                ErrorKind::Unavailable,
                "is migrating a slot and did not report the target",
            )),
        },
        ServerErrorKind::TryAgain => {
            Refusal::TryAgain(store_error(ErrorKind::Unavailable, "is migrating the keys of a slot"))
        }
        ServerErrorKind::ReadOnly => {
            Refusal::ReadOnly(store_error(ErrorKind::Unavailable, "is a replica and does not accept writes"))
        }
        ServerErrorKind::BusyLoading => {
            Refusal::NotReady(store_error(ErrorKind::Unavailable, "is still loading its data"))
        }
        ServerErrorKind::ClusterDown => {
            Refusal::NotReady(store_error(ErrorKind::Unavailable, "reports that its cluster is down"))
        }
        ServerErrorKind::MasterDown => {
            Refusal::NotReady(store_error(ErrorKind::Unavailable, "has lost its primary"))
        }
        ServerErrorKind::CrossSlot => Refusal::Other(store_error(
            ErrorKind::Refused,
            "is a cluster node; use redis+cluster:// instead of redis://",
        )),
        _ => other(error.code().unwrap_or_default(), error.detail(), &store_error),
    })
}

const NO_PERMISSION: &str =
    "denies a command or a key that the store needs (the crate documentation lists them)";
const FOREIGN_VALUE: &str =
    "value of another program or another version; delete that key, or configure another prefix";

/// Classifies an error by its code, for codes that the client library does not distinguish.
fn other(code: &str, detail: Option<&str>, store_error: &dyn Fn(ErrorKind, &str) -> StoreError) -> Refusal {
    match code {
        "OOM" => Refusal::Other(store_error(ErrorKind::Full, "has no memory for new state (maxmemory)")),
        "WRONGTYPE" | "TOLLGATE" => {
            Refusal::Other(store_error(ErrorKind::Corrupt, &format!("holds a {FOREIGN_VALUE}")))
        }
        "NOAUTH" | "WRONGPASS" => Refusal::Other(store_error(ErrorKind::Refused, "rejected the credentials")),
        "MISCONF" | "NOREPLICAS" => {
            Refusal::NotReady(store_error(ErrorKind::Unavailable, "does not accept writes at the moment"))
        }
        "BUSY" => {
            Refusal::NotReady(store_error(ErrorKind::Unavailable, "is busy with a long-running script"))
        }
        code if is_no_permission(code, detail.unwrap_or_default()) => {
            Refusal::Other(store_error(ErrorKind::Refused, NO_PERMISSION))
        }
        _ => Refusal::Other(store_error(ErrorKind::Internal, "returned an error")),
    }
}

/// Creates the error for a connection that was closed while a call waited for its reply.
fn broken(error: RedisError, server: &str) -> StoreError {
    let message = format!("the connection to redis at {server} was lost: {error}");
    StoreError::new(ErrorKind::Unavailable, message).with_source(error)
}

/// Creates the error for a connection that could not be opened. `tls_hint` is advice in case TLS is the reason.
pub(crate) fn not_connected(error: RedisError, server: &str, tls_hint: &str) -> StoreError {
    let reason = error.to_string();
    let (kind, what) = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Refused, "rejected the credentials; check user and password in the URL".to_owned())
        }
        redis::ErrorKind::InvalidClientConfig => {
            (ErrorKind::Refused, "cannot be connected to with this configuration".to_owned())
        }
        redis::ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => {
            (ErrorKind::Unavailable, "is not ready".to_owned())
        }
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => {
            (ErrorKind::Refused, refused_connection(&error).to_owned())
        }
        // The TLS library reports this only in the text of its error.
        _ if reason.contains("invalid peer certificate") => (
            ErrorKind::Refused,
            "has a certificate that is not trusted; set the root certificate with Config::root_certificate"
                .to_owned(),
        ),
        _ if error.is_timeout() => (ErrorKind::Timeout, format!("did not answer in time; if {tls_hint}")),
        _ if error.is_connection_refusal() => (ErrorKind::Unavailable, "cannot be reached".to_owned()),
        _ => (
            ErrorKind::Unavailable,
            format!("closed the connection during the handshake; check its maxclients, and if {tls_hint}"),
        ),
    };
    StoreError::new(kind, format!("redis at {server} {what}: {reason}")).with_source(error)
}

fn refused_connection(error: &RedisError) -> &'static str {
    match (error.code(), error.detail()) {
        (Some("NOAUTH"), _) => "requires a password; add user and password to the URL",
        (Some("WRONGPASS"), _) => "rejected the credentials; check user and password in the URL",
        (_, Some(detail)) if detail.contains("DB index") => {
            "has no such database; use a lower number at the end of the URL"
        }
        _ => "refused the connection",
    }
}

/// Returns whether an error is a missing permission. Servers before 7.2 have no code for that inside of scripts.
fn is_no_permission(code: &str, text: &str) -> bool {
    code == "NOPERM" || text.contains("The user executing the script can't")
}

/// Adds the name of the limit to an error of a script that decides a single charge.
pub(crate) fn of_charge(error: StoreError, limit: &str) -> StoreError {
    match error.kind() {
        ErrorKind::Corrupt => StoreError::new(ErrorKind::Corrupt, format!("limit `{limit}`: {error}")),
        _ => error,
    }
}

/// Creates the error for one run of a call, from the script's message. The other runs are not affected.
pub(crate) fn of_run(message: &str, limit: &str) -> StoreError {
    let (kind, what) = if is_no_permission(message.split(' ').next().unwrap_or_default(), message) {
        (ErrorKind::Refused, format!("redis {NO_PERMISSION}"))
    } else {
        (ErrorKind::Corrupt, format!("redis holds a {FOREIGN_VALUE}"))
    };
    StoreError::new(kind, format!("limit `{limit}`: {what}: {message}"))
}

/// Creates the error for a limit whose algorithm this crate does not implement.
pub(crate) fn unknown_algorithm(limit: &Limit) -> StoreError {
    let why = format!("the redis store does not implement the algorithm `{}`", limit.kind().name());
    StoreError::unsupported(limit.name(), &why)
}

/// Creates the error for a reply that none of this crate's scripts returns.
pub(crate) fn unexpected_reply(server: &str) -> StoreError {
    let message = format!("redis at {server} returned an unexpected reply");
    StoreError::new(ErrorKind::Internal, message).with_unknown_effect()
}

impl Address {
    /// Parses `host:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}
