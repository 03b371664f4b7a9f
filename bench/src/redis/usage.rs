//! CPU time of checks, on both sides.

use std::ops::Sub;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cmd;

use super::subject::Failure;
use crate::crowding;

/// Time used until a moment, or between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// CPU time of this process.
    pub client: Duration,
    /// CPU time of the server, including its network.
    pub server: Duration,
    /// Time of the server in scripts, by its own statistics. Wall-clock time, so it includes preemption by other
    /// programs.
    pub scripts: Duration,
}

impl Usage {
    pub async fn now(control: &mut MultiplexedConnection) -> Result<Self, Failure> {
        // One section per call: older servers do not support several.
        let times: String = cmd("INFO").arg("cpu").query_async(control).await?;
        let commands: String = cmd("INFO").arg("commandstats").query_async(control).await?;
        Ok(Self { client: crowding::ran(), server: server(&times), scripts: scripts(&commands) })
    }
}

/// Returns the number of script calls so far, by the statistics of the server.
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

/// Returns the sum of a field over all commands that run scripts.
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
    fn statistics_of_the_server_are_parsed() {
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
