//! A cluster: which node has which slot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::inquiry::{Inquiry, Pending, Problem, first_answer};
use crate::config::Connections;
use crate::error::{self, Address, Fault, Refusal};
use crate::server::{Server, now};
use crate::url::Access;

const SLOTS: usize = 16_384;

/// Who has which slot.
type Owners = Vec<Option<Arc<Server>>>;

/// The nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    map: Arc<Map>,
    inquiry: Inquiry,
}

/// Who is where.
#[derive(Debug)]
struct Map {
    seeds: Vec<Address>,
    access: Access,
    connections: Connections,
    /// The seeds, and whoever else is needed at the moment, with their connections.
    nodes: Mutex<HashMap<Address, Arc<Server>>>,
    /// Who has which slot; empty as long as nobody was asked.
    owners: RwLock<Owners>,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Address>,
        access: Access,
        connections: Connections,
    ) -> Result<Self, StoreError> {
        let map = Map { seeds, access, connections, nodes: Mutex::default(), owners: RwLock::default() };
        for seed in &map.seeds {
            map.node(seed)?;
        }
        Ok(Self { map: Arc::new(map), inquiry: Inquiry::default() })
    }

    /// The node at an address.
    pub(crate) fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        self.map.node(address)
    }

    /// The node that has a slot.
    pub(crate) async fn server(&self, slot: u16, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Some(server) = self.map.owner(slot) {
            return Ok(server);
        }
        self.refresh().wait(deadline).await?;
        self.map.owner(slot).ok_or_else(|| {
            Fault::NotSent(StoreError::new(
                ErrorKind::Unavailable,
                format!("no node of the cluster has slot {slot}"),
            ))
        })
    }

    /// A node said that another one has the slot. Slots rarely move alone, so the rest is asked for as well.
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

    /// Asks for a new map, while calls go on with the one that there is.
    pub(crate) fn refresh(&self) -> Pending {
        let map = Arc::clone(&self.map);
        self.inquiry.begin(|| async move { map.refresh().await })
    }
}

impl Map {
    fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = nodes.get(address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(self.access.to(address), &self.connections)?);
        nodes.insert(address.clone(), Arc::clone(&server));
        Ok(server)
    }

    fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(usize::from(slot)).cloned().flatten()
    }

    /// Asks the nodes who has which slot.
    async fn refresh(&self) -> Result<(), StoreError> {
        let known: Vec<_> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().map(|(address, server)| (address.clone(), Arc::clone(server))).collect()
        };
        let asks = known.into_iter().map(|(address, server)| self.ask(address, server));
        let owners = first_answer(asks, "no node of the cluster says who has which slot").await?;
        self.adopt(owners);
        Ok(())
    }

    /// Goes by a new map, and forgets nodes that it does not need.
    fn adopt(&self, owners: Owners) {
        let needed: HashSet<_> = owners.iter().flatten().map(Arc::as_ptr).collect();
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address, server| self.seeds.contains(address) || needed.contains(&Arc::as_ptr(server)));
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// The owners of all slots, as one node knows them.
    async fn ask(&self, address: Address, server: Arc<Server>) -> Result<Owners, Problem> {
        let mut ask = Cmd::new();
        ask.arg("CLUSTER").arg("SLOTS");
        let said = |what: &str| {
            let message = format!("redis at {} {what}", server.name());
            Problem::answer(StoreError::new(ErrorKind::Refused, message))
        };
        match server.send(&ask, false, now() + self.connections.connect_timeout).await {
            Ok(value) => match self.read(value, &address).map_err(Problem::answer)? {
                Some(owners) if owners.iter().any(Option::is_some) => Ok(owners),
                Some(_) => Err(said("is in no cluster that has slots")),
                None => Err(Problem::answer(error::not_understood(server.name()))),
            },
            Err(Fault::Refused(Refusal::Other(error))) if error.kind() == ErrorKind::Internal => {
                Err(said(&format!("is not in a cluster; use redis:// for a single server ({error})")))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// The owners of all slots; `None` if the answer makes no sense.
    fn read(&self, value: Value, asked: &Address) -> Result<Option<Owners>, StoreError> {
        let Value::Array(ranges) = value else { return Ok(None) };
        let mut owners = vec![None; SLOTS];
        for range in ranges {
            let Value::Array(parts) = range else { return Ok(None) };
            let mut parts = parts.into_iter();
            let mut number = || parts.next().and_then(|part| from_redis_value::<usize>(part).ok());
            let (Some(first), Some(last)) = (number(), number()) else { return Ok(None) };
            let Some(Value::Array(primary)) = parts.next() else { return Ok(None) };
            let Some(address) = address(primary, asked) else { return Ok(None) };
            let server = self.node(&address)?;
            for owner in owners.iter_mut().take(last + 1).skip(first) {
                *owner = Some(Arc::clone(&server));
            }
        }
        Ok(Some(owners))
    }
}

/// Where a node is; one that does not know its own host is where it was asked.
fn address(parts: Vec<Value>, asked: &Address) -> Option<Address> {
    let mut parts = parts.into_iter();
    let host = from_redis_value::<Option<String>>(parts.next()?).ok()?;
    let port = from_redis_value::<u16>(parts.next()?).ok()?;
    let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
    Some(Address { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::url::Target;

    fn map() -> Map {
        let target = Target::parse("redis+cluster://seed:1", None, None).expect("valid");
        let Target::Cluster { seeds, access } = target else { panic!("not a cluster") };
        let connections = Config::new("").connections;
        let map = Map { seeds, access, connections, nodes: Mutex::default(), owners: RwLock::default() };
        map.node(&map.seeds[0]).expect("a node");
        map
    }

    /// What a node answers, with one owner of all slots.
    fn answer(host: &str) -> Value {
        let node = Value::Array(vec![Value::BulkString(host.into()), Value::Int(1)]);
        let range = vec![Value::Int(0), Value::Int(16_383), node];
        Value::Array(vec![Value::Array(range)])
    }

    fn hosts(map: &Map) -> Vec<String> {
        let mut hosts: Vec<_> =
            map.nodes.lock().expect("no panic").keys().map(|node| node.host.clone()).collect();
        hosts.sort();
        hosts
    }

    #[tokio::test]
    async fn nodes_that_have_left_are_forgotten() {
        let map = map();
        for (host, known) in [("a", ["a", "seed"]), ("b", ["b", "seed"])] {
            let owners = map.read(answer(host), &map.seeds[0]).expect("nodes").expect("a map");
            map.adopt(owners);
            assert_eq!(hosts(&map), known);
            assert_eq!(map.owner(16_383).expect("an owner").name(), format!("{host}:1"));
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_know_its_host_is_where_it_was_asked() {
        let map = map();
        for host in ["", "?"] {
            let owners = map.read(answer(host), &map.seeds[0]).expect("nodes").expect("a map");
            assert_eq!(owners[0].as_ref().expect("an owner").name(), "seed:1");
        }
    }

    #[tokio::test]
    async fn an_answer_that_makes_no_sense_is_none() {
        let map = map();
        let strange = Value::Array(vec![Value::Array(vec![Value::Int(0)])]);
        for value in [Value::Okay, strange] {
            assert!(map.read(value, &map.seeds[0]).expect("no new node").is_none());
        }
    }
}
