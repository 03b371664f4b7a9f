//! Failures of calls, and the errors that callers get.

use redis::{RedisError, ServerErrorKind};
use tollgate_core::store::Run;
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

/// What a server is to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It holds state.
    Redis,
    /// It knows the address of the primary.
    Sentinel,
}

/// A server that connections are opened to.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The address, without credentials.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The URL selects TLS.
    pub(crate) tls: bool,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = match self.role {
            Role::Redis => "redis",
            Role::Sentinel => "the sentinel",
        };
        write!(f, "{role} at {}", self.name)
    }
}

impl Peer {
    /// Returns advice in case the URL has the wrong choice of TLS.
    fn tls_advice(&self) -> &'static str {
        if self.tls {
            "if the server does not use TLS, use redis:// instead of rediss://"
        } else {
            "if the server requires TLS, use rediss:// instead of redis://"
        }
    }

    /// Returns where the user and password of this server are configured.
    fn login_advice(&self) -> &'static str {
        match self.role {
            Role::Redis => "add user and password to the URL",
            Role::Sentinel => {
                "set it with Config::sentinel_login: user and password in the URL are for the redis servers"
            }
        }
    }

    fn wrong_login_advice(&self) -> &'static str {
        match self.role {
            Role::Redis => "check user and password in the URL",
            Role::Sentinel => "check user and password of Config::sentinel_login",
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

/// Classifies an error of a call that was sent to `server` on `host`.
pub(crate) fn after_sending(error: RedisError, server: &str, host: &str) -> Fault {
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
    let redirect =
        || error.redirect_node().and_then(|(node, slot)| Some((Address::parse(node, host)?, slot)));
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

/// Creates the error for a connection that could not be opened.
pub(crate) fn not_connected(error: RedisError, peer: &Peer) -> StoreError {
    let reason = error.to_string();
    let (kind, what) = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Refused, format!("rejected the credentials; {}", peer.wrong_login_advice()))
        }
        redis::ErrorKind::InvalidClientConfig => {
            (ErrorKind::Refused, "cannot be connected to with this configuration".to_owned())
        }
        redis::ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => {
            (ErrorKind::Unavailable, "is not ready".to_owned())
        }
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => refused_connection(&error, peer),
        redis::ErrorKind::Parse => (
            ErrorKind::Unavailable,
            format!("does not speak the Redis protocol; check host and port, and {}", peer.tls_advice()),
        ),
        _ => network_failure(&error, &reason, peer),
    };
    StoreError::new(kind, format!("{peer} {what}: {reason}")).with_source(error)
}

/// Returns the kind and the description of a failure below the Redis protocol. The name lookup and the TLS library
/// report theirs only in the text of the error.
fn network_failure(error: &RedisError, reason: &str, peer: &Peer) -> (ErrorKind, String) {
    if reason.contains("invalid peer certificate") {
        let advice = "set the root certificate with Config::root_certificate";
        (ErrorKind::Refused, format!("has a certificate that is not trusted; {advice}"))
    } else if reason.contains("failed to lookup address") {
        (ErrorKind::Unavailable, "has a host name that cannot be resolved; check the host".to_owned())
    } else if error.is_timeout() {
        (ErrorKind::Timeout, format!("did not answer in time; {}", peer.tls_advice()))
    } else if error.is_connection_refusal() || !is_closed(error) && error.is_io_error() {
        (ErrorKind::Unavailable, "cannot be reached".to_owned())
    } else {
        let advice = peer.tls_advice();
        let what = "closed the connection during the handshake; check its maxclients, and";
        (ErrorKind::Unavailable, format!("{what} {advice}"))
    }
}

/// Returns whether a connection was opened and then closed by the other side.
fn is_closed(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

/// Creates the error for a connection that was not open in time.
pub(crate) fn connect_timed_out(peer: &Peer) -> StoreError {
    let message = format!("timed out while connecting to {peer}; {}", peer.tls_advice());
    StoreError::new(ErrorKind::Timeout, message)
}

fn refused_connection(error: &RedisError, peer: &Peer) -> (ErrorKind, String) {
    let what = match (error.code(), error.detail()) {
        (Some("NOAUTH"), _) => format!("requires a password; {}", peer.login_advice()),
        (Some("WRONGPASS"), _) => format!("rejected the credentials; {}", peer.wrong_login_advice()),
        (_, Some(detail)) if detail.contains("DB index") => {
            "has no such database; use a lower number at the end of the URL".to_owned()
        }
        (_, Some(detail)) if detail.contains("max number of clients") => {
            return (ErrorKind::Unavailable, "has too many clients; raise its maxclients".to_owned());
        }
        _ => "refused the connection".to_owned(),
    };
    (ErrorKind::Refused, what)
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

/// Creates the error for an idempotency key whose record is that of another request.
pub(crate) fn used_for_another_request(run: &Run<'_>) -> StoreError {
    let name = run.request().charges().first().map_or("", |charge| charge.limit().name());
    of_run("TOLLGATE the idempotency key was used for another request", name)
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
    /// Parses the `host:port` of a redirect by a server on `asked`. An empty host is that of the server itself: the
    /// cluster does not know under which names its nodes are reached (`cluster-preferred-endpoint-type
    /// unknown-endpoint`). `None` if the host is missing (`?`), or the text is malformed.
    pub(crate) fn parse(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match host {
            "" if asked.is_empty() => return None,
            "" => asked,
            "?" => return None,
            host => host,
        };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_without_a_host_is_to_the_host_that_was_asked() {
        let parse = |text| Address::parse(text, "asked").map(|address| address.to_string());
        assert_eq!(parse("10.0.0.1:7000").as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(parse("[::1]:7000").as_deref(), Some("[::1]:7000"));
        assert_eq!(parse("::1:7000").as_deref(), Some("[::1]:7000"));
        assert_eq!(parse(":7000").as_deref(), Some("asked:7000"));
        for unknown in ["?:7000", "", "host", "host:", "host:port", "host:99999"] {
            assert_eq!(parse(unknown), None, "{unknown}");
        }
        assert!(Address::parse(":7000", "").is_none(), "a Unix socket has no host");
    }
}
