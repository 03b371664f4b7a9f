//! Parses the URL forms.

use std::collections::BTreeSet;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tollgate_core::{ErrorKind, StoreError};
use url::Url;

use crate::error::Address;

/// The servers that a URL names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Single(Endpoint),
    Sentinel {
        sentinels: Vec<Endpoint>,
        name: String,
        primary: Access,
    },
    Cluster {
        seeds: Vec<Address>,
        access: Access,
    },
    /// The servers of each shard; one of them accepts writes.
    Shards {
        shards: Vec<Vec<Endpoint>>,
    },
}

/// A server, with its credentials.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) info: ConnectionInfo,
}

/// Credentials, database and TLS settings for servers whose addresses are discovered later.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Any address, with the right credentials, database and certificates.
    template: ConnectionInfo,
}

impl Access {
    pub(crate) fn to(&self, address: &Address) -> ConnectionInfo {
        let (host, port) = (address.host.clone(), address.port);
        let addr = match self.template.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.template.clone().set_addr(addr)
    }
}

const FORMS: &str = "use redis://host, rediss://host, redis+sentinel://host,…/name, redis+cluster://host,… or \
                     redis+shards://host,…";

/// Creates an error about the URL. It never contains the URL itself, which may contain a password.
fn invalid(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Refused, format!("the redis URL {what}; {FORMS}"))
}

/// A user and a password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Target {
    /// Returns only the first of several shards.
    pub(crate) fn first_shard(mut self) -> Self {
        match &mut self {
            Self::Shards { shards } => shards.truncate(1),
            Self::Single(_) | Self::Sentinel { .. } | Self::Cluster { .. } => {}
        }
        self
    }

    /// Parses a URL. Its login is for the Redis servers; sentinels have their own.
    pub(crate) fn parse(
        url: &str,
        root_certificate: Option<&[u8]>,
        sentinel_login: Option<&Login>,
    ) -> Result<Self, StoreError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("has no scheme"));
        };
        let scheme = scheme.to_ascii_lowercase();
        let (protocol, kind) = scheme.split_once('+').unwrap_or((&scheme, "single"));
        if protocol != "redis" && protocol != "rediss" {
            return Err(invalid("has an unknown scheme"));
        }
        if kind == "unix" {
            return unix_socket(protocol, rest).map(Self::Single);
        }
        // A password may contain an at sign; hosts and paths may not.
        let (login, location) = match rest.rsplit_once('@') {
            Some((login, location)) => (checked_login(login, kind)?, location),
            None => (String::new(), rest),
        };
        if location.contains(['?', '#']) {
            return Err(invalid(
                "has a parameter or a fragment (`?` or `#`), which it cannot have; TLS is the scheme rediss://, the \
                 database is the path, and Config has all other options",
            ));
        }
        let (hosts, path) = location.split_once('/').unwrap_or((location, ""));
        let all: Vec<&str> = hosts.split(',').map(str::trim).collect();
        if all.iter().all(|host| host.is_empty()) {
            return Err(invalid("has no host"));
        }
        if all.contains(&"") {
            return Err(invalid("has an empty host in its list; remove the comma, or add the host"));
        }
        let endpoint = |host: &str, default_port: u16, database: &str| {
            endpoint(protocol, &login, host, default_port, database, root_certificate)
        };
        match kind {
            "single" if all.len() > 1 => {
                Err(invalid("lists several hosts, but its scheme is for a single server"))
            }
            "single" => Ok(Self::Single(endpoint(all[0], 6379, path)?)),
            "cluster" => {
                if !path.is_empty() && path != "0" {
                    return Err(invalid("has a database, but a cluster has only database 0"));
                }
                let endpoints =
                    all.iter().map(|host| endpoint(host, 6379, "")).collect::<Result<Vec<_>, _>>()?;
                let seeds = endpoints.iter().filter_map(Endpoint::address).collect();
                Ok(Self::Cluster { seeds, access: Access { template: endpoints[0].info.clone() } })
            }
            "shards" => {
                let shards = all
                    .iter()
                    .map(|shard| shard.split('|').map(|host| endpoint(host, 6379, path)).collect())
                    .collect::<Result<Vec<Vec<_>>, _>>()?;
                Ok(Self::Shards { shards })
            }
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(invalid("lacks the name of the primary that the sentinels monitor"));
                }
                let sentinels = all
                    .iter()
                    .map(|host| Ok(endpoint(host, 26_379, "")?.with_login(sentinel_login)))
                    .collect::<Result<Vec<_>, _>>()?;
                let primary = Access { template: endpoint(all[0], 26_379, database)?.info };
                Ok(Self::Sentinel { sentinels, name: name.to_owned(), primary })
            }
            _ => Err(invalid("has an unknown scheme")),
        }
    }
}

/// Returns the login in front of the hosts, with its at sign. The client library ignores a user without a password.
fn checked_login(login: &str, kind: &str) -> Result<String, StoreError> {
    if login.contains(['/', '?', '#']) {
        return Err(invalid("has a user or password with a `/`, `?` or `#` that must be percent-encoded"));
    }
    if kind != "single" && login.contains(',') {
        return Err(invalid(
            "has a `,` before its `@`; write user and password once, before the first host, with `,` percent-encoded",
        ));
    }
    match login.split_once(':') {
        Some((_, password)) if !password.is_empty() => Ok(format!("{login}@")),
        _ => Err(invalid(
            "has a user without a password; write user:password@, or :password@ for the default user, or nothing if \
             the server requires no password",
        )),
    }
}

/// Parses the path and the parameters of a Unix socket.
fn unix_socket(protocol: &str, rest: &str) -> Result<Endpoint, StoreError> {
    if protocol != "redis" {
        return Err(invalid("has TLS on a Unix socket; write redis+unix:///path"));
    }
    let url = Url::parse(&format!("redis+unix://{rest}")).map_err(|_| invalid("cannot be parsed"))?;
    let is_path = rest.starts_with('/') && url.path().len() > 1;
    if !is_path || url.fragment().is_some() {
        return Err(invalid(
            "is not the path of a Unix socket; write redis+unix:///path?db=0&user=name&pass=word",
        ));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in url.query_pairs() {
        let is_valid = match &*name {
            "db" => value.parse::<u32>().is_ok(),
            "user" | "pass" => !value.is_empty(),
            _ => {
                return Err(invalid(
                    "has an unknown parameter; those of a Unix socket are db, user and pass",
                ));
            }
        };
        if !is_valid || !seen.insert(name.into_owned()) {
            return Err(invalid("has a parameter that is empty, is not a database number, or occurs twice"));
        }
    }
    if seen.contains("user") && !seen.contains("pass") {
        return Err(invalid("has a user without a password; add pass"));
    }
    Ok(Endpoint { info: connection_info(url.as_str(), None)? })
}

fn endpoint(
    protocol: &str,
    login: &str,
    host: &str,
    default_port: u16,
    database: &str,
    root_certificate: Option<&[u8]>,
) -> Result<Endpoint, StoreError> {
    // The client library accepts negative numbers.
    if !database.is_empty() && database.parse::<u32>().is_err() {
        return Err(invalid("has a database that is not a number"));
    }
    if host.is_empty() {
        return Err(invalid("has an empty host"));
    }
    let mut url = Url::parse(&format!("{protocol}://{login}{host}/{database}"))
        .map_err(|problem| invalid(&format!("cannot be parsed: {problem}")))?;
    match url.port() {
        Some(0) => return Err(invalid("has the port 0; use 1 to 65535")),
        Some(_) => {}
        None => drop(url.set_port(Some(default_port))),
    }
    Ok(Endpoint { info: connection_info(url.as_str(), root_certificate)? })
}

/// Parses a plain URL, and selects RESP3, which reports when a connection is closed.
fn connection_info(url: &str, root_certificate: Option<&[u8]>) -> Result<ConnectionInfo, StoreError> {
    let refused = |problem: redis::RedisError| {
        StoreError::new(ErrorKind::Refused, format!("the redis URL is invalid: {problem}; {FORMS}"))
    };
    let mut info = url.into_connection_info().map_err(refused)?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        // Fails if the process has installed a crypto provider already, which is used then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if let Some(pem) = root_certificate {
            if CertificateDer::from_pem_slice(pem).is_err() {
                let message = "Config::root_certificate is not a PEM certificate";
                return Err(StoreError::new(ErrorKind::Refused, message));
            }
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.to_vec()) };
            info = Client::build_with_tls(info, certificates).map_err(refused)?.get_connection_info().clone();
        }
    }
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    // Calls are small and must not wait for more data to send.
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
}

impl Endpoint {
    /// Replaces the login; without one, removes it.
    fn with_login(self, login: Option<&Login>) -> Self {
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.info.redis_settings().db())
            .set_protocol(self.info.redis_settings().protocol());
        if let Some(login) = login {
            settings = settings.set_password(&login.password);
            if let Some(user) = &login.user {
                settings = settings.set_username(user);
            }
        }
        Self { info: self.info.set_redis_settings(settings) }
    }

    /// Returns the address as text, without credentials.
    pub(crate) fn name(&self) -> String {
        self.info.addr().to_string()
    }

    pub(crate) fn address(&self) -> Option<Address> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address { host: host.clone(), port: *port })
            }
            _ => None,
        }
    }
}
