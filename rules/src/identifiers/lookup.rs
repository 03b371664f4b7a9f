//! Where the values of attributes come from, and which of them are secrets.

use std::sync::Arc;

use super::key::KeyForm;
use super::{Identifiers, NamedIdentifier};

/// The attribute that has the client's address.
pub(super) const IP: &str = "ip";

/// Attributes that are secrets, compared without case, as the names of headers are.
const SECRETS: [&str; 8] = [
    "api_key",
    "header.authorization",
    "header.cookie",
    "header.proxy-authorization",
    "header.x-api-key",
    "header.x-auth-token",
    // RFC 6750, section 2.3.
    "query.access_token",
    "query.api_key",
];

impl Identifiers {
    /// Returns the attributes that have the value of this one where the request does not, in this order. Empty unless
    /// the attribute was named. They may be named themselves: `lookup_order` follows them.
    pub fn sources(&self, attribute: &str) -> &[Arc<str>] {
        self.find_named(attribute).map_or(&[], |named| &named.from)
    }

    /// Returns all attributes that may have the value of this one, in the order in which they are asked for, the
    /// attribute itself first. Names of names are followed; each attribute appears once.
    ///
    /// Compilers call it once, so that a request costs no search.
    pub(crate) fn lookup_order(&self, attribute: &str) -> Vec<Arc<str>> {
        let mut order: Vec<Arc<str>> = Vec::new();
        let mut pending: Vec<Arc<str>> = vec![Arc::from(attribute)];
        while let Some(name) = pending.pop() {
            if !order.contains(&name) {
                pending.extend(self.sources(&name).iter().rev().cloned());
                order.push(name);
            }
        }
        order
    }

    /// Returns whether values of this attribute are hashed before they become part of a key: API keys, cookies and
    /// credentials in headers and query parameters, attributes that were named as secret, and those that are taken
    /// from one of these.
    pub fn is_secret(&self, attribute: &str) -> bool {
        self.lookup_order(attribute).iter().any(|name| self.is_secret_itself(name))
    }

    /// Returns how values of this attribute are written into keys.
    pub(crate) fn key_form(&self, attribute: &str) -> KeyForm {
        let order = self.lookup_order(attribute);
        let secret = order.iter().any(|name| self.is_secret_itself(name));
        let address = order.iter().any(|name| **name == *IP);
        let (ipv4_prefix, ipv6_prefix) = (self.ip.ipv4_prefix, self.ip.ipv6_prefix);
        match (secret, address) {
            (false, false) => KeyForm::Plain,
            (true, false) => KeyForm::Hashed,
            (false, true) => KeyForm::Network { ipv4_prefix, ipv6_prefix },
            (true, true) => KeyForm::HashedNetwork { ipv4_prefix, ipv6_prefix },
        }
    }

    pub(super) fn find_named(&self, attribute: &str) -> Option<&NamedIdentifier> {
        self.named.iter().find(|named| is_same(&named.name, attribute))
    }

    fn is_secret_itself(&self, attribute: &str) -> bool {
        attribute.starts_with("cookie.")
            || SECRETS.iter().any(|secret| secret.eq_ignore_ascii_case(attribute))
            || self.find_named(attribute).is_some_and(|named| named.secret)
    }
}

/// Compares names of attributes. Those of headers have no case.
fn is_same(one: &str, other: &str) -> bool {
    one == other || (one.starts_with("header.") && one.eq_ignore_ascii_case(other))
}
