//! Which server a key lives on, and what to do when that changes.

mod cluster;
mod inquiry;
mod primary;
mod ring;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use crate::call::Call;
use crate::config::Connections;
use crate::error::{self, Address, Fault, Refusal};
use crate::key;
use crate::server::{Server, now};
use crate::url::Target;
use cluster::Cluster;
use inquiry::Pending;
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

impl From<Place> for u64 {
    fn from(Place(number): Place) -> Self {
        number.into()
    }
}

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
}

impl Topology {
    pub(crate) fn new(target: Target, connections: &Connections) -> Result<Self, StoreError> {
        let server = |endpoint: crate::url::Endpoint| Server::new(endpoint.info, connections).map(Arc::new);
        Ok(match target {
            Target::Single(endpoint) => Self::One(Primary::Fixed(server(endpoint)?)),
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
                        Ok(Primary::one_of(servers, connections.clone()))
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
            Self::Cluster(cluster) => cluster.refresh().wait(deadline).await,
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
        let mut course = Course { alone: self.is_fixed(place), ..Course::default() };
        let mut ask = None;
        let mut moving = None;
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
                Ok(value) => return Ok(Answer { value, server }),
                Err(fault) => fault,
            };
            let found_out = self.doubt(place, &fault);
            let wait = match course.after(&fault, call.repeatable) {
                Some(wait) if now() + wait < deadline => wait,
                // If there was no time left to send it once more, what it was refused for is the reason.
                _ if matches!(fault, Fault::NotSent(_)) => {
                    break moving.unwrap_or_else(|| fault.into_error());
                }
                _ => break fault.into_error(),
            };
            match fault {
                Fault::Refused(Refusal::TryAgain(error)) => moving = Some(error),
                Fault::Refused(Refusal::Moved { slot, address }) => {
                    if let Err(error) = self.moved(slot, &address) {
                        break error;
                    }
                }
                Fault::Refused(Refusal::Ask { address }) => ask = Some(address),
                _ => {}
            }
            if let Some(found_out) = found_out {
                // Who does not know either goes on with what is known.
                let _ = found_out.wait(deadline).await;
            }
            if !wait.is_zero() {
                pause(wait).await;
            }
        };
        // Whatever became of the repetition, the first may have been executed.
        Err(if course.repeated { error.with_unknown_effect() } else { error })
    }

    /// Nobody else can be asked than the one server.
    fn is_fixed(&self, place: Place) -> bool {
        match self {
            Self::One(primary) => matches!(primary, Primary::Fixed(_)),
            Self::Shards { shards, .. } => matches!(shards[usize::from(place.0)], Primary::Fixed(_)),
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
            _ => Err(in_a_cluster()),
        }
    }

    fn moved(&self, slot: u16, address: &Address) -> Result<(), StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.moved(slot, address),
            _ => Err(in_a_cluster()),
        }
    }

    /// If the server may no longer be the one, begins to find out.
    fn doubt(&self, place: Place, fault: &Fault) -> Option<Pending> {
        match fault {
            Fault::NotSent(_)
            | Fault::Lost(_)
            | Fault::Refused(Refusal::NotReady(_) | Refusal::ReadOnly(_)) => {}
            Fault::Refused(_) => return None,
        }
        match self {
            Self::One(primary) => primary.seek(),
            Self::Shards { shards, .. } => shards[usize::from(place.0)].seek(),
            Self::Cluster(cluster) => Some(cluster.refresh()),
        }
    }
}

/// Only clusters redirect.
fn in_a_cluster() -> StoreError {
    StoreError::new(
        ErrorKind::Refused,
        "this redis is a node of a cluster; use redis+cluster:// instead of redis://",
    )
}

/// How far a call has come.
#[derive(Default)]
struct Course {
    redirections: u32,
    moving: u32,
    attempts: u32,
    /// It was sent again although it may have been executed.
    repeated: bool,
    /// There is one server only: if it cannot be reached, calls fail at once and leave it alone for a while.
    alone: bool,
}

impl Course {
    /// After which time to send it again, if at all.
    fn after(&mut self, fault: &Fault, repeatable: bool) -> Option<Duration> {
        let more = |count: &mut u32, most| {
            *count += 1;
            *count <= most
        };
        let wait = match fault {
            Fault::Refused(Refusal::Moved { .. } | Refusal::Ask { .. }) => {
                more(&mut self.redirections, REDIRECTIONS).then_some(0)
            }
            // That takes as long as it takes: only the deadline ends it.
            Fault::Refused(Refusal::TryAgain(_)) => {
                self.redirections = 0;
                self.moving = (self.moving + 1).min(8);
                Some(self.moving * 5)
            }
            Fault::NotSent(_) if self.alone => None,
            Fault::NotSent(_) | Fault::Refused(Refusal::ReadOnly(_) | Refusal::NotReady(_)) => {
                more(&mut self.attempts, ATTEMPTS).then(|| (self.attempts - 1) * 20)
            }
            Fault::Lost(_) => (repeatable && !std::mem::replace(&mut self.repeated, true)).then_some(0),
            Fault::Refused(Refusal::NoScript | Refusal::Other(_)) => None,
        };
        wait.map(|millis| Duration::from_millis(millis.into()))
    }
}

#[expect(clippy::disallowed_methods, reason = "between attempts within a deadline, which is real time")]
async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
