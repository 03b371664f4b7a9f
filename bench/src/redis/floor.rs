//! The floor: the least work of any exact limiter on Redis.
//!
//! One call of a script that reads the server's time, reads a key and writes it back with a time to live. It decides
//! nothing. The cost of a limiter is reported as a multiple of it.

use ::redis::Script;
use ::redis::aio::MultiplexedConnection;

use super::server;
use super::subject::{Contestant, Failure, Place, QUOTA, Remote, runner};
use crate::keys::Walk;

/// KEYS[1]: the key. ARGV[1]: its time to live in milliseconds.
const SCRIPT: &str = "
local now = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], now[1], 'PX', ARGV[1])
return 1";

pub const NAME: &str = "floor";

/// Returns the floor as a row of the table.
pub fn contestant(workloads: &'static [&'static str]) -> Contestant {
    Contestant { name: NAME, build: |place| runner(build(place)), peer: false, workloads }
}

struct Floor {
    connection: MultiplexedConnection,
    script: Script,
    namespace: String,
    ttl_ms: u64,
}

async fn build(place: Place) -> Result<Floor, Failure> {
    let connection = server::connect(&place.url).await?;
    let ttl_ms = QUOTA.period.as_secs() * 1_000;
    Ok(Floor { connection, script: Script::new(SCRIPT), namespace: place.namespace, ttl_ms })
}

impl Remote for Floor {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        // A call needs a handle of its own; cloning it copies two shared pointers.
        let mut connection = self.connection.clone();
        let key = format!("{}:{}", self.namespace, keys.step());
        let reply: u8 = self.script.key(key).arg(self.ttl_ms).invoke_async(&mut connection).await?;
        Ok(reply == 1)
    }
}
