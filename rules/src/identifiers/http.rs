//! The attributes of an HTTP request.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;

use http::header::{COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};
use percent_encoding::percent_decode_str;

use super::ClientIp;
use super::lookup::IP;
use super::path::normalize_path;
use crate::Attributes;

/// The attributes of an HTTP request. Each is found when it is asked for, and borrowed from the request where it stands
/// there as it is.
///
/// | attribute | value |
/// |---|---|
/// | any | what the application set by [`with_attribute`](Self::with_attribute), which comes first |
/// | `ip` | [the client's address](ClientIp::address), if the peer is known |
/// | `method` | as it is, such as `GET` |
/// | `path` | with escapes decoded, without `//`, `.` and `..`, see below |
/// | `route` | the router's template, if [set](Self::with_route) |
/// | `host` | of the request's authority (HTTP/2) or the header `Host`: in lower case, without port and final dot |
/// | `header.x-tenant` | the header, whatever the case; several values are joined by `, ` |
/// | `cookie.session` | the first cookie of this name, without the quotes around it |
/// | `query.page` | the first parameter of this name, decoded (`%20` and `+` are blanks); empty without `=` |
/// | `claim.org.id` | a [claim](Self::with_claims) |
///
/// Bytes that are not UTF-8 become `\u{fffd}`: they do not hide a value from rules.
///
/// # Paths
///
/// Another spelling of a path does not evade a rule. Escapes are decoded once, except those of `/`, `%`, control
/// characters and bytes that are not UTF-8, which stay escapes with upper-case digits; what is no valid escape stays as
/// it is. Then empty segments and `.` are removed, and `..` with the segment before it: `//a/%2e%2e/%62` is `/b`. A
/// slash at the end stays, and case, `;` and backslashes are not changed. Where the application treats such paths
/// alike, let rules use `route`.
///
/// ```
/// use tollgate::rules::{Attributes, ClientIp, HttpRequest};
///
/// let request = http::Request::get("/orders/../login?next=%2Fhome").header("x-tenant", "acme").body(())?;
/// let (parts, _) = request.into_parts();
/// let client_ip = ClientIp::new();
/// let request = HttpRequest::new(&parts)
///     .with_peer("192.0.2.7".parse()?, &client_ip)
///     .with_attribute("user", "alice");
/// assert_eq!(request.get("path").as_deref(), Some("/login"));
/// assert_eq!(request.get("query.next").as_deref(), Some("/home"));
/// assert_eq!(request.get("header.X-Tenant").as_deref(), Some("acme"));
/// assert_eq!(request.get("ip").as_deref(), Some("192.0.2.7"));
/// assert_eq!(request.get("user").as_deref(), Some("alice"));
/// assert_eq!(request.get("route"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HttpRequest<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    peer: Option<(IpAddr, &'a ClientIp)>,
    route: Option<&'a str>,
    claims: Option<&'a (dyn Attributes + Sync)>,
    set: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Written once, because several rules ask for it.
    ip: OnceLock<String>,
}

impl<'a> HttpRequest<'a> {
    /// Creates the attributes of a request.
    pub fn new(parts: &'a Parts) -> Self {
        Self::from_pieces(&parts.method, &parts.uri, &parts.headers)
    }

    /// Creates the attributes of a request of which only these are at hand.
    pub fn from_pieces(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        Self {
            method,
            uri,
            headers,
            peer: None,
            route: None,
            claims: None,
            set: Vec::new(),
            ip: OnceLock::new(),
        }
    }

    /// Sets the address of the connection's other end, and how the client's address is found behind it. Default: none,
    /// the request has no attribute `ip`.
    #[must_use]
    pub fn with_peer(mut self, peer: IpAddr, client_ip: &'a ClientIp) -> Self {
        self.peer = Some((peer, client_ip));
        self
    }

    /// Sets the router's template of the request, such as `/users/{id}`. Default: none.
    #[must_use]
    pub fn with_route(mut self, route: &'a str) -> Self {
        self.route = Some(route);
        self
    }

    /// Sets the claims of the request's token: a map, a JSON object or an [`Attributes`] of your own. Default: none.
    ///
    /// The token must have been verified: whoever can write these claims chooses who is counted.
    #[must_use]
    pub fn with_claims(mut self, claims: &'a (dyn Attributes + Sync)) -> Self {
        self.claims = Some(claims);
        self
    }

    /// Sets an attribute that the application knows, such as `user`, `app` or `plan`. It replaces an attribute of the
    /// same name, also one of the request itself.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        self.set.retain(|(set, _)| *set != name);
        self.set.push((name, value.into()));
        self
    }

    fn ip(&self) -> Option<Cow<'_, str>> {
        let (peer, client_ip) = self.peer?;
        Some(Cow::Borrowed(self.ip.get_or_init(|| client_ip.address(peer, self.headers).to_string())))
    }

    /// Returns the path, except for requests that have none (`CONNECT`).
    fn path(&self) -> Option<Cow<'_, str>> {
        let path = self.uri.path();
        (!path.is_empty()).then(|| normalize_path(path))
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        let host = match self.uri.authority() {
            Some(authority) => Cow::Borrowed(authority.as_str()),
            None => lossy(self.headers.get(HOST)?),
        };
        let host = match host {
            Cow::Borrowed(host) => lower_case(without_port(host)),
            Cow::Owned(host) => Cow::Owned(lower_case(without_port(&host)).into_owned()),
        };
        (!host.is_empty()).then_some(host)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        // Browsers split cookies over several headers in HTTP/2.
        let separator = if name.eq_ignore_ascii_case(COOKIE.as_str()) { "; " } else { ", " };
        let mut values = self.headers.get_all(name).iter().map(lossy);
        let first = values.next()?;
        Some(values.fold(first, |joined, value| joined + separator + value))
    }

    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        let lines = self.headers.get_all(COOKIE).iter();
        let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let mut found = pairs.filter_map(|pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let (key, value) = (parts.next()?, parts.next()?);
            (key.trim_ascii() == name.as_bytes()).then_some(value.trim_ascii())
        });
        let value = found.next()?;
        let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        Some(String::from_utf8_lossy(unquoted.unwrap_or(value)))
    }

    fn query(&self, name: &str) -> Option<Cow<'_, str>> {
        let parameters = self.uri.query()?.split('&').filter(|parameter| !parameter.is_empty());
        let mut pairs = parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
        pairs.find(|(key, _)| decode_query(key) == name).map(|(_, value)| decode_query(value))
    }
}

impl Attributes for HttpRequest<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        if let Some((_, value)) = self.set.iter().find(|(set, _)| *set == name) {
            return Some(Cow::Borrowed(value));
        }
        match name {
            IP => self.ip(),
            "path" => self.path(),
            "method" => Some(Cow::Borrowed(self.method.as_str())),
            "host" => self.host(),
            "route" => self.route.map(Cow::Borrowed),
            _ => match name.split_once('.')? {
                ("header", name) => self.header(name),
                ("cookie", name) => self.cookie(name),
                ("query", name) => self.query(name),
                ("claim", name) => self.claims?.get(name),
                _ => None,
            },
        }
    }
}

/// Without the query, headers and attributes, which may be secrets.
impl fmt::Debug for HttpRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, uri, peer, route, .. } = self;
        let peer = peer.map(|(peer, _)| peer);
        f.debug_struct("HttpRequest")
            .field("method", method)
            .field("path", &uri.path())
            .field("peer", &peer)
            .field("route", route)
            .finish_non_exhaustive()
    }
}

fn lossy(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Returns the host of an authority: `example.com` of `user@example.com.:8080`, `[2001:db8::1]` of `[2001:db8::1]:80`.
fn without_port(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).trim_ascii();
    let end = if host.starts_with('[') { host.find(']').map(|end| end + 1) } else { host.find(':') };
    let host = &host[..end.unwrap_or(host.len())];
    host.strip_suffix('.').unwrap_or(host)
}

fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

fn decode_query(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        let blanks = text.replace('+', " ");
        return Cow::Owned(percent_decode_str(&blanks).decode_utf8_lossy().into_owned());
    }
    percent_decode_str(text).decode_utf8_lossy()
}
