//! Tests of the client's address behind proxies.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use crate::identifiers::{ClientIp, ForwardedHeader};

fn client_ip(header: ForwardedHeader) -> ClientIp {
    ClientIp::new().with_trusted_proxies(["10.0.0.0/8", "fd00::/8", "127.0.0.1"]).unwrap().with_header(header)
}

fn headers(header: ForwardedHeader, lines: &[impl AsRef<[u8]>]) -> HeaderMap {
    let value = |line: &[u8]| HeaderValue::from_bytes(line).unwrap();
    lines.iter().map(|line| (header.name(), value(line.as_ref()))).collect()
}

fn found(peer: &str, lines: &[&str]) -> String {
    let header = ForwardedHeader::XForwardedFor;
    client_ip(header).address(peer.parse().unwrap(), &headers(header, lines)).to_string()
}

#[test]
fn headers_of_untrusted_peers_are_ignored() {
    assert_eq!(found("203.0.113.5", &["192.0.2.7"]), "203.0.113.5");
    assert_eq!(found("203.0.113.5", &[]), "203.0.113.5");
    assert_eq!(found("::ffff:203.0.113.5", &["192.0.2.7"]), "203.0.113.5");
    let default = ClientIp::new();
    let headers = headers(ForwardedHeader::XForwardedFor, &["192.0.2.7"]);
    assert_eq!(default.address("10.0.0.1".parse().unwrap(), &headers).to_string(), "10.0.0.1");
}

#[test]
fn the_last_hop_that_is_no_trusted_proxy_is_the_client() {
    assert_eq!(found("10.0.0.1", &["192.0.2.7"]), "192.0.2.7");
    assert_eq!(found("10.0.0.1", &["6.6.6.6, 192.0.2.7, 10.1.1.1"]), "192.0.2.7");
    assert_eq!(found("10.0.0.1", &["10.6.6.6, 192.0.2.7:4711,, fd00::1, [fd00::2]:80 "]), "192.0.2.7");
    assert_eq!(found("::ffff:10.0.0.1", &["6.6.6.6, ::ffff:192.0.2.7, ::ffff:10.0.0.2"]), "192.0.2.7");
    assert_eq!(found("fd00::1", &["fe80::1%eth0"]), "fe80::1");
    assert_eq!(found("127.0.0.1", &["2001:db8::7"]), "2001:db8::7");
    assert_eq!(found("127.0.0.2", &["2001:db8::7"]), "127.0.0.2", "one address is trusted, not its network");
}

#[test]
fn several_lines_are_one_list() {
    assert_eq!(found("10.0.0.1", &["6.6.6.6", "192.0.2.7, 10.0.0.2", "", "10.0.0.3"]), "192.0.2.7");
    assert_eq!(found("10.0.0.1", &["192.0.2.7", "unknown", "10.0.0.3"]), "10.0.0.3");
}

#[test]
fn unknown_and_broken_hops_end_the_search_at_the_proxy_that_wrote_them() {
    for hop in ["unknown", "_hidden", "192.0.2.256", "192.0.2.7 192.0.2.8", "x"] {
        assert_eq!(found("10.0.0.1", &[&format!("6.6.6.6, {hop}")]), "10.0.0.1", "{hop}");
        assert_eq!(found("10.0.0.1", &[&format!("6.6.6.6, {hop}, 10.0.0.2")]), "10.0.0.2", "{hop}");
        assert_eq!(found("10.0.0.1", &[&format!("{hop}, 192.0.2.7")]), "192.0.2.7", "{hop}");
    }
}

#[test]
fn without_an_untrusted_hop_the_left_most_counts() {
    assert_eq!(found("10.0.0.1", &["10.0.0.4, 10.0.0.3", "10.0.0.2"]), "10.0.0.4");
    assert_eq!(found("10.0.0.1", &[]), "10.0.0.1");
    assert_eq!(found("10.0.0.1", &["", " , "]), "10.0.0.1");
}

#[test]
fn no_more_than_the_last_64_hops_are_read() {
    let trusted: Vec<String> = (0..64).map(|hop| format!("10.0.0.{hop}")).collect();
    let read = |start: usize| format!("192.0.2.7, {}", trusted[start..].join(","));
    assert_eq!(found("10.0.0.1", &[&read(1)]), "192.0.2.7");
    assert_eq!(found("10.0.0.1", &[&read(0)]), "10.0.0.0");
    let lines: Vec<&str> = ["192.0.2.7"].into_iter().chain(trusted.iter().map(String::as_str)).collect();
    assert_eq!(found("10.0.0.1", &lines), "10.0.0.0", "over all lines");
    assert_eq!(found("10.0.0.1", &[&format!("6.6.6.6, {}192.0.2.7", "10.0.0.1,".repeat(10))]), "192.0.2.7");
}

#[test]
fn only_the_configured_header_is_read() {
    let (old, new) = (ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded);
    let mut both = headers(old, &["192.0.2.1"]);
    both.extend(headers(new, &["for=\"6.6.6.6\", for=192.0.2.2;proto=https", "for=\"[fd00::1]:80\""]));
    let peer: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(client_ip(old).address(peer, &both).to_string(), "192.0.2.1");
    assert_eq!(client_ip(new).address(peer, &both).to_string(), "192.0.2.2");
    both.insert("forwarded", HeaderValue::from_static("for=6.6.6.6, proto=https"));
    assert_eq!(client_ip(new).address(peer, &both), peer, "the proxy says nothing about its client");
}

/// A hop of a list, and how it is written.
#[derive(Clone, Debug)]
enum Hop {
    Address(IpAddr),
    Unknown,
    Empty,
}

impl Hop {
    fn write(&self, header: ForwardedHeader) -> String {
        match (self, header) {
            (Self::Address(address), ForwardedHeader::XForwardedFor) => address.to_string(),
            (Self::Unknown, ForwardedHeader::XForwardedFor) => "unknown".to_owned(),
            (Self::Address(IpAddr::V6(address)), ForwardedHeader::Forwarded) => {
                format!("for=\"[{address}]:80\"")
            }
            (Self::Address(address), ForwardedHeader::Forwarded) => format!("proto=http;For={address}"),
            (Self::Unknown, ForwardedHeader::Forwarded) => "for=unknown".to_owned(),
            (Self::Empty, _) => String::new(),
        }
    }
}

fn hop() -> impl Strategy<Value = Hop> {
    let address = |text: &str| Hop::Address(text.parse().unwrap());
    prop_oneof![
        4 => (0u8..4).prop_map(move |last| address(&format!("10.0.0.{last}"))),
        2 => (0u8..4).prop_map(move |last| address(&format!("fd00::{last}"))),
        1 => (0u8..4).prop_map(move |last| address(&format!("192.0.2.{last}"))),
        1 => (0u8..4).prop_map(move |last| address(&format!("2001:db8::{last}"))),
        1 => Just(Hop::Unknown),
        1 => Just(Hop::Empty),
    ]
}

fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    }
}

/// Reads the whole list first.
fn model(peer: IpAddr, hops: &[Hop]) -> IpAddr {
    if !is_trusted(peer) {
        return peer;
    }
    let hops: Vec<&Hop> = hops.iter().filter(|hop| !matches!(hop, Hop::Empty)).collect();
    let mut answer = peer;
    for hop in hops.iter().rev() {
        match hop {
            Hop::Address(address) if is_trusted(*address) => answer = *address,
            Hop::Address(address) => return *address,
            Hop::Unknown | Hop::Empty => return answer,
        }
    }
    answer
}

/// The lines of a header: the hops, cut into lines at the end of these.
fn lines(hops: &[Hop], cuts: &[bool], header: ForwardedHeader) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (index, hop) in hops.iter().enumerate() {
        let cut = cuts.get(index).copied().unwrap_or_default();
        if cut {
            lines.push(String::new());
        } else if index > 0 {
            lines.last_mut().unwrap().push_str(", ");
        }
        lines.last_mut().unwrap().push_str(&hop.write(header));
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_walk_agrees_with_the_model(
        peer in hop(),
        hops in proptest::collection::vec(hop(), 0..8),
        cuts in proptest::collection::vec(any::<bool>(), 8),
    ) {
        let Hop::Address(peer) = peer else { return Ok(()) };
        let expected = model(peer, &hops);
        for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
            let headers = headers(header, &lines(&hops, &cuts, header));
            prop_assert_eq!(client_ip(header).address(peer, &headers), expected, "{:?}", headers);
        }
    }

    /// A client chooses the start of the list, byte by byte, in the same line or in lines of its own.
    #[test]
    fn what_a_client_sends_first_changes_nothing(
        mut hops in proptest::collection::vec(hop(), 0..6),
        client in proptest::collection::vec(
            prop_oneof![
                r#"(for=|"|\\|,|;|=| |192\.0\.2\.1|10\.0\.0\.1|\[fd00::1\]|unknown){0,12}"#
                    .prop_map(String::into_bytes),
                proptest::collection::vec(prop_oneof![Just(b'\t'), 0x20u8..0x7f, 0x80u8..], 0..40),
            ],
            1..4,
        ),
        (own_line, known) in any::<(bool, bool)>(),
    ) {
        let peer = "10.0.0.1".parse().unwrap();
        // The proxies next to the client write its address, or that they do not know it. Were all of these hops trusted
        // proxies, the sender of what stands left of them would be trusted as well.
        hops.insert(0, if known { Hop::Address("192.0.2.9".parse().unwrap()) } else { Hop::Unknown });
        let expected = model(peer, &hops);
        for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
            let proxies = lines(&hops, &[], header).remove(0);
            let mut lines = client.clone();
            if own_line {
                lines.push(proxies.clone().into_bytes());
            } else {
                let last = lines.last_mut().unwrap();
                last.extend_from_slice(b", ");
                last.extend_from_slice(proxies.as_bytes());
            }
            let headers = headers(header, &lines);
            prop_assert_eq!(client_ip(header).address(peer, &headers), expected, "{:?}", headers);
        }
    }
}
