//! Whether a thread had a processor to itself, and how long it ran.
//!
//! Two threads that take turns on one processor do not contend: locks and shared words
//! look twice as slow as alone, however bad they are. A lap like that must not count.

use std::fs;
use std::time::Duration;

/// How long this thread has so far been ready to run but had to wait for a processor.
///
/// Zero where the system does not tell (it is Linux's `schedstat`).
pub fn waited() -> Duration {
    schedstat("thread-self", 1)
}

/// The same of the first thread of another process.
pub fn waited_by(process: u32) -> Duration {
    schedstat(&process.to_string(), 1)
}

/// How long all threads of this process together have so far been running.
///
/// To the nanosecond, where the process's own count comes in ticks of 10 ms.
pub fn ran() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    threads.flatten().map(|thread| schedstat(&format!("self/task/{}", thread.file_name().display()), 0)).sum()
}

/// A field of a thread's `schedstat`: 0 is its time on a processor, 1 its time waiting for one.
fn schedstat(thread: &str, field: usize) -> Duration {
    let read = || {
        let line = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
        line.split_whitespace().nth(field)?.parse().ok()
    };
    Duration::from_nanos(read().unwrap_or(0))
}
