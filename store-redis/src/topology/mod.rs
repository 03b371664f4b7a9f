//! Routes calls to the servers that own their keys, and follows the servers when that changes.

mod cluster;
mod discovery;
mod primary;
mod retry;
mod ring;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use crate::error::{self, Address, Fault, Refusal};
use crate::key;
use crate::script_call::ScriptCall;
use crate::server::{Connector, Server, now};
use crate::stats::Counters;
use crate::url::Target;
use cluster::Cluster;
use discovery::Pending;
use primary::Primary;
use retry::Retries;
use ring::Ring;

/// The servers of a store, and which of them owns a key.
#[derive(Debug)]
pub(crate) struct Topology {
    servers: Servers,
    counters: Arc<Counters>,
}

#[derive(Debug)]
enum Servers {
    /// One primary, fixed or found through sentinels.
    One(Primary),
    /// Client-side shards.
    Shards {
        ring: Ring,
        shards: Vec<Primary>,
    },
    Cluster(Box<Cluster>),
}

/// Where keys live together: a single server, a shard, or a cluster slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u16);

impl From<Place> for u64 {
    fn from(Place(number): Place) -> Self {
        number.into()
    }
}

/// The reply to a script call, and the server that sent it.
#[derive(Debug)]
pub(crate) struct ScriptReply {
    value: Value,
    server: Arc<Server>,
    repeated: bool,
}

impl ScriptReply {
    /// Returns the address of the server.
    pub(crate) fn server(&self) -> &str {
        self.server.name()
    }

    /// Returns whether the call was sent more than once although it may have been executed: then one may still arrive.
    pub(crate) fn was_repeated(&self) -> bool {
        self.repeated
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the reply as a string, which most scripts return.
    pub(crate) fn bytes(&self) -> Result<&[u8], StoreError> {
        match &self.value {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(error::unexpected_reply(self.server())),
        }
    }

    /// Returns the reply as a list of strings. `None` if it is something else.
    pub(crate) fn strings(&self) -> Option<Vec<&[u8]>> {
        let Value::Array(parts) = &self.value else { return None };
        parts
            .iter()
            .map(|part| match part {
                Value::BulkString(bytes) => Some(bytes.as_slice()),
                _ => None,
            })
            .collect()
    }
}

impl Topology {
    pub(crate) fn new(target: Target, connector: &Connector) -> Result<Self, StoreError> {
        let server = |endpoint: crate::url::Endpoint| Server::new(endpoint.info, connector).map(Arc::new);
        let servers = match target {
            Target::Single(endpoint) => Servers::One(Primary::Fixed(server(endpoint)?)),
            Target::Sentinel { sentinels, name, primary } => {
                let sentinel =
                    |endpoint: crate::url::Endpoint| Server::sentinel(endpoint.info, connector).map(Arc::new);
                let sentinels = sentinels.into_iter().map(sentinel).collect::<Result<Vec<_>, _>>()?;
                Servers::One(Primary::monitored(sentinels, name, primary, connector.clone()))
            }
            Target::Shards { shards } => {
                let ring = Ring::new(shards.iter().map(|shard| shard[0].name()));
                let shards = shards
                    .into_iter()
                    .map(|shard| {
                        let servers = shard.into_iter().map(server).collect::<Result<Vec<_>, _>>()?;
                        Ok(Primary::one_of(servers, connector.clone()))
                    })
                    .collect::<Result<Vec<_>, StoreError>>()?;
                Servers::Shards { ring, shards }
            }
            Target::Cluster { seeds, access } => {
                Servers::Cluster(Box::new(Cluster::new(seeds, access, connector.clone())?))
            }
        };
        Ok(Self { servers, counters: Arc::clone(connector.counters()) })
    }

    /// Returns whether all keys live together, so that every request is one atomic step.
    pub(crate) fn is_one_place(&self) -> bool {
        matches!(self.servers, Servers::One(_))
    }

    /// Returns where a key lives.
    pub(crate) fn place(&self, name: &[u8]) -> Place {
        match &self.servers {
            Servers::One(_) => Place(0),
            Servers::Shards { ring, .. } => Place(ring.shard(key::tag(name))),
            Servers::Cluster(_) => Place(key::slot(name)),
        }
    }

    /// Calls every primary; in a cluster, reads the slot map.
    pub(crate) async fn ping(&self, deadline: Instant) -> Result<(), StoreError> {
        // A command that scripts need as well, so that no further permission is necessary.
        let time = redis::cmd("TIME");
        let call =
            async |primary: &Primary| primary.server(deadline).await?.query(&time, deadline).await.map(drop);
        match &self.servers {
            Servers::One(primary) => call(primary).await,
            Servers::Shards { shards, .. } => try_join_all(shards.iter().map(call)).await.map(drop),
            Servers::Cluster(cluster) => cluster.refresh().wait(deadline).await,
        }
        .map_err(Fault::into_error)
    }

    /// Connects to every primary; in a cluster, reads the slot map.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<(), StoreError> {
        let connect = async |primary: &Primary| primary.server(deadline).await?.connect(deadline).await;
        match &self.servers {
            Servers::One(primary) => connect(primary).await,
            Servers::Shards { shards, .. } => try_join_all(shards.iter().map(connect)).await.map(drop),
            Servers::Cluster(cluster) => cluster.refresh().wait(deadline).await,
        }
        .map_err(Fault::into_error)
    }

    /// Runs a call on the server that owns its keys. A call that was not executed is retried, there or on another
    /// server; a call that may have been executed is retried only if it is repeatable.
    pub(crate) async fn run(
        &self,
        place: Place,
        call: &ScriptCall,
        deadline: Instant,
    ) -> Result<ScriptReply, StoreError> {
        let mut retries = Retries::new(self.is_fixed(place));
        let mut ask = None;
        // The last TRYAGAIN.
        let mut migrating = None;
        let error = loop {
            let server = match ask.as_ref() {
                Some(address) => self.node(address),
                None => self.server(place, deadline).await.map_err(Fault::into_error),
            };
            let server = match server {
                Ok(server) => server,
                Err(error) => break error,
            };
            let fault = match server.run(call, ask.take().is_some(), deadline).await {
                Ok(value) => {
                    return Ok(ScriptReply { value, server, repeated: retries.has_repeated() });
                }
                Err(fault) => fault,
            };
            if matches!(fault, Fault::Refused(Refusal::Moved { .. } | Refusal::Ask { .. })) {
                self.counters.redirects.increment();
            }
            let discovery = self.rediscover(place, &fault);
            let wait = match retries.next(&fault, call.repeatable) {
                Some(wait) if now() + wait < deadline => wait,
                // If no time was left for the retry, the reason is the error before it.
                _ if matches!(fault, Fault::NotSent(_)) => {
                    break migrating.unwrap_or_else(|| fault.into_error());
                }
                _ => break fault.into_error(),
            };
            match fault {
                Fault::Refused(Refusal::TryAgain(error)) => migrating = Some(error),
                Fault::Refused(Refusal::Moved { slot, address }) => {
                    if let Err(error) = self.moved(slot, &address) {
                        break error;
                    }
                }
                Fault::Refused(Refusal::Ask { address }) => ask = Some(address),
                Fault::NotSent(_)
                | Fault::Lost(_)
                | Fault::Refused(
                    Refusal::NoScript | Refusal::ReadOnly(_) | Refusal::NotReady(_) | Refusal::Other(_),
                ) => {}
            }
            if let Some(discovery) = discovery {
                // If it fails, the retry uses the server that is known.
                let _ = discovery.wait(deadline).await;
            }
            if !wait.is_zero() {
                pause(wait).await;
            }
            self.counters.retries.increment();
        };
        self.counters.failed_calls.increment();
        // Whatever the result of the retry, the first attempt may have been executed.
        Err(if retries.has_repeated() { error.with_unknown_effect() } else { error })
    }

    /// Deletes keys, by one pipeline per server. Follows no redirect, and repeats nothing: what is left expires.
    pub(crate) async fn delete(&self, names: &[Vec<u8>], deadline: Instant) {
        // One command per place, because a cluster node accepts only keys of one slot in a command.
        let mut places: BTreeMap<Place, Cmd> = BTreeMap::new();
        for name in names {
            places.entry(self.place(name)).or_insert_with(|| redis::cmd("UNLINK")).arg(name.as_slice());
        }
        let mut servers: Vec<(Arc<Server>, Pipeline)> = Vec::new();
        for (place, command) in places {
            let Ok(server) = self.server(place, deadline).await else { continue };
            let known = servers.iter().position(|(known, _)| Arc::ptr_eq(known, &server));
            let number = known.unwrap_or_else(|| {
                servers.push((server, Pipeline::new()));
                servers.len() - 1
            });
            servers[number].1.add_command(command);
        }
        join_all(servers.iter().map(|(server, commands)| server.delete(commands, deadline))).await;
    }

    /// Returns whether there is only one server to send a call to.
    fn is_fixed(&self, place: Place) -> bool {
        match &self.servers {
            Servers::One(primary) => matches!(primary, Primary::Fixed(_)),
            Servers::Shards { shards, .. } => matches!(shards[usize::from(place.0)], Primary::Fixed(_)),
            Servers::Cluster(_) => false,
        }
    }

    async fn server(&self, place: Place, deadline: Instant) -> Result<Arc<Server>, Fault> {
        match &self.servers {
            Servers::One(primary) => primary.server(deadline).await,
            Servers::Shards { shards, .. } => shards[usize::from(place.0)].server(deadline).await,
            Servers::Cluster(cluster) => cluster.server(place.0, deadline).await,
        }
    }

    fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.node(address),
            Servers::One(_) | Servers::Shards { .. } => Err(is_cluster_node()),
        }
    }

    fn moved(&self, slot: u16, address: &Address) -> Result<(), StoreError> {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.moved(slot, address),
            Servers::One(_) | Servers::Shards { .. } => Err(is_cluster_node()),
        }
    }

    /// Starts to look for the right server if a fault suggests that it has changed.
    fn rediscover(&self, place: Place, fault: &Fault) -> Option<Pending> {
        match fault {
            Fault::NotSent(_)
            | Fault::Lost(_)
            | Fault::Refused(Refusal::NotReady(_) | Refusal::ReadOnly(_)) => {}
            Fault::Refused(
                Refusal::NoScript
                | Refusal::Moved { .. }
                | Refusal::Ask { .. }
                | Refusal::TryAgain(_)
                | Refusal::Other(_),
            ) => return None,
        }
        match &self.servers {
            Servers::One(primary) => primary.discover(),
            Servers::Shards { shards, .. } => shards[usize::from(place.0)].discover(),
            Servers::Cluster(cluster) => Some(cluster.refresh()),
        }
    }
}

/// Creates the error for a redirect by a server that was not configured as a cluster.
fn is_cluster_node() -> StoreError {
    StoreError::new(
        ErrorKind::Refused,
        "this redis is a cluster node; use redis+cluster:// instead of redis://",
    )
}

#[expect(clippy::disallowed_methods, reason = "between attempts within a deadline, which is real time")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
