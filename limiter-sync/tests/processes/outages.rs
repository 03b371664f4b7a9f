//! Servers that are killed or frozen under five processes: meanwhile the fleet passes about the limit, and once the
//! last process is back, the limit passes again.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tollgate_core::{Clock, IdempotencyKey, SystemClock, Timer};
use tollgate_testkit::Redis;

use crate::fleet::{BURST, LIMITS, NODES, PER_SECOND, Process, Report};
use crate::load::{PER_SECOND as SECOND, SLOT, Slots, slot};

/// How long the outages last.
const SPANS: [Duration; 3] = [Duration::from_millis(1_500), Duration::from_secs(10), Duration::from_secs(30)];
/// When they start, after the processes do: once those have divided the limit.
const START: Duration = Duration::from_secs(5);
/// How long the processes run: until some seconds after the longest outage.
const RUN: Duration = Duration::from_secs(45);
/// The slots after an outage in which a second starts that is judged.
const AFTER: usize = 60;
/// One of so many of the seconds that start in these has to be judged.
const ENOUGH: usize = 5;
/// How many times the limit the processes ask for together.
const DEMAND: u32 = 3;
/// How often everything is tried until the machine is fast enough for the demand.
const ATTEMPTS: u32 = 6;

const OUTAGES: [Outage; 3] = [Outage::Killed, Outage::Emptied, Outage::Frozen];

/// What happens to a server.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// It is killed, and started again with its data.
    Killed,
    /// It is killed, and started again without data.
    Emptied,
    /// It does not run for a while. Calls that were sent meanwhile are executed after that.
    Frozen,
}

struct Server {
    redis: Redis,
    outage: Outage,
    lasts: Duration,
    /// Last, so that it is deleted after the server has ended.
    _files: TempDir,
}

impl Server {
    async fn start(outage: Outage, lasts: Duration) -> Self {
        // In memory if possible: the latency of a disk is not tested.
        let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let path = files.path().to_str().expect("a UTF-8 path");
        let kept = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
        let arguments: &[&str] = match outage {
            Outage::Killed => &kept,
            Outage::Emptied | Outage::Frozen => &[],
        };
        Self { redis: Redis::start_with_files(files.path(), arguments).await, outage, lasts, _files: files }
    }

    /// Returns the slots of the outage.
    async fn fail(&mut self) -> Range<u64> {
        let clock = SystemClock::new();
        let start = slot(clock.now());
        match self.outage {
            Outage::Killed | Outage::Emptied => self.redis.kill().await,
            Outage::Frozen => self.redis.freeze().await,
        }
        // The outage itself.
        clock.sleep(self.lasts).await;
        match self.outage {
            Outage::Killed | Outage::Emptied => self.redis.start_again().await,
            Outage::Frozen => self.redis.thaw().await,
        }
        start..slot(clock.now()) + 1
    }
}

/// All outages at the same time, each on a server of its own: together they take as long as the longest one.
pub(crate) fn after_an_outage(runtime: &Handle) {
    let mut judged = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        judged.extend(attempt(runtime));
        if judged.len() == SPANS.len() * OUTAGES.len() * LIMITS.len() {
            return;
        }
    }
    panic!("the machine is too slow for the demand, except for {judged:?}");
}

/// Returns which limits in which outages could be judged.
fn attempt(runtime: &Handle) -> Vec<String> {
    let clock = SystemClock::new();
    let servers = SPANS.into_iter().flat_map(|lasts| OUTAGES.map(|outage| Server::start(outage, lasts)));
    let mut servers = runtime.block_on(join_all(servers));
    let urls: Vec<_> = servers.iter().map(|server| server.redis.url()).collect();
    let key = format!("{:032x}", IdempotencyKey::unique().get());
    let end = clock.now() + RUN;
    let start_one = |_| Process::start(end, DEMAND * PER_SECOND / NODES, &key, &urls);
    let processes: Vec<_> = (0..NODES).map(start_one).collect();
    let outages = runtime.block_on(async {
        clock.sleep(START).await;
        join_all(servers.iter_mut().map(Server::fail)).await
    });
    let reports: Vec<_> = processes.into_iter().map(|process| process.report(urls.len())).collect();
    let mut judged = Vec::new();
    for (index, (server, outage)) in servers.iter().zip(outages).enumerate() {
        let reports: Vec<_> = reports.iter().map(|reports| &reports[index]).collect();
        for (limit, (name, _)) in LIMITS.iter().enumerate() {
            let what = format!("{name}, {:?} for {:?}", server.outage, server.lasts);
            if (Outcome { what: &what, reports: &reports, limit, outage: outage.clone(), end: slot(end) })
                .judge()
            {
                judged.push(what);
            }
        }
    }
    judged
}

/// What happened to one limit on one server.
struct Outcome<'a> {
    what: &'a str,
    /// Of each node.
    reports: &'a [&'a Report],
    limit: usize,
    /// The slots of the outage, and that in which the processes end.
    outage: Range<u64>,
    end: u64,
}

impl Outcome<'_> {
    /// Returns whether enough of the seconds after the outage could be judged.
    fn judge(&self) -> bool {
        if !self.was_settled() {
            return false;
        }
        self.judge_during();
        self.judge_in_total();
        let starts = self.back() + 2..self.end - SECOND;
        let judged = starts.take(AFTER).filter(|start| self.judge_second(*start)).count();
        judged * ENOUGH >= AFTER
    }

    /// Returns whether the nodes had divided the limit before the outage: for two seconds they had demand, and each was
    /// synchronized in most slots. Otherwise the machine was too slow, and nodes did not know of each other.
    fn was_settled(&self) -> bool {
        let before = self.outage.start - 2 * SECOND..self.outage.start;
        let least = usize::try_from(SECOND).expect("few");
        let synced = |report: &&Report| report.synced.range(before.clone()).count() > least;
        self.has_demand(&before) && self.reports.iter().all(synced)
    }

    /// About the limit passes during the outage.
    fn judge_during(&self) {
        // Each node starts with a bucket of its own part when it becomes stale. The slots at the ends are not whole.
        let (passed, most) =
            (self.passed(self.outage.clone()), of_limit(&self.outage) + BURST + PER_SECOND / 5);
        assert!(passed * 100 <= most * 105, "{}: {passed} of {most} during the outage", self.what);
    }

    /// No more than the bound passes in total: not even that of nodes which are never cut off, and synchronize with
    /// rounds of a tenth of a second. The bucket of a server that was started without data is full again.
    fn judge_in_total(&self) {
        let first = self.reports.iter().map(|report| report.first(self.limit)).min().expect("several nodes");
        let all = first..self.end + 1;
        let until_known = PER_SECOND * (22 + 40) / 100;
        let bound = 2 * BURST + of_limit(&all) + (NODES - 1) * (BURST + until_known);
        let passed = self.passed(all);
        assert!(passed <= bound, "{}: {passed} of {bound} in total", self.what);
    }

    /// At least 80 % of the limit passes in a second after the outage, less what was granted beyond the limit since its
    /// start, which is repaid. Returns `false` if the second says nothing, because the machine was too slow.
    fn judge_second(&self, start: u64) -> bool {
        let second = start..start + SECOND;
        if !self.has_demand(&second) {
            return false;
        }
        let before = self.outage.start..start;
        let beyond = self.passed(before.clone()).saturating_sub(of_limit(&before));
        let passed = self.passed(second);
        assert!(
            (passed + beyond) * 100 >= PER_SECOND * 80,
            "{}: {passed} in a second, {} slots after the last node is back, and {beyond} beyond the limit before",
            self.what,
            start - self.back()
        );
        true
    }

    /// Returns whether every node could use its part.
    fn has_demand(&self, slots: &Range<u64>) -> bool {
        let part = f64::from(PER_SECOND / NODES) * SLOT.as_secs_f64();
        self.nodes().all(|node| node.can_use(slots.clone(), part))
    }

    fn nodes(&self) -> impl Iterator<Item = &Slots> {
        self.reports.iter().map(|report| &report.slots[self.limit])
    }

    fn passed(&self, slots: Range<u64>) -> u32 {
        self.nodes().map(|node| node.granted(slots.clone())).sum()
    }

    /// Returns the slot in which the last node is back.
    fn back(&self) -> u64 {
        let back = |report: &&Report| *report.synced.range(self.outage.end - 1..).next().expect("it is back");
        self.reports.iter().map(back).max().expect("several nodes")
    }
}

/// Returns how much of the limit is refilled in some slots.
fn of_limit(slots: &Range<u64>) -> u32 {
    let tenths = u32::try_from(slots.end - slots.start).expect("few");
    PER_SECOND * tenths / u32::try_from(SECOND).expect("few")
}
