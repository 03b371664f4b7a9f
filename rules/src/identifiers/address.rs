//! Texts of addresses: ports, brackets, zone ids, and IPv4 in IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads an address as proxies, sockets and people write it: `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:4711`, `fe80::1%eth0`, with blanks around it.
///
/// Ports and zone ids are dropped. An IPv4 address in an IPv6 one (`::ffff:192.0.2.7`) is the IPv4 address. The port
/// after a bracket may be obfuscated as RFC 7239 allows (`_hidden`).
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        let allowed = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return if allowed { parse_ipv6(inside) } else { None };
    }
    match text.split_once(':') {
        None => Some(text.parse::<Ipv4Addr>().ok()?.into()),
        // More than one colon: without brackets there is no port.
        Some((_, after)) if after.contains(':') => parse_ipv6(text),
        Some((address, port)) if is_port(port) => Some(address.parse::<Ipv4Addr>().ok()?.into()),
        Some(_) => None,
    }
}

fn parse_ipv6(text: &str) -> Option<IpAddr> {
    let address = match text.split_once('%') {
        Some((_, "")) => return None,
        Some((address, _zone)) => address,
        None => text,
    };
    Some(address.parse::<Ipv6Addr>().ok()?.to_canonical())
}

/// Checks for `node-port` of RFC 7239.
fn is_port(text: &str) -> bool {
    if let Some(obfuscated) = text.strip_prefix('_') {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        return !obfuscated.is_empty() && obfuscated.bytes().all(allowed);
    }
    // Not only `parse`, which allows `+80`.
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}
