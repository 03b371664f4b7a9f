//! The URL of a cluster: `cassandra://user:password@host,host:port/keyspace?datacenter=…&table=…&documents=…`.

use percent_encoding::percent_decode_str;
use tollgate_core::{ErrorKind, StoreError};

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClusterUrl {
    /// Contact points, with their ports.
    pub(crate) hosts: Vec<String>,
    pub(crate) keyspace: String,
    pub(crate) credentials: Option<(String, String)>,
    pub(crate) table: Option<String>,
    pub(crate) documents: Option<String>,
    pub(crate) datacenter: Option<String>,
}

const FORM: &str = "use cassandra://host/keyspace or cassandra://host1,host2/keyspace";

fn invalid(problem: &str) -> StoreError {
    StoreError::new(ErrorKind::Refused, format!("the cassandra URL {problem}; {FORM}"))
}

impl ClusterUrl {
    /// Parses a URL. Errors never contain the URL itself, which may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let rest = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("cassandra") => rest,
            _ => return Err(invalid("does not start with cassandra://")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            return Err(invalid("has a user or password whose `?` must be percent-encoded"));
        }
        // A password may contain an at sign; hosts and keyspaces cannot.
        let (credentials, location) = match rest.rsplit_once('@') {
            Some((credentials, _)) if credentials.contains(['/', '#', ',']) => {
                return Err(invalid(
                    "has a user or password whose `/`, `#` or `,` must be percent-encoded; write them once, before the \
                     first host",
                ));
            }
            Some((credentials, location)) => (Some(credentials), location),
            None => (None, rest),
        };
        if location.contains('#') || query.contains('#') {
            return Err(invalid("has a fragment (`#`), which it cannot have"));
        }
        let credentials = match credentials.map(|credentials| credentials.split_once(':')) {
            None => None,
            Some(Some((user, password))) if !user.is_empty() && !password.is_empty() => {
                Some((percent_decoded(user)?, percent_decoded(password)?))
            }
            Some(_) => {
                return Err(invalid("has a user without a password, or the reverse; write user:password@"));
            }
        };
        let (hosts, keyspace) = location.split_once('/').unwrap_or((location, ""));
        let hosts: Vec<_> = hosts.split(',').map(str::trim).collect();
        if hosts.iter().all(|host| host.is_empty()) {
            return Err(invalid("has no host"));
        }
        if hosts.contains(&"") {
            return Err(invalid("has an empty host in its list; remove the comma, or add the host"));
        }
        let hosts = hosts.into_iter().map(with_port).collect::<Result<Vec<_>, _>>()?;
        let keyspace = keyspace.strip_suffix('/').unwrap_or(keyspace);
        if keyspace.is_empty() {
            return Err(invalid("has no keyspace"));
        }
        if keyspace.contains('/') {
            return Err(invalid("has more than a keyspace in its path; the table is ?table=name"));
        }
        let (table, documents, datacenter) = (None, None, None);
        let mut url =
            Self { hosts, keyspace: keyspace.to_owned(), credentials, table, documents, datacenter };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decoded(value)?;
            let parameter = match name {
                "table" => &mut url.table,
                "documents" => &mut url.documents,
                "datacenter" => &mut url.datacenter,
                _ => {
                    return Err(invalid(
                        "has an unknown parameter; the parameters are `documents`, `table` and `datacenter`",
                    ));
                }
            };
            if value.is_empty() || parameter.replace(value).is_some() {
                return Err(invalid("has a parameter that is empty or occurs twice"));
            }
        }
        Ok(url)
    }
}

fn percent_decoded(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| invalid("has a percent-encoded part that is not UTF-8"))
}

/// Returns the host with its port. Default: 9042.
fn with_port(host: &str) -> Result<String, StoreError> {
    let port = match host.rsplit_once(':') {
        // An IPv6 address without a port ends in a bracket.
        Some((name, port)) if !port.ends_with(']') => {
            if name.is_empty() || name.contains(':') && !name.ends_with(']') {
                return Err(invalid("has an invalid host; write IPv6 addresses in brackets"));
            }
            Some(port)
        }
        _ => None,
    };
    match port {
        None => Ok(format!("{host}:9042")),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(host.to_owned()),
        Some(_) => Err(invalid("has a port that is not a number from 1 to 65535")),
    }
}

impl std::fmt::Debug for ClusterUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.credentials.as_ref().map(|(user, _)| user);
        f.debug_struct("ClusterUrl")
            .field("hosts", &self.hosts)
            .field("keyspace", &self.keyspace)
            .field("user", &user)
            .field("table", &self.table)
            .field("documents", &self.documents)
            .field("datacenter", &self.datacenter)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_all_parts() {
        let url = "cassandra://bob:p%40ss%2F@db1,db2:9999,[::1],[::2]:7/limits?datacenter=dc%201&table=tolls&documents=d";
        let url = ClusterUrl::parse(url).expect("valid");
        assert_eq!(url.hosts, ["db1:9042", "db2:9999", "[::1]:9042", "[::2]:7"]);
        assert_eq!(url.keyspace, "limits");
        assert_eq!(url.credentials, Some(("bob".to_owned(), "p@ss/".to_owned())));
        assert_eq!((url.table.as_deref(), url.datacenter.as_deref()), (Some("tolls"), Some("dc 1")));
        assert_eq!(url.documents.as_deref(), Some("d"));
        assert!(!format!("{url:?}").contains("p@ss"));
    }

    #[test]
    fn the_case_of_the_scheme_does_not_matter() {
        let parse = |url| ClusterUrl::parse(url).expect("valid");
        assert_eq!(parse("Cassandra://db/limits"), parse("cassandra://db/limits"));
    }

    #[test]
    fn errors_name_the_problem_and_no_secrets() {
        for (url, problem) in [
            ("http://bob:secret@db/limits", "does not start with cassandra://"),
            ("cassandra:///limits", "has no host"),
            ("cassandra://bob:secret@db", "has no keyspace"),
            ("cassandra://bob:secret@db/", "has no keyspace"),
            ("cassandra://secret@db/limits", "user without a password"),
            ("cassandra://bob:secret/x@db/limits", "percent-encoded"),
            ("cassandra://bob:secret?x@db/limits", "percent-encoded"),
            ("cassandra://db:port/limits", "not a number from 1 to 65535"),
            ("cassandra://db:0/limits", "not a number from 1 to 65535"),
            ("cassandra://::1/limits", "in brackets"),
            ("cassandra://db/limits?speed=secret", "`table` and `datacenter`"),
            ("cassandra://bob:@db/limits", "user without a password"),
            ("cassandra://:secret@db/limits", "or the reverse"),
            ("cassandra://bob:secret#x@db/limits", "percent-encoded"),
            ("cassandra://db1,bob:secret@db2/limits", "before the first host"),
            ("cassandra://db/limits#secret", "fragment"),
            ("cassandra://db/limits?table=a#secret", "fragment"),
            ("cassandra://db1,,db2/limits", "empty host"),
            ("cassandra://db1,/limits", "empty host"),
            ("cassandra://db/limits/secret", "?table=name"),
            ("cassandra://db/limits//", "?table=name"),
            ("cassandra://db/limits?table=", "empty or occurs twice"),
            ("cassandra://db/limits?table", "empty or occurs twice"),
            ("cassandra://db/limits?table=a&table=b", "empty or occurs twice"),
            ("cassandra+x://db/limits", "does not start with cassandra://"),
        ] {
            let error = ClusterUrl::parse(url).expect_err(url).to_string();
            assert!(error.contains(problem) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
