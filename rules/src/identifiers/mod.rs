//! Identifiers: how the attributes of an HTTP request are found, and how their values become keys.

mod address;
mod builder;
mod claims;
mod client_ip;
mod error;
mod forwarded;
mod http;
mod key;
mod lookup;
mod path;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ipnet::IpNet;

pub(crate) use builder::parse_network;
pub use error::IdentifierError;
pub use http::HttpRequest;
pub(crate) use key::KeyForm;

/// How a domain finds the attributes of a request: the section `identifiers` of a rule file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identifiers {
    pub(crate) ip: ClientIp,
    pub(crate) named: Vec<NamedIdentifier>,
}

/// How the client's address is found behind proxies, and which part of it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) header: ForwardedHeader,
    pub(crate) ipv4_prefix: u8,
    pub(crate) ipv6_prefix: u8,
}

/// Which header proxies write the client's address to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// An attribute that is taken from others: `user: claim.sub`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedIdentifier {
    pub(crate) name: Arc<str>,
    /// The attributes that have the value, in this order, unless the request has an attribute of this name itself.
    pub(crate) from: Vec<Arc<str>>,
    /// Whether the value is hashed before it becomes part of a key.
    pub(crate) secret: bool,
}

impl Default for ClientIp {
    fn default() -> Self {
        let header = ForwardedHeader::default();
        Self { trusted_proxies: Vec::new(), header, ipv4_prefix: 32, ipv6_prefix: 64 }
    }
}
