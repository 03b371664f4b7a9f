//! How the values of attributes are written into keys: as they are, as digests or as networks.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest, Sha256};

use super::address::parse_address;

/// Separates these digests from those of the same value for other purposes.
const DIGEST_DOMAIN: &[u8] = b"tollgate/identifier/1\0";

/// The length of a digest in bytes: 128 bits. Written as hexadecimal digits, twice as many.
const DIGEST_BYTES: usize = 16;

/// Before what is no address, where it could be read as a network.
const NO_ADDRESS: char = '=';

/// How the value of an attribute is written into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Plain,
    /// A secret: its digest, which is the same on every machine.
    Hashed,
    /// An address: its network of this many bits. What is no address is written as it is.
    Network {
        ipv4_prefix: u8,
        ipv6_prefix: u8,
    },
    /// A secret or an address, such as the API key of a client that has one: the digest of what `Network` writes.
    HashedNetwork {
        ipv4_prefix: u8,
        ipv6_prefix: u8,
    },
}

impl KeyForm {
    /// Writes a value in this form: `append` gets the parts of the text, such as
    /// `|part| key.extend_from_slice(part)`. Different secrets and different networks have different texts.
    pub(crate) fn write(self, value: &str, mut append: impl FnMut(&[u8])) {
        match self {
            Self::Plain => append(value.as_bytes()),
            Self::Hashed => {
                let mut digest = new_digest();
                digest.update(value.as_bytes());
                write_digest(digest, append);
            }
            Self::Network { ipv4_prefix, ipv6_prefix } => {
                write_network(value, ipv4_prefix, ipv6_prefix, append);
            }
            Self::HashedNetwork { ipv4_prefix, ipv6_prefix } => {
                let mut digest = new_digest();
                write_network(value, ipv4_prefix, ipv6_prefix, |part| digest.update(part));
                write_digest(digest, append);
            }
        }
    }
}

fn new_digest() -> Sha256 {
    Sha256::new_with_prefix(DIGEST_DOMAIN)
}

fn write_digest(digest: Sha256, mut append: impl FnMut(&[u8])) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 2 * DIGEST_BYTES];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest.finalize()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    append(&text);
}

/// Writes the network of an address: `2001:db8:1:2::/64`, but `192.0.2.7` where the prefix is the whole address.
fn write_network(value: &str, ipv4_prefix: u8, ipv6_prefix: u8, append: impl FnMut(&[u8])) {
    let mut out = Text(append);
    let Some(address) = parse_address(value) else {
        // Whoever chooses the value must not reach the counter of a network.
        if value.starts_with(NO_ADDRESS) || value.parse::<IpNet>().is_ok() {
            out.char(NO_ADDRESS);
        }
        (out.0)(value.as_bytes());
        return;
    };
    let (prefix, whole) = match address {
        IpAddr::V4(_) => (ipv4_prefix.min(32), 32),
        IpAddr::V6(_) => (ipv6_prefix.min(128), 128),
    };
    let written = if prefix == whole {
        write!(out, "{address}")
    } else {
        // The prefix is in bounds.
        let network = IpNet::new_assert(address, prefix).trunc();
        write!(out, "{network}")
    };
    debug_assert!(written.is_ok(), "appending never fails");
}

/// Formats into parts of bytes.
struct Text<F>(F);

impl<F: FnMut(&[u8])> Text<F> {
    fn char(&mut self, char: char) {
        (self.0)(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl<F: FnMut(&[u8])> fmt::Write for Text<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        (self.0)(text.as_bytes());
        Ok(())
    }
}
