//! Networks and addresses, in tables by the length of their prefix.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::RandomState;
use ipnet::{IpNet, Ipv4Net};

use super::path::Ids;

/// Reads the value of an attribute as an address. One of IPv4 that is mapped into IPv6 is one of IPv4.
pub(crate) fn parse_address(value: &str) -> Option<IpAddr> {
    value.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Returns a network without bits after its prefix; one of mapped addresses is one of IPv4.
pub(crate) fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (IpAddr::V4(address), Some(prefix)) if matches!(network, IpNet::V6(_)) => {
            IpNet::V4(Ipv4Net::new_assert(address, prefix))
        }
        (IpAddr::V4(_) | IpAddr::V6(_), _) => network,
    }
}

/// Many networks, found by an address: one look-up per length of a prefix that occurs.
#[derive(Debug, Default)]
pub(super) struct Networks {
    ipv4: Vec<Table<u32>>,
    ipv6: Vec<Table<u128>>,
}

#[derive(Debug)]
struct Table<A> {
    prefix: u8,
    ids: HashMap<A, Ids, RandomState>,
}

impl Networks {
    pub(super) fn insert(&mut self, network: IpNet, id: u32) {
        match canonical(network) {
            IpNet::V4(network) => {
                let ids = table(&mut self.ipv4, network.prefix_len());
                ids.entry(network.network().to_bits()).or_default().push(id);
            }
            IpNet::V6(network) => {
                let ids = table(&mut self.ipv6, network.prefix_len());
                ids.entry(network.network().to_bits()).or_default().push(id);
            }
        }
    }

    /// Calls `found` for each network that contains the address.
    pub(super) fn for_each_match(&self, value: &str, mut found: impl FnMut(u32)) {
        match parse_address(value) {
            None => {}
            Some(IpAddr::V4(address)) => {
                for Table { prefix, ids } in &self.ipv4 {
                    let network = ipv4_network(address, *prefix);
                    ids.get(&network).into_iter().flatten().copied().for_each(&mut found);
                }
            }
            Some(IpAddr::V6(address)) => {
                for Table { prefix, ids } in &self.ipv6 {
                    let network = ipv6_network(address, *prefix);
                    ids.get(&network).into_iter().flatten().copied().for_each(&mut found);
                }
            }
        }
    }
}

fn table<A>(tables: &mut Vec<Table<A>>, prefix: u8) -> &mut HashMap<A, Ids, RandomState> {
    let place = tables.binary_search_by_key(&prefix, |table| table.prefix).unwrap_or_else(|place| {
        tables.insert(place, Table { prefix, ids: HashMap::default() });
        place
    });
    &mut tables[place].ids
}

fn ipv4_network(address: Ipv4Addr, prefix: u8) -> u32 {
    // A shift by all bits is none.
    address.to_bits() & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn ipv6_network(address: Ipv6Addr, prefix: u8) -> u128 {
    address.to_bits() & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(networks: &[&str], address: &str) -> Vec<u32> {
        let mut all = Networks::default();
        for (id, network) in (0..).zip(networks) {
            all.insert(network.parse().expect("a network"), id);
        }
        let mut found = Vec::new();
        all.for_each_match(address, |id| found.push(id));
        found.sort_unstable();
        found
    }

    #[test]
    fn all_networks_that_contain_the_address_are_found() {
        let ipv4 = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "10.2.0.0/16", "::/0"];
        assert_eq!(found(&ipv4, "10.1.2.3"), [0, 1, 2, 3]);
        assert_eq!(found(&ipv4, "11.1.2.3"), [0]);
        assert_eq!(found(&ipv4, "2001:db8::1"), [5]);
        assert_eq!(found(&["2001:db8::/32", "2001:db8::1/128", "2001:db9::/32"], "2001:db8::1"), [0, 1]);
        assert!(found(&ipv4, "example.org").is_empty());
    }

    #[test]
    fn mapped_addresses_are_addresses_of_ipv4() {
        assert_eq!(found(&["10.0.0.0/8", "::/0"], "::ffff:10.1.2.3"), [0]);
        assert_eq!(found(&["::ffff:10.0.0.0/104"], "10.1.2.3"), [0]);
    }

    #[test]
    fn bits_after_the_prefix_do_not_count() {
        assert_eq!(found(&["10.1.2.3/8"], "10.9.9.9"), [0]);
    }
}
