//! Whether a server may evict keys. An evicted state is a fresh one: its quota is available again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, from_redis_value};
use tokio::time::{Instant, timeout_at};
use tollgate_core::{Event, Observer};

use crate::stats::Counters;

/// What a server holds, which decides what it may evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Every key has a time-to-live.
    Limits,
    /// No key has a time-to-live.
    Documents,
}

impl Contents {
    /// Returns whether a server with this policy and a memory limit evicts none of these keys.
    fn are_safe_with(self, policy: &str) -> bool {
        match self {
            Self::Limits => policy == "noeviction",
            Self::Documents => policy == "noeviction" || policy.starts_with("volatile-"),
        }
    }

    fn loss(self) -> &'static str {
        match self {
            Self::Limits => "an evicted key has its whole quota back",
            Self::Documents => "an evicted document is lost with its history",
        }
    }
}

/// How many problems are kept for an observer that may come.
const MAX_KEPT: usize = 64;

/// The observer of a store's servers, and the problems that were found before it was attached: a store connects before
/// a limiter is built on it.
#[derive(Default)]
pub(crate) struct Reports {
    observer: OnceLock<Arc<dyn Observer>>,
    kept: Mutex<Vec<String>>,
    /// The addresses of the servers that were unsafe when they were checked last. A topology may forget a server and
    /// find it again.
    unsafe_servers: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

impl Reports {
    /// Attaches the observer, unless there is one already.
    pub(crate) fn attach(&self, observer: &Arc<dyn Observer>) {
        // Under the lock, so that no problem is kept after it.
        let kept = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = self.observer.set(Arc::clone(observer));
            std::mem::take(&mut *kept)
        };
        for problem in kept {
            self.report(problem);
        }
    }

    /// Records whether a server is unsafe. Returns whether that was not known.
    fn record(&self, server: &str, is_unsafe: bool) -> bool {
        let mut servers = self.unsafe_servers.lock().unwrap_or_else(PoisonError::into_inner);
        if is_unsafe { servers.insert(server.to_owned()) } else { servers.remove(server) }
    }

    fn report(&self, problem: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(observer) = self.observer.get() {
            // Called without the lock.
            drop(kept);
            observer.observe(Event::ServerMisconfigured { problem: &problem });
        } else if kept.len() < MAX_KEPT {
            kept.push(problem);
        }
    }
}

/// Checks the configuration of one server, and reports it once if it is unsafe.
#[derive(Debug)]
pub(crate) struct EvictionCheck {
    server: String,
    contents: Contents,
    counters: Arc<Counters>,
    reports: Arc<Reports>,
}

impl EvictionCheck {
    pub(crate) fn new(
        server: String,
        contents: Contents,
        counters: Arc<Counters>,
        reports: Arc<Reports>,
    ) -> Self {
        Self { server, contents, counters, reports }
    }

    /// Asks the server. A server that refuses to answer, or does not answer until `deadline`, is not reported.
    pub(crate) async fn run(&self, mut connection: MultiplexedConnection, deadline: Instant) {
        let mut command = Cmd::new();
        // Needs fewer permissions than CONFIG GET.
        command.arg("INFO").arg("memory");
        let reply = timeout_at(deadline, connection.send_packed_command(&command)).await;
        if let Ok(Ok(reply)) = reply
            && let Ok(memory) = from_redis_value::<String>(reply)
        {
            self.record(&memory);
        }
    }

    fn record(&self, memory: &str) {
        let policy = evicting_policy(memory, self.contents);
        let is_news = self.reports.record(&self.server, policy.is_some());
        let Some(policy) = policy.filter(|_| is_news) else { return };
        self.counters.evicting_servers.increment();
        self.reports.report(format!(
            "redis at {} may evict keys: its maxmemory is set and its maxmemory-policy is {policy}; {}; \
             set maxmemory-policy noeviction",
            self.server,
            self.contents.loss()
        ));
    }
}

/// Returns the policy by which a server evicts keys, from its reply to `INFO memory`. `None` if it never does.
fn evicting_policy(memory: &str, contents: Contents) -> Option<&str> {
    let field = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let is_limited = field("maxmemory")?.trim() != "0";
    let policy = field("maxmemory_policy").map(str::trim);
    policy.filter(|policy| is_limited && !contents.are_safe_with(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_noeviction_and_no_limit_are_safe() {
        let memory =
            |max, policy| format!("used_memory:1\r\nmaxmemory:{max}\r\nmaxmemory_policy:{policy}\r\n");
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl"] {
            assert_eq!(evicting_policy(&memory(100, policy), Contents::Limits), Some(policy));
            let evicts_documents = evicting_policy(&memory(100, policy), Contents::Documents).is_some();
            assert_eq!(evicts_documents, policy.starts_with("allkeys"), "documents do not expire");
            assert_eq!(
                evicting_policy(&memory(0, policy), Contents::Limits),
                None,
                "without a limit nothing is evicted"
            );
        }
        for contents in [Contents::Limits, Contents::Documents] {
            assert_eq!(evicting_policy(&memory(100, "noeviction"), contents), None);
            assert_eq!(evicting_policy("redis_version:7.0\r\n", contents), None, "no answer");
        }
    }

    #[test]
    fn a_server_is_reported_once_until_it_is_safe_again() {
        let (seen, counters) = (Arc::new(Mutex::new(Vec::new())), Arc::<Counters>::default());
        let observer: Arc<dyn Observer> = {
            let seen = Arc::clone(&seen);
            Arc::new(move |event: Event<'_>| seen.lock().expect("no panic").push(format!("{event:?}")))
        };
        let reports = Arc::<Reports>::default();
        let check = EvictionCheck::new(
            "host:1".to_owned(),
            Contents::Limits,
            Arc::clone(&counters),
            Arc::clone(&reports),
        );
        check.record("maxmemory:1\nmaxmemory_policy:volatile-ttl");
        reports.attach(&observer);
        for (policy, reports) in
            [("volatile-ttl", 1), ("volatile-ttl", 1), ("noeviction", 1), ("allkeys-lru", 2)]
        {
            check.record(&format!("maxmemory:1\nmaxmemory_policy:{policy}"));
            assert_eq!(seen.lock().expect("no panic").len(), reports, "{policy}");
        }
        assert_eq!(counters.stats().evicting_servers, 2);
        let seen = seen.lock().expect("no panic");
        assert!(seen[0].contains("host:1") && seen[0].contains("volatile-ttl"), "{seen:?}");
        assert!(seen[1].contains("noeviction"), "{seen:?}");
    }
}
