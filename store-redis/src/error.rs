//! What can go wrong on the way to a server and back.

use redis::{RedisError, ServerErrorKind};
use tollgate_core::{ErrorKind, StoreError};

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It did not leave this process.
    NotSent(StoreError),
    /// It left, and nobody knows what became of it.
    Lost(StoreError),
    /// The server said that it did not do it.
    Refused(Refusal),
}

/// What a server says instead of doing it.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// It does not know the script.
    NoScript,
    /// The slot lives elsewhere.
    Moved { slot: u16, address: Address },
    /// The slot is on its way there; ask there, this once.
    Ask { address: Address },
    /// Some keys of the slot are still on their way.
    TryAgain(StoreError),
    /// It is a replica, by now or again.
    ReadOnly(StoreError),
    /// It is not ready: loading, without its primary, or in a cluster that is down.
    NotReady(StoreError),
    /// Anything else.
    Other(StoreError),
}

/// A server's host and port, as it is reached.
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
    /// What the caller is told.
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
            Self::NoScript => unavailable("redis forgets scripts faster than it learns them".to_owned()),
            Self::Moved { slot, address } => unavailable(format!(
                "slot {slot} keeps moving (last to {address}): the cluster is being resharded or its nodes disagree"
            )),
            Self::Ask { address } => unavailable(format!(
                "a slot keeps moving (last to {address}): the cluster is being resharded"
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

/// An error that a connection gave for a call that was sent.
pub(crate) fn after_sending(error: RedisError, server: &str) -> Fault {
    let said = |kind, what: &str| {
        let detail = error.detail().unwrap_or_default();
        let code = error.code().unwrap_or_default();
        let message = format!("redis at {server} {what}: {code} {detail}");
        StoreError::new(kind, message.trim_end().to_owned())
    };
    let redis::ErrorKind::Server(kind) = error.kind() else {
        return match error.code() {
            Some(code) => Fault::Refused(other(code, error.detail(), &said)),
            None => Fault::Lost(broken(error, server)),
        };
    };
    let redirect = || error.redirect_node().and_then(|(node, slot)| Some((Address::parse(node)?, slot)));
    Fault::Refused(match kind {
        ServerErrorKind::NoScript => Refusal::NoScript,
        ServerErrorKind::Moved => match redirect() {
            Some((address, slot)) => Refusal::Moved { slot, address },
            None => Refusal::NotReady(said(ErrorKind::Unavailable, "moved a slot, without saying where")),
        },
        ServerErrorKind::Ask => match redirect() {
            Some((address, _)) => Refusal::Ask { address },
            None => Refusal::NotReady(said(ErrorKind::Unavailable, "is moving a slot, without saying where")),
        },
        ServerErrorKind::TryAgain => {
            Refusal::TryAgain(said(ErrorKind::Unavailable, "is moving the keys of a slot"))
        }
        ServerErrorKind::ReadOnly => {
            Refusal::ReadOnly(said(ErrorKind::Unavailable, "is a replica and takes no writes"))
        }
        ServerErrorKind::BusyLoading => {
            Refusal::NotReady(said(ErrorKind::Unavailable, "is still loading its data"))
        }
        ServerErrorKind::ClusterDown => {
            Refusal::NotReady(said(ErrorKind::Unavailable, "says that its cluster is down"))
        }
        ServerErrorKind::MasterDown => {
            Refusal::NotReady(said(ErrorKind::Unavailable, "has lost its primary"))
        }
        ServerErrorKind::CrossSlot => Refusal::Other(said(
            ErrorKind::Refused,
            "is a node of a cluster; use redis+cluster:// instead of redis://",
        )),
        _ => other(error.code().unwrap_or_default(), error.detail(), &said),
    })
}

const NO_PERMISSION: &str =
    "does not permit a command or a key that the store needs (the crate's documentation lists them)";
/// In the place of a state.
const STRANGER: &str = "value that is not the limiter's own, or of another version; delete that key, or give the store \
                        a prefix of its own";

/// What a code means that the library has no name for.
fn other(code: &str, detail: Option<&str>, said: &dyn Fn(ErrorKind, &str) -> StoreError) -> Refusal {
    match code {
        "OOM" => Refusal::Other(said(ErrorKind::Full, "has no memory left for new state (maxmemory)")),
        "WRONGTYPE" | "TOLLGATE" => Refusal::Other(said(ErrorKind::Corrupt, &format!("holds a {STRANGER}"))),
        "NOAUTH" | "WRONGPASS" => Refusal::Other(said(ErrorKind::Refused, "wants other credentials")),
        "MISCONF" | "NOREPLICAS" => Refusal::NotReady(said(ErrorKind::Unavailable, "refuses writes for now")),
        "BUSY" => Refusal::NotReady(said(ErrorKind::Unavailable, "is busy with a long script")),
        code if is_no_permission(code, detail.unwrap_or_default()) => {
            Refusal::Other(said(ErrorKind::Refused, NO_PERMISSION))
        }
        _ => Refusal::Other(said(ErrorKind::Internal, "refused")),
    }
}

/// A connection that broke while calls were on their way.
fn broken(error: RedisError, server: &str) -> StoreError {
    let message = format!("redis at {server} lost the connection: {error}");
    StoreError::new(ErrorKind::Unavailable, message).with_source(error)
}

/// A connection that could not be made. `other_wire` says what to use if it was the wrong one of the two.
pub(crate) fn not_connected(error: RedisError, server: &str, other_wire: &str) -> StoreError {
    let reason = error.to_string();
    let (kind, what) = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Refused, "refused the credentials; check user and password in the URL".to_owned())
        }
        redis::ErrorKind::InvalidClientConfig => {
            (ErrorKind::Refused, "cannot be connected to as configured".to_owned())
        }
        redis::ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => {
            (ErrorKind::Unavailable, "is not ready".to_owned())
        }
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => {
            (ErrorKind::Refused, refused_connection(&error).to_owned())
        }
        // The library of certificates says it in its text only.
        _ if reason.contains("invalid peer certificate") => (
            ErrorKind::Refused,
            "has a certificate that is not trusted; name the one to trust by Config::root_certificate"
                .to_owned(),
        ),
        _ if error.is_timeout() => (ErrorKind::Timeout, format!("did not answer in time; if {other_wire}")),
        _ if error.is_connection_refusal() => (ErrorKind::Unavailable, "cannot be reached".to_owned()),
        _ => (
            ErrorKind::Unavailable,
            format!("ended the connection before it was made; check its maxclients, and if {other_wire}"),
        ),
    };
    StoreError::new(kind, format!("redis at {server} {what}: {reason}")).with_source(error)
}

fn refused_connection(error: &RedisError) -> &'static str {
    match (error.code(), error.detail()) {
        (Some("NOAUTH"), _) => "wants a password; write user and password in the URL",
        (Some("WRONGPASS"), _) => "refused the credentials; check user and password in the URL",
        (_, Some(detail)) if detail.contains("DB index") => {
            "has no such database; use a lower number at the end of the URL"
        }
        _ => "refused the connection",
    }
}

/// Whether a user may not do what a script does. Servers before 7.2 have no code for that.
fn is_no_permission(code: &str, text: &str) -> bool {
    code == "NOPERM" || text.contains("The user executing the script can't")
}

/// What a script that decides a single charge said of it.
pub(crate) fn of_charge(error: StoreError, limit: &str) -> StoreError {
    match error.kind() {
        ErrorKind::Corrupt => StoreError::new(ErrorKind::Corrupt, format!("limit `{limit}`: {error}")),
        _ => error,
    }
}

/// What a script said of one run of a call: the others went through.
pub(crate) fn of_run(message: &str, limit: &str) -> StoreError {
    let (kind, what) = if is_no_permission(message.split(' ').next().unwrap_or_default(), message) {
        (ErrorKind::Refused, format!("redis {NO_PERMISSION}"))
    } else {
        (ErrorKind::Corrupt, format!("redis holds a {STRANGER}"))
    };
    StoreError::new(kind, format!("limit `{limit}`: {what}: {message}"))
}

/// An answer that no script of ours gives.
pub(crate) fn not_understood(server: &str) -> StoreError {
    let message = format!("redis at {server} answered in a way that no script of the store does");
    StoreError::new(ErrorKind::Internal, message).with_unknown_effect()
}

impl Address {
    /// From `host:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}
