//! Processes learn of each other in sync rounds, and a process that is killed loses only the deltas that it had not
//! sent.
//!
//! Each child process executes the commands which the parent writes to it, one per line, and answers each with one
//! line.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tollgate_core::store::Store;
use tollgate_core::{IdempotencyKey, Limit, SystemClock, Timer};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::{Config, RedisStore};

/// The argument that makes this program a node that executes commands.
pub(crate) const NODE: &str = "--node";
/// The pause between two checks whether a node has synchronized.
const PAUSE: Duration = Duration::from_millis(1);
/// The number of such checks before a timeout.
const MAX_CHECKS: u32 = 30_000;

/// Runs a node of a child process.
pub(crate) fn run_node(runtime: &Runtime, arguments: &[String]) {
    let [url, key] = arguments else { panic!("not a URL and a key: {arguments:?}") };
    runtime.block_on(Node::connect(url, key)).execute_commands(runtime);
}

/// Returns a limit that refills nothing while this test runs.
fn limit() -> Limit {
    Limit::per(1_000_000, Duration::from_secs(366 * 86_400)).fixed_window().build("api").expect("valid")
}

async fn connect(url: &str) -> RedisStore {
    // The machine may be busy: no call times out.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).require_reachable();
    config.connect().await.expect("the parent's server")
}

// Trials.

/// In each round both processes take once and then synchronize twice, to send and to receive.
pub(crate) fn agree(runtime: &Handle) {
    let fixture = Fixture::new(runtime);
    let mut processes = [fixture.process(), fixture.process()];
    let mut granted = 0;
    let agreed = (0..5).any(|round| {
        for (process, cost) in processes.iter_mut().zip([3, 5]) {
            granted += process.call(&format!("take {}", cost + round));
        }
        for process in &mut processes {
            process.send("sync-twice");
        }
        let seen = processes.each_mut().map(Process::answer);
        let left = fixture.left(runtime);
        assert_eq!(left, limit().capacity() - granted, "everything was sent");
        assert!(
            seen.contains(&left),
            "the last one to send receives everything: {seen:?}, and {left} remain"
        );
        // The second sync round of one may be before the first of the other; it knows after the next round.
        seen == [left, left]
    });
    assert!(agreed, "the processes never agree");
}

pub(crate) fn killed_when_idle(runtime: &Handle) {
    let fixture = Fixture::new(runtime);
    let mut process = fixture.process();
    assert_eq!(process.call("take 40"), 40);
    process.call("sync-twice");
    assert_eq!(limit().capacity() - fixture.left(runtime), 40);
    process.kill();
    assert_eq!(limit().capacity() - fixture.left(runtime), 40, "sent deltas are kept");
    // The next process continues from there.
    let mut next = fixture.process();
    assert_eq!(next.call("take 2"), 2);
    assert_eq!(next.call("sync-twice"), limit().capacity() - 42);
}

/// Kills a process that takes all the time and reports what it has sent.
pub(crate) fn killed_under_load(runtime: &Handle) {
    let fixture = Fixture::new(runtime);
    for _ in 0..10 {
        let before = fixture.left(runtime);
        let mut process = fixture.process();
        process.send("work");
        let (mut sent, mut taken) = (0, 0);
        while sent < 200 {
            process.report(&mut sent, &mut taken).expect("a running process");
        }
        process.child.kill().expect("a running process");
        // What it reported before its end.
        while process.report(&mut sent, &mut taken).is_some() {}
        process.kill();
        let debited = before - fixture.left(runtime);
        assert!(sent <= debited && debited <= taken, "{sent} sent, {debited} debited, {taken} taken");
    }
}

/// A key of its own on the server that all trials share.
struct Fixture {
    url: String,
    key: String,
    central: RedisStore,
}

impl Fixture {
    fn new(runtime: &Handle) -> Self {
        let url = runtime.block_on(tollgate_testkit::redis_url());
        let central = runtime.block_on(connect(&url));
        Self { url, key: format!("{:032x}", IdempotencyKey::unique().get()), central }
    }

    fn process(&self) -> Process {
        Process::start(&self.url, &self.key)
    }

    /// Returns the central balance.
    fn left(&self, runtime: &Handle) -> u32 {
        let limit = limit();
        let peek = limit.charge(&self.key).with_cost(0);
        let seen = runtime.block_on(self.central.decide_one(&peek, &SystemClock::new()));
        seen.expect("the central store answers").remaining()
    }
}

/// A child process: this program as a node.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str, key: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("the path of this program"))
            .args([NODE, url, key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("a process that reads");
    }

    fn answer(&mut self) -> u32 {
        self.line().expect("an answer").parse().expect("a number")
    }

    fn call(&mut self, command: &str) -> u32 {
        self.send(command);
        self.answer()
    }

    /// Reads a line. `None` at the end, also in the middle of a line.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Reads a line of a process under load.
    fn report(&mut self, sent: &mut u32, taken: &mut u32) -> Option<()> {
        let line = self.line()?;
        let (what, number) = line.split_once(' ').expect("a word and a number");
        let count = if what == "sent" { sent } else { taken };
        *count = number.parse().expect("a number");
        Some(())
    }

    /// Kills the process without a shutdown.
    fn kill(mut self) {
        self.child.kill().expect("a child process");
        let _ = self.child.wait().expect("a process that ends");
    }
}

/// The node of a child process.
struct Node {
    synced: Synced<RedisStore>,
    limit: Limit,
    key: String,
    /// The number of sync rounds after which the last take was sent, and its key took part in two more.
    settled_after: Cell<u64>,
}

impl Node {
    async fn connect(url: &str, key: &str) -> Self {
        let synced =
            Synced::builder(connect(url).await).interval(Duration::from_millis(20)).build().expect("valid");
        Self { synced, limit: limit(), key: key.to_owned(), settled_after: Cell::new(0) }
    }

    /// Executes commands until the parent closes the pipe.
    fn execute_commands(&self, runtime: &Runtime) {
        for line in std::io::stdin().lines() {
            let line = line.expect("text");
            match line.split_once(' ') {
                Some(("take", cost)) => {
                    self.settled_after.set(self.synced.stats().sync_rounds + 3);
                    println!("{}", runtime.block_on(self.take(cost.parse().expect("a number"))).0);
                }
                None if line == "sync-twice" => {
                    println!("{}", runtime.block_on(self.synced_twice()));
                }
                None if line == "work" => runtime.block_on(self.work()),
                _ => panic!("unknown command: {line}"),
            }
        }
    }

    /// Returns what is granted, and what remains.
    async fn take(&self, cost: u32) -> (u32, u32) {
        let charge = self.limit.charge(&self.key).with_cost(cost);
        let decision = self.synced.decide_one(&charge, &SystemClock::new()).await.expect("decided locally");
        (decision.granted(), decision.remaining())
    }

    /// Returns what remains, once the last take was sent, the task has run two more sync rounds and nothing is pending.
    /// Counted from the take: a key that is idle takes part in no further round, and some may be over by now.
    async fn synced_twice(&self) -> u32 {
        for _ in 0..MAX_CHECKS {
            let stats = self.synced.stats();
            if stats.sync_rounds >= self.settled_after.get() && stats.pending == 0 {
                return self.take(0).await.1;
            }
            // Lets the task run.
            SystemClock::new().sleep(PAUSE).await;
        }
        panic!("no two sync rounds: {:?}", self.synced.stats());
    }

    /// Takes for ever. Reports what it will have taken before each take, and what it has sent: what it had taken at the
    /// start of a sync round that has been answered since.
    async fn work(&self) {
        let (mut taken, mut sent, mut since) = (0, 0, self.synced.stats().sync_rounds);
        loop {
            println!("taken {}", taken + 1);
            taken += self.take(1).await.0;
            // The first of the two rounds may have started before.
            if self.synced.stats().sync_rounds >= since + 2 {
                println!("sent {sent}");
                (sent, since) = (taken, self.synced.stats().sync_rounds);
            }
            // Leaves time for the task and the server.
            SystemClock::new().sleep(PAUSE).await;
        }
    }
}
