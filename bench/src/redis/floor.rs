//! The floor: what no exact limiter in Redis can do without.
//!
//! One call of a script that reads the server's time, reads a key and writes it back with a
//! time to live. It decides nothing; a limiter's cost is told as a multiple of it.

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, Script};

use super::subject::{Failure, Place, QUOTA, Remote};
use crate::keys::Walk;

/// KEYS: the one key. ARGV: its time to live in milliseconds.
const SCRIPT: &str = "
local now = redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], now[1], 'PX', ARGV[1])
return 1";

pub struct Floor {
    connection: MultiplexedConnection,
    script: Script,
    namespace: String,
    live: u64,
}

pub async fn build(place: Place) -> Result<Floor, Failure> {
    let connection = Client::open(place.url)?.get_multiplexed_async_connection().await?;
    let live = QUOTA.period.as_secs() * 1_000;
    Ok(Floor { connection, script: Script::new(SCRIPT), namespace: place.namespace, live })
}

impl Remote for Floor {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        // A handle per call, as calls want one of their own; it is two shared pointers.
        let mut connection = self.connection.clone();
        let key = format!("{}:{}", self.namespace, keys.step());
        let answer: u8 = self.script.key(key).arg(self.live).invoke_async(&mut connection).await?;
        Ok(answer == 1)
    }
}
