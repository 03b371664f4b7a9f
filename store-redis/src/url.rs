//! Where the servers are: the URL forms.

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tollgate_core::{ErrorKind, StoreError};
use url::Url;

use crate::error::Address;

/// Who to connect to.
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
    /// Each shard with the servers of which one takes writes.
    Shards {
        shards: Vec<Vec<Endpoint>>,
    },
}

/// One server and how to log in.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) info: ConnectionInfo,
}

/// How to log in to a server whose address turns up later.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Any address with the right credentials, database and certificates.
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

/// Who to log in as.
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
    /// The login in the URL is for servers; sentinels have their own.
    pub(crate) fn parse(
        url: &str,
        root_certificate: Option<&[u8]>,
        sentinel_login: Option<&Login>,
    ) -> Result<Self, StoreError> {
        let wrong =
            |what: &str| StoreError::new(ErrorKind::Refused, format!("the URL of redis {what}; {FORMS}"));
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("has no scheme"));
        };
        let (wire, kind) = match scheme.split_once('+') {
            Some((wire, "unix")) => (wire, "unix"),
            Some((wire, kind)) => (wire, kind),
            None => (scheme, "single"),
        };
        if wire != "redis" && wire != "rediss" {
            return Err(wrong("has a scheme that is not one of redis"));
        }
        // A password may contain anything; hosts and paths may not contain an at sign.
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, _)) if login.contains(['/', '?', '#']) => {
                return Err(wrong("has a user or password whose `/`, `?` or `#` must be percent-encoded"));
            }
            Some((login, place)) => (format!("{login}@"), place),
            None => (String::new(), rest),
        };
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        let all: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        if all.is_empty() && kind != "unix" {
            return Err(wrong("names no host"));
        }
        let endpoint = |host: &str, default_port: u16, database: &str| {
            endpoint(wire, &login, host, default_port, database, root_certificate)
        };
        match kind {
            "single" if all.len() > 1 => {
                Err(wrong("names several hosts but does not say whether they are a cluster"))
            }
            "single" => Ok(Self::Single(endpoint(all[0], 6379, path)?)),
            "unix" => Ok(Self::Single(Endpoint { info: with_settings(url, root_certificate)? })),
            "cluster" => {
                if !path.is_empty() && path != "0" {
                    return Err(wrong("names a database, but a cluster has only database 0"));
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
                    return Err(wrong("does not name the primary that the sentinels watch"));
                }
                let sentinels = all
                    .iter()
                    .map(|host| Ok(endpoint(host, 26_379, "")?.with_login(sentinel_login)))
                    .collect::<Result<Vec<_>, _>>()?;
                let primary = Access { template: endpoint(all[0], 26_379, database)?.info };
                Ok(Self::Sentinel { sentinels, name: name.to_owned(), primary })
            }
            _ => Err(wrong("has a scheme that is not one of redis")),
        }
    }
}

fn endpoint(
    wire: &str,
    login: &str,
    host: &str,
    default_port: u16,
    database: &str,
    root_certificate: Option<&[u8]>,
) -> Result<Endpoint, StoreError> {
    let wrong =
        |what: String| StoreError::new(ErrorKind::Refused, format!("the URL of redis {what}; {FORMS}"));
    // The library would take a negative one.
    let number = database.split('?').next().unwrap_or_default();
    if !number.is_empty() && number.parse::<u32>().is_err() {
        return Err(wrong("names a database that is not a number".to_owned()));
    }
    if host.is_empty() {
        return Err(wrong("names no host in one place".to_owned()));
    }
    let mut url = Url::parse(&format!("{wire}://{login}{host}/{database}")).map_err(|problem| {
        // Not the URL itself: it may hold a password.
        wrong(format!("cannot be read: {problem}"))
    })?;
    if url.port().is_none() {
        let _ = url.set_port(Some(default_port));
    }
    Ok(Endpoint { info: with_settings(url.as_str(), root_certificate)? })
}

/// What the library makes of a plain URL, with the protocol that says when a connection ends.
fn with_settings(url: &str, root_certificate: Option<&[u8]>) -> Result<ConnectionInfo, StoreError> {
    let refused = |problem: redis::RedisError| {
        StoreError::new(ErrorKind::Refused, format!("the URL of redis makes no sense: {problem}; {FORMS}"))
    };
    let mut info = url.into_connection_info().map_err(refused)?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        // The process may have chosen its cryptography already; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        if let Some(pem) = root_certificate {
            if CertificateDer::from_pem_slice(pem).is_err() {
                let message =
                    "Config::root_certificate was given no certificate; it takes the text of a PEM file";
                return Err(StoreError::new(ErrorKind::Refused, message));
            }
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.to_vec()) };
            info = Client::build_with_tls(info, certificates).map_err(refused)?.get_connection_info().clone();
        }
    }
    let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    // Small calls that must not wait for more to send.
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    Ok(info.set_redis_settings(login).set_tcp_settings(tcp))
}

impl Endpoint {
    /// The same with another login, or with none.
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

    /// How it is called: no credentials.
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
