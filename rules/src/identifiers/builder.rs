//! Identifiers that are configured in code.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

use super::error::IdentifierError;
use super::lookup::IP;
use super::{ClientIp, ForwardedHeader, Identifiers, NamedIdentifier};
use crate::diagnostic::quoted;
use crate::units::Advice;

/// Names that mean a part of the HTTP request.
const PREFIXES: [&str; 4] = ["header.", "cookie.", "query.", "claim."];

/// How many bits of an IPv6 address are those of an IPv4 address in it.
const MAPPED_BITS: u8 = 96;

impl Identifiers {
    /// Creates identifiers without trusted proxies and without named attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how the client's address is found.
    pub fn ip(&self) -> &ClientIp {
        &self.ip
    }

    /// Sets how the client's address is found. Default: [`ClientIp::new`].
    #[must_use]
    pub fn with_ip(mut self, ip: ClientIp) -> Self {
        self.ip = ip;
        self
    }

    /// Names an attribute that is taken from others: `user` from `claim.sub` or else from `header.x-user`. The first
    /// that the request has counts; an attribute that the application sets comes before all of them.
    pub fn with_named<S: AsRef<str>>(
        mut self,
        name: &str,
        from: impl IntoIterator<Item = S>,
    ) -> Result<Self, IdentifierError> {
        let invalid = |name: &str, advice: &str| {
            Err(IdentifierError::InvalidName { name: name.to_owned(), advice: advice.to_owned() })
        };
        if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return invalid(name, "it already means a part of the request; use another name, such as `user`");
        }
        if name == IP {
            return invalid(name, "it is the client's address; configure that by `with_ip`");
        }
        let from: Vec<Arc<str>> = from.into_iter().map(|source| Arc::from(source.as_ref())).collect();
        for name in from.iter().map(|source| &**source).chain([name]) {
            check_name(name)?;
        }
        if from.is_empty() {
            return Err(IdentifierError::NoSource(name.to_owned()));
        }
        match self.named.iter_mut().find(|named| *named.name == *name) {
            // It was marked as secret before.
            Some(named) if named.from.is_empty() => named.from = from,
            Some(_) => return Err(IdentifierError::DuplicateName(name.to_owned())),
            None => self.named.push(NamedIdentifier { name: name.into(), from, secret: false }),
        }
        let leads_back = |source: &Arc<str>| self.lookup_order(source).iter().any(|found| **found == *name);
        if self.sources(name).iter().any(leads_back) {
            return Err(IdentifierError::Cycle(name.to_owned()));
        }
        Ok(self)
    }

    /// Marks an attribute as secret, such as `badge` or `header.x-badge`: its values are hashed before they become part
    /// of a key. So are those of attributes that are taken from it. API keys, cookies and credentials in headers are
    /// secret already.
    pub fn with_secret(mut self, name: &str) -> Result<Self, IdentifierError> {
        check_name(name)?;
        match self.named.iter_mut().find(|named| *named.name == *name) {
            Some(named) => named.secret = true,
            None => self.named.push(NamedIdentifier { name: name.into(), from: Vec::new(), secret: true }),
        }
        Ok(self)
    }

    /// Adds what these identifiers do not say themselves. Names that lead back to themselves by that are harmless: each
    /// is looked up once.
    pub(crate) fn add_defaults(&mut self, defaults: &Self) {
        if self.ip == ClientIp::default() {
            self.ip = defaults.ip.clone();
        }
        for default in &defaults.named {
            match self.named.iter_mut().find(|named| named.name == default.name) {
                Some(named) => {
                    named.secret |= default.secret;
                    if named.from.is_empty() {
                        named.from.clone_from(&default.from);
                    }
                }
                None => self.named.push(default.clone()),
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), IdentifierError> {
    let advice = if name.is_empty() || PREFIXES.contains(&name) {
        "write a name, such as `user` or `header.x-tenant`"
    } else if name.contains(|char: char| char.is_whitespace() || char.is_control()) {
        "write it without blanks and control characters"
    } else {
        return Ok(());
    };
    Err(IdentifierError::InvalidName { name: name.to_owned(), advice: advice.to_owned() })
}

impl ClientIp {
    /// Creates the default: no proxy is trusted, so the peer's address counts; IPv4 addresses are counted one by one,
    /// IPv6 addresses by their /64.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the networks of trusted proxies.
    pub fn trusted_proxies(&self) -> &[IpNet] {
        &self.trusted_proxies
    }

    /// Sets the trusted proxies: networks (`10.0.0.0/8`) and single addresses (`192.0.2.1`), as text or as values.
    /// Default: none.
    ///
    /// Trust only networks in which no client is: a trusted address may claim any address.
    pub fn with_trusted_proxies(
        mut self,
        proxies: impl IntoIterator<Item = impl Display>,
    ) -> Result<Self, IdentifierError> {
        let networks = proxies.into_iter().map(|proxy| {
            let text = proxy.to_string();
            parse_network(&text)
                .map_err(|Advice { advice, .. }| IdentifierError::InvalidNetwork { text, advice })
        });
        self.trusted_proxies = networks.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Returns the header that has the client's address.
    pub fn header(&self) -> ForwardedHeader {
        self.header
    }

    /// Sets the header to which trusted proxies write the address of whom they serve. Default: `X-Forwarded-For`.
    ///
    /// Choose the one that your proxies write. The other one is the client's, and is ignored.
    #[must_use]
    pub fn with_header(mut self, header: ForwardedHeader) -> Self {
        self.header = header;
        self
    }

    /// Returns how many bits of an IPv4 address are counted.
    pub fn ipv4_prefix(&self) -> u8 {
        self.ipv4_prefix
    }

    /// Sets how many bits of an IPv4 address are counted, 1 to 32. Default: 32, each address for itself.
    pub fn with_ipv4_prefix(mut self, prefix: u8) -> Result<Self, IdentifierError> {
        self.ipv4_prefix = check_prefix(prefix, 32)?;
        Ok(self)
    }

    /// Returns how many bits of an IPv6 address are counted.
    pub fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }

    /// Sets how many bits of an IPv6 address are counted, 1 to 128. Default: 64, which is the least that a client has
    /// for itself, and within which it may choose any address.
    pub fn with_ipv6_prefix(mut self, prefix: u8) -> Result<Self, IdentifierError> {
        self.ipv6_prefix = check_prefix(prefix, 128)?;
        Ok(self)
    }
}

fn check_prefix(prefix: u8, bits: u8) -> Result<u8, IdentifierError> {
    if (1..=bits).contains(&prefix) {
        Ok(prefix)
    } else {
        Err(IdentifierError::InvalidPrefix { prefix, bits })
    }
}

/// Reads a network or an address, which is a network of one. IPv4 in IPv6 becomes IPv4, as clients' addresses do.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, Advice> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_canonical().into());
    }
    let Ok(network) = text.parse::<IpNet>() else {
        let advice = if text.contains('*') {
            "write a network in place of `*`, such as `10.1.0.0/16` for `10.1.*`"
        } else {
            "write one such as `203.0.113.7`, `10.0.0.0/8` or `\"2001:db8::/32\"`"
        };
        let message = format!("{} is neither an address nor a network", quoted(text));
        return Err(Advice { message, advice: advice.to_owned() });
    };
    if network != network.trunc() {
        return Err(Advice {
            message: format!("{} has bits set behind its first {}", quoted(text), network.prefix_len()),
            advice: format!("the network is `{}`, the address is `{}`", network.trunc(), network.addr()),
        });
    }
    let mapped = match network {
        IpNet::V4(_) => None,
        IpNet::V6(network) => {
            network.addr().to_ipv4_mapped().zip(network.prefix_len().checked_sub(MAPPED_BITS))
        }
    };
    Ok(mapped.map_or(network, |(address, prefix)| Ipv4Net::new_assert(address, prefix).into()))
}
