//! The client's address behind proxies.

use std::net::IpAddr;
use std::ops::ControlFlow;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

use super::forwarded::{forwarded_hops, x_forwarded_for_hops};
use super::{ClientIp, ForwardedHeader};

/// How many hops are read, the last ones of all lines. More proxies than that in a row are not trusted.
const MAX_HOPS: usize = 64;

impl ForwardedHeader {
    /// Returns the name of the header.
    pub fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => FORWARDED,
        }
    }
}

impl ClientIp {
    /// Returns the client's address, given that of the peer: the other end of the connection.
    ///
    /// - If the peer is no trusted proxy, it is the client. Headers are ignored.
    /// - Otherwise the header's hops are read from the last to the first, over all its lines. Those that are trusted
    ///   proxies are skipped; the first that is not is the client.
    /// - A hop that is no address (`unknown`, `_hidden`, broken) ends the search: the proxy that wrote it does not say
    ///   whom it serves. The proxy's own address counts, for all such clients together. What stands further left may be
    ///   invented by the client.
    /// - If all hops are trusted proxies, or there are none, the left-most counts, or else the peer.
    ///
    /// So a client cannot choose its address: what it sends stands left of what the first trusted proxy wrote about it.
    /// Ports and zone ids are dropped, IPv4 addresses in IPv6 ones are IPv4 addresses, empty elements are skipped, and
    /// no more than the last 64 hops are read.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tollgate::rules::ClientIp;
    ///
    /// let client_ip = ClientIp::new().with_trusted_proxies(["10.0.0.0/8"])?;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.1.1.1".parse()?);
    /// assert_eq!(client_ip.address("10.9.9.9".parse()?, &headers).to_string(), "192.0.2.7");
    /// assert_eq!(client_ip.address("203.0.113.5".parse()?, &headers).to_string(), "203.0.113.5");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut known = peer.to_canonical();
        if !self.is_trusted(known) {
            return known;
        }
        let lines = headers.get_all(self.header.name()).iter().rev();
        let mut left = MAX_HOPS;
        for line in lines {
            let line = line.as_bytes();
            let client = match self.header {
                ForwardedHeader::XForwardedFor => {
                    self.walk(x_forwarded_for_hops(line), &mut known, &mut left)
                }
                ForwardedHeader::Forwarded => self.walk(forwarded_hops(line), &mut known, &mut left),
            };
            if client.is_break() {
                break;
            }
        }
        known
    }

    /// Follows the hops of a line to the client. `known` is the last that is known to be right.
    fn walk(
        &self,
        hops: impl Iterator<Item = Option<IpAddr>>,
        known: &mut IpAddr,
        left: &mut usize,
    ) -> ControlFlow<()> {
        for hop in hops {
            let (Some(address), Some(after)) = (hop, left.checked_sub(1)) else {
                return ControlFlow::Break(());
            };
            *left = after;
            *known = address;
            if !self.is_trusted(address) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }
}
