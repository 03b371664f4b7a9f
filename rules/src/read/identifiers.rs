//! `identifiers`: how the attributes of an HTTP request are found.

use std::collections::HashMap;
use std::sync::Arc;

use super::attribute::FAMILIES;
use super::fields::{CLIENT_IP, IDENTIFIER, IDENTIFIERS};
use super::reader::{Reader, kind_of};
use super::section::Setting;
use crate::diagnostic::quoted;
use crate::identifiers::{ClientIp, ForwardedHeader, Identifiers, NamedIdentifier};
use crate::source::{Span, Spanned};
use crate::syntax::tree::{Node, Value};

/// Where the identifiers of a domain were read, for those of the next file.
pub(super) type IdentifierPlaces = HashMap<Arc<str>, Span>;

/// The most identifiers of a domain: names of names are followed.
const MAX_IDENTIFIERS: usize = 100;

impl Reader<'_> {
    /// Reads identifiers into those of the domain.
    pub(super) fn identifiers(
        &mut self,
        setting: &Setting<'_>,
        identifiers: &mut Identifiers,
        places: &mut IdentifierPlaces,
    ) {
        let Some(section) = self.section(&IDENTIFIERS, "`identifiers`", setting.node) else { return };
        if let Some(ip) = section.get("ip")
            && self.is_first("ip", ip.key, places)
            && let Some(read) = self.client_ip(&ip)
        {
            identifiers.ip = read;
        }
        for (key, node) in section.others() {
            let Some(name) = self.attribute(&key.value, key.span) else { continue };
            if *name.value == *"ip" || !self.is_first(&name.value, key.span, places) {
                continue;
            }
            if FAMILIES.iter().any(|family| name.value.starts_with(&format!("{family}."))) {
                let message = format!("{} already is a part of the request", quoted(&name.value));
                self.error(name.span, message, "use another name, such as `user`");
                continue;
            }
            if identifiers.named.len() == MAX_IDENTIFIERS {
                let message = format!("more than {MAX_IDENTIFIERS} identifiers");
                self.error(key.span, message, "rules can use `header.…`, `claim.…` and the like directly");
                return;
            }
            if let Some(named) = self.identifier(name, node) {
                identifiers.named.push(named);
            }
        }
        self.cycles(identifiers, places);
    }

    /// Reports identifiers that are taken from themselves through others: each cycle once, where it is first read.
    fn cycles(&mut self, identifiers: &Identifiers, places: &IdentifierPlaces) {
        let mut reported: Vec<Arc<str>> = Vec::new();
        for NamedIdentifier { name, .. } in &identifiers.named {
            let Some(way) = way_back(identifiers, name).filter(|_| !reported.contains(name)) else {
                continue;
            };
            let steps: Vec<_> = way.iter().map(|step| quoted(step)).collect();
            let message = format!("{} is taken from itself: from {}", quoted(name), steps.join(", "));
            if let Some(span) = places.get(name) {
                self.error(*span, message, "remove one of these: an attribute cannot have its own value");
            }
            reported.extend(way);
        }
    }

    fn is_first(&mut self, name: &str, span: Span, places: &mut IdentifierPlaces) -> bool {
        if let Some(first) = places.insert(name.into(), span) {
            let place = self.place(first, span);
            let message = format!("the identifier {} exists already ({place})", quoted(name));
            self.error(span, message, "write it once, with all that it is taken from");
            return false;
        }
        true
    }

    fn client_ip(&mut self, setting: &Setting<'_>) -> Option<ClientIp> {
        let section = self.section(&CLIENT_IP, "`ip`", setting.node)?;
        let mut ip = ClientIp::default();
        if let Some(proxies) = section.get("trusted_proxies") {
            if let Value::List(items) = &proxies.node.value {
                for item in items {
                    if let Value::Scalar(scalar) = &item.value {
                        let network = self.network(&scalar.text, item.span);
                        if network.is_some_and(|network| network.prefix_len() == 0) {
                            let message = format!(
                                "{} trusts every client, which can then choose its address",
                                quoted(&scalar.text)
                            );
                            self.warning(item.span, message, "name the networks of your proxies only");
                        }
                        ip.trusted_proxies.extend(network);
                    } else {
                        let message = format!("an item of `trusted_proxies` is {} here", kind_of(item));
                        self.error(item.span, message, "write networks, such as `[10.0.0.0/8]`");
                    }
                }
            } else {
                self.wrong_type(&proxies);
            }
        }
        if let Some(header) = section.get("header")
            && let Some(word) = self.word(&header)
        {
            ip.header = match word {
                "forwarded" => ForwardedHeader::Forwarded,
                _ => ForwardedHeader::XForwardedFor,
            };
            if !section.has("trusted_proxies") {
                let advice = "add `trusted_proxies: [10.0.0.0/8]`, or remove it";
                self.warning(header.key, "`header` has no effect without `trusted_proxies`", advice);
            }
        }
        for (name, bits) in [("ipv4_prefix", &mut ip.ipv4_prefix), ("ipv6_prefix", &mut ip.ipv6_prefix)] {
            if let Some(setting) = section.get(name)
                && let Some(number) = self.count(&setting)
            {
                *bits = u8::try_from(number).unwrap_or(*bits);
            }
        }
        Some(ip)
    }

    fn identifier(&mut self, name: Spanned<Arc<str>>, node: &Node) -> Option<NamedIdentifier> {
        let owner = quoted(&name.value);
        let example = format!("{}: claim.sub", name.value);
        let (from, secret) = if let Value::Map(_) = &node.value {
            let section = self.section(&IDENTIFIER, &owner, node)?;
            let from =
                self.required(&section, "from").map(|from| self.attributes("`from`", from.node, &example));
            let secret = section.get("secret").map_or(Some(false), |secret| self.flag(&secret, false));
            (from??, secret?)
        } else {
            (self.attributes(&owner, node, &example)?, false)
        };
        if let Some(itself) = from.iter().find(|source| source.value == name.value) {
            let message = format!("{owner} is taken from itself");
            self.error(itself.span, message, "name the attribute that has the value, such as `claim.sub`");
            return None;
        }
        Some(NamedIdentifier {
            name: name.value,
            from: from.into_iter().map(|source| source.value).collect(),
            secret,
        })
    }
}

/// Returns the shortest way from an identifier through its sources back to itself, which is the last step.
fn way_back(identifiers: &Identifiers, name: &str) -> Option<Vec<Arc<str>>> {
    // The names that were found, and the index of the one that led to each.
    let mut found: Vec<(Arc<str>, Option<usize>)> = Vec::new();
    let mut next = None;
    loop {
        let from = next.map_or(name, |index: usize| &*found[index].0).to_owned();
        for source in identifiers.sources(&from) {
            if !found.iter().any(|(known, _)| known == source) {
                found.push((Arc::clone(source), next));
            }
        }
        let index = next.map_or(0, |index| index + 1);
        if **found.get(index).map(|(source, _)| source)? == *name {
            let steps = std::iter::successors(Some(index), |step| found[*step].1);
            let mut way: Vec<_> = steps.map(|step| Arc::clone(&found[step].0)).collect();
            way.reverse();
            return Some(way);
        }
        next = Some(index);
    }
}
