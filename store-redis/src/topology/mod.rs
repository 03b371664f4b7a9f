//! Which server a key lives on, and what to do when that changes.

mod cluster;
mod primary;
mod ring;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tokio::time::Instant;
use tollgate_core::StoreError;

use crate::call::Call;
use crate::config::Connections;
use crate::error::{self, Address, Fault, Refusal};
use crate::key;
use crate::server::{Server, now};
use crate::url::Target;
use cluster::Cluster;
use primary::Primary;
use ring::Ring;

/// How often a call is sent again because a server said that it did not do it.
const REDIRECTIONS: u32 = 16;
/// How often it is sent again because nobody took it.
const ATTEMPTS: u32 = 2;

/// The servers.
#[derive(Debug)]
pub(crate) enum Topology {
    One(Primary),
    Shards { ring: Ring, shards: Vec<Primary> },
    Cluster(Box<Cluster>),
}

/// What lives together: everything on one server, a shard, or the slot of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u16);

/// An answer, and who gave it.
#[derive(Debug)]
pub(crate) struct Answer {
    value: Value,
    server: Arc<Server>,
}

impl Answer {
    /// Who gave it.
    pub(crate) fn server(&self) -> &str {
        self.server.name()
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// What most scripts answer.
    pub(crate) fn bytes(&self) -> Result<&[u8], StoreError> {
        match &self.value {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(error::not_understood(self.server())),
        }
    }

    /// What the shortest script answers.
    pub(crate) fn number(&self) -> Result<u64, StoreError> {
        match self.value {
            Value::Int(number) => u64::try_from(number).map_err(|_| error::not_understood(self.server())),
            _ => Err(error::not_understood(self.server())),
        }
    }
}

impl Topology {
    pub(crate) fn new(target: Target, connections: &Connections) -> Result<Self, StoreError> {
        let server = |endpoint: crate::url::Endpoint| Server::new(endpoint.info, connections).map(Arc::new);
        Ok(match target {
            Target::Single(endpoint) => Self::One(Primary::fixed(server(endpoint)?)),
            Target::Sentinel { sentinels, name, primary } => {
                let sentinels = sentinels.into_iter().map(server).collect::<Result<Vec<_>, _>>()?;
                Self::One(Primary::watched(sentinels, name, primary, connections.clone()))
            }
            Target::Shards { shards } => {
                let ring = Ring::new(shards.iter().map(|shard| shard[0].name()));
                let shards = shards
                    .into_iter()
                    .map(|shard| {
                        let servers = shard.into_iter().map(server).collect::<Result<Vec<_>, _>>()?;
                        Ok(Primary::one_of(servers))
                    })
                    .collect::<Result<Vec<_>, StoreError>>()?;
                Self::Shards { ring, shards }
            }
            Target::Cluster { seeds, access } => {
                Self::Cluster(Box::new(Cluster::new(seeds, access, connections.clone())?))
            }
        })
    }

    /// All keys live together, so that any request is one atomic step.
    pub(crate) fn is_one_place(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Where a key lives.
    pub(crate) fn place(&self, name: &[u8]) -> Place {
        match self {
            Self::One(_) => Place(0),
            Self::Shards { ring, .. } => Place(ring.shard(key::tag(name))),
            Self::Cluster(_) => Place(key::slot(name)),
        }
    }

    /// Finds every server.
    pub(crate) async fn reach(&self, deadline: Instant) -> Result<(), StoreError> {
        let reach = async |primary: &Primary| primary.server(deadline).await?.connect(deadline).await;
        match self {
            Self::One(primary) => reach(primary).await,
            Self::Shards { shards, .. } => try_join_all(shards.iter().map(reach)).await.map(drop),
            Self::Cluster(cluster) => cluster.refresh(deadline).await,
        }
        .map_err(Fault::into_error)
    }

    /// Runs a call where its keys live. What a server refused because it is not the one, another is asked; what may
    /// have been executed is sent again only if that does no harm.
    pub(crate) async fn run(
        &self,
        place: Place,
        call: &Call,
        deadline: Instant,
    ) -> Result<Answer, StoreError> {
        let mut course =
            Course { redirections: 0, attempts: 0, repeated: false, alone: self.is_fixed(place) };
        let mut ask = None;
        loop {
            let (server, asking) = match ask.take() {
                Some(address) => (self.node(&address)?, true),
                None => (self.server(place, deadline).await.map_err(Fault::into_error)?, false),
            };
            let fault = match server.run(call, asking, deadline).await {
                Ok(value) => return Ok(Answer { value, server }),
                Err(fault) => fault,
            };
            if let Fault::Refused(Refusal::Ask { address }) = &fault {
                ask = Some(address.clone());
            }
            match course.after(fault, call, now() >= deadline) {
                Next::GiveUp(error) => return Err(error),
                Next::Again { wait, learn } => {
                    match learn {
                        Learn::Nothing => {}
                        Learn::Slot(slot, address) => self.moved(slot, &address)?,
                        Learn::Distrust => self.distrust(place, &server, deadline).await,
                    }
                    if !wait.is_zero() {
                        pause(wait.min(deadline.saturating_duration_since(now()))).await;
                    }
                }
            }
        }
    }

    /// Nobody else can be asked than the one server.
    fn is_fixed(&self, place: Place) -> bool {
        match self {
            Self::One(primary) => primary.is_fixed(),
            Self::Shards { shards, .. } => shards[usize::from(place.0)].is_fixed(),
            Self::Cluster(_) => false,
        }
    }

    async fn server(&self, place: Place, deadline: Instant) -> Result<Arc<Server>, Fault> {
        match self {
            Self::One(primary) => primary.server(deadline).await,
            Self::Shards { shards, .. } => shards[usize::from(place.0)].server(deadline).await,
            Self::Cluster(cluster) => cluster.server(place.0, deadline).await,
        }
    }

    fn node(&self, address: &Address) -> Result<Arc<Server>, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.node(address),
            // Only clusters redirect.
            _ => Err(Fault::Refused(Refusal::Ask { address: address.clone() }).into_error()),
        }
    }

    fn moved(&self, slot: u16, address: &Address) -> Result<(), StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.moved(slot, address),
            _ => Err(StoreError::new(
                tollgate_core::ErrorKind::Refused,
                "this redis is a node of a cluster; use redis+cluster:// instead of redis://",
            )),
        }
    }

    /// The server may no longer be the one.
    async fn distrust(&self, place: Place, server: &Arc<Server>, deadline: Instant) {
        match self {
            Self::One(primary) => primary.distrust(server),
            Self::Shards { shards, .. } => shards[usize::from(place.0)].distrust(server),
            // Who does not know either keeps the map that there is.
            Self::Cluster(cluster) => drop(cluster.refresh(deadline).await),
        }
    }
}

/// How far a call has come.
struct Course {
    redirections: u32,
    attempts: u32,
    repeated: bool,
    /// There is one server only: if it cannot be reached, calls fail at once and leave it alone for a while.
    alone: bool,
}

enum Next {
    GiveUp(StoreError),
    Again { wait: Duration, learn: Learn },
}

enum Learn {
    Nothing,
    Slot(u16, Address),
    Distrust,
}

impl Course {
    fn after(&mut self, fault: Fault, call: &Call, too_late: bool) -> Next {
        let millis = |millis| Duration::from_millis(millis);
        let again = |wait, learn| Next::Again { wait, learn };
        if too_late {
            return Next::GiveUp(fault.into_error());
        }
        match fault {
            Fault::Refused(Refusal::Moved { slot, address }) if self.redirected() => {
                again(Duration::ZERO, Learn::Slot(slot, address))
            }
            Fault::Refused(Refusal::Ask { .. }) if self.redirected() => again(Duration::ZERO, Learn::Nothing),
            Fault::Refused(Refusal::TryAgain(_)) if self.redirected() => again(millis(5), Learn::Nothing),
            Fault::NotSent(error) if self.alone => Next::GiveUp(error),
            Fault::NotSent(_) | Fault::Refused(Refusal::ReadOnly(_) | Refusal::NotReady(_))
                if self.tried() =>
            {
                again(millis(u64::from(self.attempts - 1) * 20), Learn::Distrust)
            }
            Fault::Lost(_) if call.repeatable && !std::mem::replace(&mut self.repeated, true) => {
                again(Duration::ZERO, Learn::Distrust)
            }
            fault => Next::GiveUp(fault.into_error()),
        }
    }

    fn redirected(&mut self) -> bool {
        self.redirections += 1;
        self.redirections <= REDIRECTIONS
    }

    fn tried(&mut self) -> bool {
        self.attempts += 1;
        self.attempts <= ATTEMPTS
    }
}

#[expect(clippy::disallowed_methods, reason = "between attempts within a deadline, which is real time")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
