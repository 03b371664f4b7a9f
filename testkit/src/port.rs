//! Free ports and addresses for servers.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ephemeral ports of clients: while a server is down, no client gets its port.
const FIRST: u16 = 10_000;
/// The number of ports, and the distance between a server's port and its cluster bus.
const COUNT: u16 = 10_000;

/// Returns a port that is free, and whose cluster bus port is free as well.
pub(crate) fn free() -> u16 {
    // Test processes that run at the same time start at different ports.
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

/// Returns a loopback address on which these ports are free. All of 127.0.0.0/8 is loopback.
pub(crate) fn free_address(ports: &[u16]) -> Ipv4Addr {
    // Random, out of sixteen million, so that test processes that run at the same time hardly collide.
    let random = |_| {
        let [one, two, three, ..] = RandomState::new().hash_one("address").to_le_bytes();
        Ipv4Addr::new(127, one, two, three.clamp(1, 254))
    };
    let unused = |address: &Ipv4Addr| ports.iter().all(|&port| TcpListener::bind((*address, port)).is_ok());
    let found = (0..100).map(random).find(unused);
    found.unwrap_or_else(|| panic!("no loopback address where the ports {ports:?} are free"))
}
