//! Whether a thread had a processor to itself.
//!
//! Two threads that take turns on one processor do not contend: locks and shared words
//! look twice as slow as alone, however bad they are. A lap like that must not count.

use std::fs;
use std::time::Duration;

/// How long this thread has so far been ready to run but had to wait for a processor.
///
/// Zero where the system does not tell (it is Linux's `schedstat`).
pub fn waited() -> Duration {
    let read = || {
        let line = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Duration::from_nanos(read().unwrap_or(0))
}
