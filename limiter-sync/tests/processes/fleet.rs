//! Processes under load: each is a node around every server of a list, and reports what it was granted in the end.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tollgate_core::{Clock, Limit, SystemClock, Time, Timer};
use tollgate_limiter_sync::{Synced, SyncedBuilder, WhenStale};
use tollgate_store_redis::RedisStore;

use crate::load::{Demand, Slot, Slots, slot};

/// The argument that makes this program a node under load.
pub(crate) const NODE: &str = "--load";
/// How many nodes there are in the policy of a limit.
pub(crate) const NODES: u32 = 5;
/// How often a node looks whether it was synchronized.
const PAUSE: Duration = Duration::from_millis(20);

/// The limits that every node checks, by what happens while the server does not answer.
pub(crate) const LIMITS: [(&str, WhenStale); 2] =
    [("continue", WhenStale::Continue), ("share", WhenStale::share_of(NODES))];

/// How many pass per second of each limit.
pub(crate) const PER_SECOND: u32 = 500;
pub(crate) const BURST: u32 = 50;

fn limit(name: &str) -> Limit {
    Limit::per_second(PER_SECOND).burst(BURST).build(name).expect("valid")
}

/// What a process did on one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// For each of the limits.
    pub(crate) slots: [Slots; LIMITS.len()],
    /// In which slots sync rounds were answered.
    pub(crate) synced: BTreeSet<u64>,
}

impl Report {
    /// Returns the first slot in which a limit was checked.
    pub(crate) fn first(&self, limit: usize) -> u64 {
        *self.slots[limit].by_number.keys().next().expect("it was checked")
    }
}

/// A child process.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process whose callers check each limit so many times per second, until an instant.
    pub(crate) fn start(end: Time, per_second: u32, key: &str, urls: &[String]) -> Self {
        let child = Command::new(std::env::current_exe().expect("the path of this program"))
            .args([NODE, &end.nanos().to_string(), &per_second.to_string(), key])
            .args(urls)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        Self(child)
    }

    /// Waits for its end, and returns what it did on each server.
    pub(crate) fn report(mut self, servers: usize) -> Vec<Report> {
        let mut text = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        assert!(self.0.wait().expect("a child process").success(), "a process that ends well");
        let mut reports = vec![Report::default(); servers];
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
            let index = |number: u64| usize::try_from(number).expect("an index");
            let count = |number: u64| u32::try_from(number).expect("a count");
            match numbers[..] {
                [server, slot] => {
                    reports[index(server)].synced.insert(slot);
                }
                [server, limit, slot, offered, granted] => {
                    let counts = Slot { offered: count(offered), granted: count(granted) };
                    reports[index(server)].slots[index(limit)].add(slot, counts);
                }
                _ => panic!("not a report: {line}"),
            }
        }
        reports
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, unless the parent panics.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the node of a child process.
pub(crate) fn run_node(runtime: &Runtime, arguments: &[String]) {
    let [end, per_second, key, urls @ ..] = arguments else { panic!("arguments are missing: {arguments:?}") };
    let end = Time::from_nanos(end.parse().expect("an instant"));
    let per_second = per_second.parse().expect("a number");
    let nodes = urls.iter().enumerate().map(|(server, url)| load(server, url, key, per_second, end));
    runtime.block_on(join_all(nodes));
}

/// Loads the node of one server, and prints the report.
async fn load(server: usize, url: &str, key: &str, per_second: f64, end: Time) {
    let store = RedisStore::connect(url).await.expect("a valid URL");
    let policy = |builder: SyncedBuilder<RedisStore>, (name, when_stale)| {
        builder.policy(&limit(name), |policy| policy.when_stale(when_stale))
    };
    let node = LIMITS.into_iter().fold(Synced::builder(store), policy).build().expect("valid");
    let start = SystemClock::new().now();
    let calls = LIMITS.map(|(name, _)| {
        let (node, limit) = (&node, limit(name));
        async move { Demand::starting(Duration::ZERO, per_second).call(node, &limit, key, start, end).await }
    });
    let (all, synced) = tokio::join!(join_all(calls), watch(&node, end));
    for slot in synced {
        println!("{server} {slot}");
    }
    for (limit, slots) in all.into_iter().enumerate() {
        for (slot, Slot { offered, granted }) in slots.by_number {
            println!("{server} {limit} {slot} {offered} {granted}");
        }
    }
}

/// Returns the slots in which a node completed sync rounds, until an instant.
async fn watch(node: &Synced<RedisStore>, end: Time) -> BTreeSet<u64> {
    let (clock, mut rounds, mut synced) = (SystemClock::new(), 0, BTreeSet::new());
    loop {
        let now = clock.now();
        if now >= end {
            return synced;
        }
        let seen = node.stats().sync_rounds;
        if seen > rounds {
            rounds = seen;
            synced.insert(slot(now));
        }
        // As exact as the slots.
        clock.sleep(PAUSE).await;
    }
}
