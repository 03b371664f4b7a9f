//! Scripts as people write them by hand, beside which Tollgate's checks are measured.
//!
//! Each is atomic, reads the server's time in every call, as Tollgate's scripts do, and returns whether the check is
//! allowed and what remains. It has as many key accesses as the algorithm needs, and no more. Algorithms with the same
//! key accesses share one. The client is the one that Tollgate's store uses: a multiplexed connection and `EVALSHA`.

use std::sync::atomic::{AtomicU64, Ordering};

use ::redis::Script;
use ::redis::aio::MultiplexedConnection;

use super::server;
use super::subject::{Failure, Place, Remote};
use crate::keys::Walk;

/// A script and its arguments, which are the parameters of a limit.
#[derive(Clone, Copy)]
pub struct Handwritten {
    pub script: &'static str,
    pub arguments: &'static [u64],
    /// The last argument identifies the call.
    pub identified: bool,
}

pub const FIXED_WINDOW: &str = include_str!("handwritten/fixed_window.lua");
pub const SLIDING_WINDOW: &str = include_str!("handwritten/sliding_window.lua");
pub const INTERVAL_BUCKET: &str = include_str!("handwritten/interval_bucket.lua");
pub const TAT: &str = include_str!("handwritten/tat.lua");
pub const BLOCKING: &str = include_str!("handwritten/blocking.lua");
pub const SLIDING_COUNTER: &str = include_str!("handwritten/sliding_counter.lua");
pub const SORTED_SET: &str = include_str!("handwritten/sorted_set.lua");

/// A hand-written script as a subject.
pub struct ByHand {
    connection: MultiplexedConnection,
    script: Script,
    namespace: String,
    arguments: &'static [u64],
    next_identifier: Option<AtomicU64>,
}

impl ByHand {
    pub async fn build(place: Place, handwritten: Handwritten) -> Result<Self, Failure> {
        let connection = server::connect(&place.url).await?;
        Ok(Self {
            connection,
            script: Script::new(handwritten.script),
            namespace: place.namespace,
            arguments: handwritten.arguments,
            next_identifier: handwritten.identified.then(AtomicU64::default),
        })
    }
}

impl Remote for ByHand {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        // A call needs a handle of its own; cloning it copies two shared pointers.
        let mut connection = self.connection.clone();
        let mut call = self.script.key(format!("{}:{}", self.namespace, keys.step()));
        for argument in self.arguments {
            call.arg(argument);
        }
        if let Some(next) = &self.next_identifier {
            call.arg(next.fetch_add(1, Ordering::Relaxed));
        }
        // Some reply with more than that.
        let reply: Vec<i64> = call.invoke_async(&mut connection).await?;
        let [allowed, remaining, ..] = reply[..] else { return Err("the reply has no two numbers".into()) };
        std::hint::black_box(remaining);
        Ok(allowed == 1)
    }
}
