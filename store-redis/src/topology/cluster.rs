//! Redis Cluster: which node owns which slot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::discovery::{Discovery, Pending, QueryError, first_success};
use crate::error::{self, Address, Fault, Refusal};
use crate::server::{Connector, Server};
use crate::url::Access;

const SLOTS: usize = 16_384;

/// The node that owns each slot.
type Owners = Vec<Option<Arc<Server>>>;

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    map: Arc<SlotMap>,
    discovery: Discovery,
}

/// The nodes and their slots.
#[derive(Debug)]
struct SlotMap {
    seeds: Vec<Address>,
    access: Access,
    connector: Connector,
    /// The seeds, and all nodes that own slots, with their connections.
    nodes: Mutex<HashMap<Address, Arc<Server>>>,
    /// The owner of each slot. Empty until the slot map was read for the first time.
    owners: RwLock<Owners>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<Address>, access: Access, connector: Connector) -> Result<Self, StoreError> {
        let map = SlotMap { seeds, access, connector, nodes: Mutex::default(), owners: RwLock::default() };
        for seed in &map.seeds {
            map.node(seed)?;
        }
        Ok(Self { map: Arc::new(map), discovery: Discovery::default() })
    }

    /// Returns the node at an address.
    pub(crate) fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        self.map.node(address)
    }

    /// Returns the node that owns a slot.
    pub(crate) async fn server(&self, slot: u16, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Some(server) = self.map.owner(slot) {
            return Ok(server);
        }
        self.refresh().wait(deadline).await?;
        self.map.owner(slot).ok_or_else(|| {
            Fault::NotSent(StoreError::new(
                ErrorKind::Unavailable,
                format!("no node of the cluster owns slot {slot}"),
            ))
        })
    }

    /// Records a `MOVED` redirect. Slots rarely move alone, so the whole slot map is read again.
    pub(crate) fn moved(&self, slot: u16, address: &Address) -> Result<(), StoreError> {
        let server = self.node(address)?;
        {
            let mut owners = self.map.owners.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(owner) = owners.get_mut(usize::from(slot)) {
                *owner = Some(server);
            }
        }
        self.refresh();
        Ok(())
    }

    /// Starts to read the slot map. Calls use the current one meanwhile.
    pub(crate) fn refresh(&self) -> Pending {
        let map = Arc::clone(&self.map);
        self.discovery.start(|| async move { map.refresh().await })
    }
}

impl SlotMap {
    fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = nodes.get(address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(self.access.to(address), &self.connector)?);
        nodes.insert(address.clone(), Arc::clone(&server));
        Ok(server)
    }

    fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(usize::from(slot)).cloned().flatten()
    }

    /// Reads the slot map from the first node that replies.
    async fn refresh(&self) -> Result<(), StoreError> {
        let known: Vec<_> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().map(|(address, server)| (address.clone(), Arc::clone(server))).collect()
        };
        let queries = known.into_iter().map(|(address, server)| self.query(address, server));
        let owners = first_success(queries, "no node of the cluster returned a slot map").await?;
        self.adopt(owners);
        Ok(())
    }

    /// Replaces the slot map, and drops the nodes that it does not contain.
    fn adopt(&self, owners: Owners) {
        let needed: HashSet<_> = owners.iter().flatten().map(Arc::as_ptr).collect();
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address, server| self.seeds.contains(address) || needed.contains(&Arc::as_ptr(server)));
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// Reads the slot map of one node.
    async fn query(&self, address: Address, server: Arc<Server>) -> Result<Owners, QueryError> {
        let mut slots = Cmd::new();
        slots.arg("CLUSTER").arg("SLOTS");
        let refused = |what: &str| {
            let message = format!("redis at {} {what}", server.name());
            QueryError::reply(StoreError::new(ErrorKind::Refused, message))
        };
        match server.query(&slots, self.connector.query_deadline()).await {
            Ok(value) => match self.read(value, &address).map_err(QueryError::reply)? {
                Some(owners) if owners.iter().any(Option::is_some) => Ok(owners),
                Some(_) => Err(refused("belongs to a cluster without slots")),
                None => Err(QueryError::reply(error::unexpected_reply(server.name()))),
            },
            Err(Fault::Refused(Refusal::Other(error))) if error.kind() == ErrorKind::Internal => {
                Err(refused(&format!("is not a cluster node; use redis:// for a single server ({error})")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Decodes a reply to `CLUSTER SLOTS`. `None` if it is malformed.
    fn read(&self, value: Value, queried: &Address) -> Result<Option<Owners>, StoreError> {
        let Value::Array(ranges) = value else { return Ok(None) };
        let mut owners = vec![None; SLOTS];
        for range in ranges {
            let Value::Array(parts) = range else { return Ok(None) };
            let mut parts = parts.into_iter();
            let mut number = || parts.next().and_then(|part| from_redis_value::<usize>(part).ok());
            let (Some(first), Some(last)) = (number(), number()) else { return Ok(None) };
            let Some(Value::Array(primary)) = parts.next() else { return Ok(None) };
            let Some(address) = address(primary, queried) else { return Ok(None) };
            let server = self.node(&address)?;
            for owner in owners.iter_mut().take(last + 1).skip(first) {
                *owner = Some(Arc::clone(&server));
            }
        }
        Ok(Some(owners))
    }
}

/// Returns the address of a node, from its endpoint, port, id and metadata.
///
/// No endpoint means the host that was queried (`cluster-preferred-endpoint-type unknown-endpoint`). `?` is a node that
/// should announce a host name and has none: its IP address is in the metadata.
fn address(parts: Vec<Value>, queried: &Address) -> Option<Address> {
    let mut parts = parts.into_iter();
    let host = from_redis_value::<Option<String>>(parts.next()?).ok()?;
    let port = from_redis_value::<u16>(parts.next()?).ok()?;
    let host = match host.as_deref() {
        None | Some("") => None,
        Some("?") => parts.nth(1).and_then(ip),
        Some(_) => host,
    };
    Some(Address { host: host.unwrap_or_else(|| queried.host.clone()), port })
}

/// Returns the IP address in the metadata of a node, if it has one.
fn ip(metadata: Value) -> Option<String> {
    let metadata: HashMap<String, String> = from_redis_value(metadata).ok()?;
    metadata.get("ip").filter(|ip| !ip.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::eviction::Contents;
    use crate::url::Target;

    fn map() -> SlotMap {
        let target = Target::parse("redis+cluster://seed:1", None, None).expect("valid");
        let Target::Cluster { seeds, access } = target else { panic!("not a cluster") };
        let connector = Connector::new(Config::new("").connections, Contents::Limits);
        let map = SlotMap { seeds, access, connector, nodes: Mutex::default(), owners: RwLock::default() };
        map.node(&map.seeds[0]).expect("a node");
        map
    }

    /// Returns a reply with one owner of all slots.
    fn reply(host: &str) -> Value {
        let node = Value::Array(vec![Value::BulkString(host.into()), Value::Int(1)]);
        let range = vec![Value::Int(0), Value::Int(16_383), node];
        Value::Array(vec![Value::Array(range)])
    }

    fn hosts(map: &SlotMap) -> Vec<String> {
        let mut hosts: Vec<_> =
            map.nodes.lock().expect("no panic").keys().map(|node| node.host.clone()).collect();
        hosts.sort();
        hosts
    }

    #[tokio::test]
    async fn nodes_without_slots_are_dropped() {
        let map = map();
        for (host, known) in [("a", ["a", "seed"]), ("b", ["b", "seed"])] {
            let owners = map.read(reply(host), &map.seeds[0]).expect("nodes").expect("a slot map");
            map.adopt(owners);
            assert_eq!(hosts(&map), known);
            assert_eq!(map.owner(16_383).expect("an owner").name(), format!("{host}:1"));
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_know_its_host_has_that_of_the_queried_node() {
        let map = map();
        for host in ["", "?"] {
            let owners = map.read(reply(host), &map.seeds[0]).expect("nodes").expect("a slot map");
            assert_eq!(owners[0].as_ref().expect("an owner").name(), "seed:1");
        }
    }

    #[tokio::test]
    async fn a_node_without_a_host_name_is_reached_by_its_ip_address() {
        let map = map();
        let text = |text: &str| Value::BulkString(text.into());
        let flat = Value::Array(vec![text("ip"), text("10.0.0.7")]);
        let mapped = Value::Map(vec![(text("ip"), text("10.0.0.7"))]);
        for metadata in [flat, mapped] {
            let node = Value::Array(vec![text("?"), Value::Int(1), text("id"), metadata]);
            let range = vec![Value::Int(0), Value::Int(16_383), node];
            let reply = Value::Array(vec![Value::Array(range)]);
            let owners = map.read(reply, &map.seeds[0]).expect("nodes").expect("a slot map");
            assert_eq!(owners[0].as_ref().expect("an owner").name(), "10.0.0.7:1");
        }
    }

    #[tokio::test]
    async fn a_malformed_reply_is_rejected() {
        let map = map();
        let malformed = Value::Array(vec![Value::Array(vec![Value::Int(0)])]);
        for value in [Value::Okay, malformed] {
            assert!(map.read(value, &map.seeds[0]).expect("no new node").is_none());
        }
    }
}
