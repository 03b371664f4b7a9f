//! Where the cluster is: `cassandra://user:password@host,host:port/keyspace?datacenter=…&table=…`.

use percent_encoding::percent_decode_str;
use tollgate_core::{ErrorKind, StoreError};

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// With their ports.
    pub(crate) hosts: Vec<String>,
    pub(crate) keyspace: String,
    pub(crate) login: Option<(String, String)>,
    pub(crate) table: Option<String>,
    pub(crate) datacenter: Option<String>,
}

const FORM: &str = "use cassandra://host/keyspace, with further hosts after commas";

fn wrong(what: &str) -> StoreError {
    StoreError::new(ErrorKind::Refused, format!("the URL of cassandra {what}; {FORM}"))
}

impl Target {
    /// Errors never show the URL itself: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let rest =
            url.strip_prefix("cassandra://").ok_or_else(|| wrong("does not begin with cassandra://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(wrong("has a user or password whose `?` must be percent-encoded"));
        }
        // A password may contain nearly anything; hosts and keyspaces may not contain an at sign.
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, _)) if login.contains('/') => {
                return Err(wrong("has a user or password whose `/` must be percent-encoded"));
            }
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let login = match login.map(|login| login.split_once(':')) {
            None => None,
            Some(None) => return Err(wrong("names a user without a password; write user:password@")),
            Some(Some((user, password))) => Some((decoded(user)?, decoded(password)?)),
        };
        let (hosts, keyspace) = place.split_once('/').unwrap_or((place, ""));
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let hosts = hosts.map(with_port).collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(wrong("names no host"));
        }
        let keyspace = keyspace.trim_end_matches('/');
        if keyspace.is_empty() {
            return Err(wrong("names no keyspace"));
        }
        let mut target = Self { hosts, keyspace: keyspace.to_owned(), login, table: None, datacenter: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match name {
                "table" => target.table = Some(value),
                "datacenter" => target.datacenter = Some(value),
                _ => {
                    return Err(wrong(
                        "has a parameter that there is not; there are `table` and `datacenter`",
                    ));
                }
            }
        }
        Ok(target)
    }
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| wrong("has a percent-encoded part that is not UTF-8"))
}

/// The host with its port, 9042 unless said.
fn with_port(host: &str) -> Result<String, StoreError> {
    let port = match host.rsplit_once(':') {
        // An IPv6 address without a port ends in a bracket.
        Some((name, port)) if !port.ends_with(']') => {
            if name.is_empty() || name.contains(':') && !name.ends_with(']') {
                return Err(wrong("has a host that is none; write IPv6 addresses in brackets"));
            }
            Some(port)
        }
        _ => None,
    };
    match port {
        None => Ok(format!("{host}:9042")),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(host.to_owned()),
        Some(_) => Err(wrong("has a port that is not a number from 1 to 65535")),
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("Target")
            .field("hosts", &self.hosts)
            .field("keyspace", &self.keyspace)
            .field("user", &user)
            .field("table", &self.table)
            .field("datacenter", &self.datacenter)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_url() {
        let url = "cassandra://bob:p%40ss%2F@db1,db2:9999,[::1],[::2]:7/limits?datacenter=dc%201&table=tolls";
        let target = Target::parse(url).expect("valid");
        assert_eq!(target.hosts, ["db1:9042", "db2:9999", "[::1]:9042", "[::2]:7"]);
        assert_eq!(target.keyspace, "limits");
        assert_eq!(target.login, Some(("bob".to_owned(), "p@ss/".to_owned())));
        assert_eq!((target.table.as_deref(), target.datacenter.as_deref()), (Some("tolls"), Some("dc 1")));
        assert!(!format!("{target:?}").contains("p@ss"));
    }

    #[test]
    fn what_is_wrong_is_said_without_secrets() {
        for (url, what) in [
            ("http://bob:secret@db/limits", "does not begin with cassandra://"),
            ("cassandra:///limits", "names no host"),
            ("cassandra://bob:secret@db", "names no keyspace"),
            ("cassandra://bob:secret@db/", "names no keyspace"),
            ("cassandra://secret@db/limits", "user without a password"),
            ("cassandra://bob:secret/x@db/limits", "percent-encoded"),
            ("cassandra://bob:secret?x@db/limits", "percent-encoded"),
            ("cassandra://db:port/limits", "not a number from 1 to 65535"),
            ("cassandra://db:0/limits", "not a number from 1 to 65535"),
            ("cassandra://::1/limits", "in brackets"),
            ("cassandra://db/limits?speed=secret", "`table` and `datacenter`"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(what) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
