//! A cluster: which node has which slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use crate::config::Connections;
use crate::error::{self, Address, Fault};
use crate::server::Server;
use crate::url::Access;

const SLOTS: usize = 16_384;

/// The nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    access: Access,
    connections: Connections,
    /// Every node that was ever needed, with its connections.
    nodes: Mutex<HashMap<Address, Arc<Server>>>,
    slots: RwLock<Slots>,
    /// Held by whoever is asking for a new map.
    asking: tokio::sync::Mutex<()>,
}

/// Who has which slot; empty as long as nobody was asked.
#[derive(Debug, Default)]
struct Slots {
    owners: Vec<Option<Arc<Server>>>,
    /// How often the map was replaced.
    version: u64,
}

impl Cluster {
    pub(crate) fn new(
        seeds: Vec<Address>,
        access: Access,
        connections: Connections,
    ) -> Result<Self, StoreError> {
        let cluster = Self {
            seeds,
            access,
            connections,
            nodes: Mutex::default(),
            slots: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
        };
        for seed in &cluster.seeds {
            cluster.node(seed)?;
        }
        Ok(cluster)
    }

    /// The node at an address.
    pub(crate) fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = nodes.get(address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(self.access.to(address), &self.connections)?);
        nodes.insert(address.clone(), Arc::clone(&server));
        Ok(server)
    }

    /// The node that has a slot.
    pub(crate) async fn server(&self, slot: u16, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Some(server) = self.owner(slot) {
            return Ok(server);
        }
        self.refresh(deadline).await?;
        self.owner(slot).ok_or_else(|| {
            Fault::NotSent(StoreError::new(
                ErrorKind::Unavailable,
                format!("no node of the cluster has slot {slot}"),
            ))
        })
    }

    fn owner(&self, slot: u16) -> Option<Arc<Server>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.owners.get(usize::from(slot)).cloned().flatten()
    }

    /// A node said that another one has the slot.
    pub(crate) fn moved(&self, slot: u16, address: &Address) -> Result<(), StoreError> {
        let server = self.node(address)?;
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = slots.owners.get_mut(usize::from(slot)) {
            *owner = Some(server);
        }
        Ok(())
    }

    /// Asks the nodes, one after the other, who has which slot. Of those who find out at the same time that the map
    /// is old, one asks.
    pub(crate) async fn refresh(&self, deadline: Instant) -> Result<(), Fault> {
        let version = || self.slots.read().unwrap_or_else(PoisonError::into_inner).version;
        let seen = version();
        let _asking = self.asking.lock().await;
        if version() != seen {
            return Ok(());
        }
        let known: Vec<_> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.iter().map(|(address, server)| (address.clone(), Arc::clone(server))).collect()
        };
        let mut ask = Cmd::new();
        ask.arg("CLUSTER").arg("SLOTS");
        let mut problem = StoreError::new(ErrorKind::Unavailable, "the cluster has no node to ask");
        for (address, server) in known {
            match server.send(&ask, false, deadline).await {
                Ok(value) => match self.read(value, &address)? {
                    Some(owners) => {
                        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
                        *slots = Slots { owners, version: slots.version + 1 };
                        return Ok(());
                    }
                    None => problem = error::not_understood(server.name()),
                },
                Err(fault) => problem = fault.into_error(),
            }
        }
        // Nothing was sent to a node that decides.
        let kind = problem.kind();
        let message = format!("no node of the cluster says who has which slot: {problem}");
        Err(Fault::NotSent(StoreError::new(kind, message).caused_by(problem)))
    }

    /// The owners of all slots; `None` if the answer makes no sense or names none.
    fn read(&self, value: Value, asked: &Address) -> Result<Option<Vec<Option<Arc<Server>>>>, Fault> {
        let Value::Array(ranges) = value else { return Ok(None) };
        let mut owners = vec![None; SLOTS];
        for range in ranges {
            let Value::Array(parts) = range else { return Ok(None) };
            let mut parts = parts.into_iter();
            let mut number = || parts.next().and_then(|part| from_redis_value::<usize>(part).ok());
            let (Some(first), Some(last)) = (number(), number()) else { return Ok(None) };
            let Some(Value::Array(primary)) = parts.next() else { return Ok(None) };
            let Some(address) = address(primary, asked) else { return Ok(None) };
            let server = self.node(&address).map_err(Fault::NotSent)?;
            for owner in owners.iter_mut().take(last + 1).skip(first) {
                *owner = Some(Arc::clone(&server));
            }
        }
        Ok(owners.iter().any(Option::is_some).then_some(owners))
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
