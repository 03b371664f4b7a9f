//! What checks cost the processors, on both sides.

use std::ops::Sub;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cmd;

use super::subject::Failure;
use crate::crowding;

/// Time used up to a moment, or between two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Of the processors, by this process.
    pub client: Duration,
    /// Of the processors, by the server, the network included.
    pub server: Duration,
    /// By the server inside of scripts: its own account of them, which goes by the clock and so
    /// includes what other programs took from it meanwhile.
    pub scripts: Duration,
}

impl Usage {
    pub async fn now(control: &mut MultiplexedConnection) -> Result<Self, Failure> {
        // One section each: asking for several at once is newer than some servers.
        let times: String = cmd("INFO").arg("cpu").query_async(control).await?;
        let commands: String = cmd("INFO").arg("commandstats").query_async(control).await?;
        Ok(Self { client: crowding::ran(), server: server(&times), scripts: scripts(&commands) })
    }
}

/// How often the server has run a script so far, by its own count.
pub async fn calls(control: &mut MultiplexedConnection) -> Result<u64, Failure> {
    let commands: String = cmd("INFO").arg("commandstats").query_async(control).await?;
    Ok(sum_of(&commands, "calls="))
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            client: self.client.saturating_sub(earlier.client),
            server: self.server.saturating_sub(earlier.server),
            scripts: self.scripts.saturating_sub(earlier.scripts),
        }
    }
}

fn server(info: &str) -> Duration {
    let seconds = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).map_or(Duration::ZERO, Duration::from_secs_f64)
    };
    seconds("used_cpu_user") + seconds("used_cpu_sys")
}

fn scripts(info: &str) -> Duration {
    Duration::from_micros(sum_of(info, "usec="))
}

/// A field of the commands that run scripts, of all of them together.
fn sum_of(info: &str, field: &str) -> u64 {
    let values = info.lines().filter_map(|line| {
        let (command, statistics) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        if !["eval", "evalsha", "fcall"].contains(&command) {
            return None;
        }
        statistics.split(',').find_map(|part| part.strip_prefix(field))?.parse::<u64>().ok()
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_account_is_understood() {
        let cpu = "# CPU\r\nused_cpu_sys:0.250000\r\nused_cpu_user:1.500000\r\nused_cpu_sys_children:7.0\r\n";
        assert_eq!(server(cpu), Duration::from_millis(1_750));
        let commands = "# Commandstats\r\n\
            cmdstat_get:calls=9,usec=5,usec_per_call=0.55,rejected_calls=0,failed_calls=0\r\n\
            cmdstat_evalsha:calls=3,usec=30,usec_per_call=10.00,rejected_calls=0,failed_calls=1\r\n\
            cmdstat_eval:calls=1,usec=12,usec_per_call=12.00,rejected_calls=0,failed_calls=0\r\n";
        assert_eq!(scripts(commands), Duration::from_micros(42));
        assert_eq!(sum_of(commands, "calls="), 4);
        assert_eq!(scripts("# Commandstats\r\n"), Duration::ZERO);
    }
}
