//! Ports and addresses for servers.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that systems hand out to clients: while a server is down, nobody else gets its port.
const FIRST: u16 = 10_000;
/// As many as there are, and as far as a cluster's bus is from its port.
const COUNT: u16 = 10_000;

/// A port that nobody listens on, nor on the cluster bus that belongs to it.
pub(crate) fn free() -> u16 {
    // Test processes that run at the same time start at different ends.
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let [one, two, ..] = RandomState::new().hash_one("port").to_le_bytes();
        AtomicU16::new(u16::from_le_bytes([one, two]))
    });
    let unused = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
        .find(|&port| unused(port) && unused(port + COUNT))
        .expect("a free port")
}

/// A loopback address on which nobody listens on any of these ports. All of 127.0.0.0/8 is loopback.
pub(crate) fn free_address(ports: &[u16]) -> Ipv4Addr {
    // At random, of sixteen million: test processes that run at the same time hardly meet.
    let random = |_| {
        let [one, two, three, ..] = RandomState::new().hash_one("address").to_le_bytes();
        Ipv4Addr::new(127, one, two, three.clamp(1, 254))
    };
    let unused = |address: &Ipv4Addr| ports.iter().all(|&port| TcpListener::bind((*address, port)).is_ok());
    let found = (0..100).map(random).find(unused);
    found.unwrap_or_else(|| panic!("no loopback address where the ports {ports:?} are free"))
}
