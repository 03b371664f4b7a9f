//! Scheduler statistics: whether a thread had a processor to itself, and how long it ran.
//!
//! Two threads that take turns on one processor do not contend: any lock or shared word looks twice as slow as on one
//! thread, however bad it is. Such a lap must not count.

use std::fs;
use std::time::Duration;

/// Returns how long this thread has been runnable but waiting for a processor so far.
///
/// Zero on systems without Linux's `schedstat`.
pub fn waited() -> Duration {
    schedstat("thread-self", 1)
}

/// Returns the same for the first thread of another process.
pub fn waited_by(process: u32) -> Duration {
    schedstat(&process.to_string(), 1)
}

/// Returns the CPU time of all threads of this process so far.
///
/// In nanoseconds; the CPU time of the process itself has a resolution of 10 ms.
pub fn ran() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    threads.flatten().map(|thread| schedstat(&format!("self/task/{}", thread.file_name().display()), 0)).sum()
}

/// Returns a field of a thread's `schedstat`: 0 is its time on a processor, 1 its time waiting for one.
fn schedstat(thread: &str, field: usize) -> Duration {
    let read = || {
        let line = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
        line.split_whitespace().nth(field)?.parse().ok()
    };
    Duration::from_nanos(read().unwrap_or(0))
}
