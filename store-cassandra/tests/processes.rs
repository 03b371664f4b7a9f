//! Several processes on one key: together they are granted exactly what core's pure function grants one of them, whether
//! they have seen the key before or not.
//!
//! The test starts itself again, several times per trial. All processes ask as of one instant, at which nothing is
//! refilled, so what passes can be counted.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;
use tollgate_core::store::{State, Store};
use tollgate_core::{Action, Decision, IdempotencyKey, Limit, LimitBuilder, Request, StoreError, Time};
use tollgate_resilience::Coalesced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit as servers;

const NOW: Time = Time::from_secs(1_790_000_000);
/// The argument that makes a process of this test one that spends.
const SPEND: &str = "--spend";
/// What a process says when it is connected, so that all of them start together.
const READY: &str = "ready";
const TASKS: u32 = 8;

/// How the processes of a trial begin.
#[derive(Clone, Copy, Debug)]
enum Cache {
    /// Nobody has seen the row, and it is there.
    Cold,
    /// Everybody has.
    Warm,
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url, key, sample, cache] = &arguments[..]
        && flag == SPEND
    {
        runtime.block_on(spend(url, key, &limit(sample), cache == "Warm"));
        return ExitCode::SUCCESS;
    }
    let trials = [(2, Cache::Cold), (2, Cache::Warm), (4, Cache::Cold), (4, Cache::Warm)].into_iter();
    let trials = trials.flat_map(|(processes, cache)| {
        let handle = runtime.handle().clone();
        samples().into_iter().map(move |(sample, _)| {
            let handle = handle.clone();
            Trial::test(format!("{processes}_processes::{cache:?}::{sample}").to_lowercase(), move || {
                together(&handle, processes, cache, sample);
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn samples() -> Vec<(&'static str, LimitBuilder)> {
    let bucket = || Limit::per_hour(30);
    vec![
        ("token_bucket", bucket()),
        ("queue", Limit::per_hour(30).queue(20)),
        ("interval_bucket", bucket().refill_by_interval()),
        ("fixed_window", bucket().fixed_window()),
        ("sliding_window", bucket().sliding_window()),
        ("sliding_counter", bucket().sliding_counter(4)),
        ("sliding_log", bucket().sliding_log().count_denied()),
        ("warming_up", Limit::per_hour(30).warm_up(Duration::from_secs(7_200))),
        ("concurrency", Limit::concurrent(30).lease(Duration::from_secs(60))),
    ]
}

fn limit(name: &str) -> Limit {
    let sample = samples().into_iter().find(|(known, _)| *known == name);
    sample.expect("a sample").1.build(name).expect("valid")
}

async fn connect(url: &str) -> CassandraStore {
    // The machine may be busy: no call is given up.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).must_be_there();
    config.connect().await.expect("the parent's server")
}

/// The keyspace of all trials.
async fn keyspace() -> &'static str {
    static KEYSPACE: OnceCell<String> = OnceCell::const_new();
    let make = async || {
        let url = format!("{}/processes", servers::cassandra_url().await);
        Config::new(&url).create_schema(&Replication::Simple(1)).await.expect("a schema");
        url
    };
    KEYSPACE.get_or_init(make).await
}

fn together(runtime: &Handle, processes: u32, cache: Cache, sample: &str) {
    let url = runtime.block_on(keyspace());
    let (limit, key) = (limit(sample), format!("{:032x}", IdempotencyKey::unique().get()));
    let expected = granted_by_the_pure_function(&limit);
    // So that a process that has not seen the row is wrong about it.
    let store = runtime.block_on(connect(url));
    let first = runtime.block_on(take(&store, &limit, &key)).expect("an answer");
    assert!(first > 0, "the first one passes");

    let mut started: Vec<_> = (0..processes).map(|_| Process::start(url, &key, sample, cache)).collect();
    for process in &mut started {
        assert_eq!(process.line(), READY);
    }
    for process in &mut started {
        writeln!(process.child.stdin.take().expect("a pipe")).expect("a process that waits for its start");
    }
    let granted: u32 = first + started.into_iter().map(Process::granted).sum::<u32>();
    assert_eq!(granted, expected, "all processes together");
    let charges = [limit.charge(&key).with_cost(0)];
    let left = runtime.block_on(store.decide(Request::new(&charges), NOW)).expect("a look");
    assert!(left.is_denied(), "nothing is left: {left:?}");
}

/// How many pass at one instant.
fn granted_by_the_pure_function(limit: &Limit) -> u32 {
    let mut state = State::default();
    let takes = std::iter::repeat_with(|| state.apply(&limit.charge("anybody"), NOW));
    u32::try_from(takes.take_while(Decision::is_allowed).count()).expect("a small number")
}

async fn take(store: &impl Store, limit: &Limit, key: &str) -> Result<u32, StoreError> {
    let decision = store.decide_one(&limit.charge(key), &NOW).await?;
    Ok(u32::from(decision.is_allowed()))
}

/// One of the processes: takes until it is denied, in several tasks, and gives something back now and then.
async fn spend(url: &str, key: &str, limit: &Limit, warm: bool) {
    let store = Coalesced::new(connect(url).await).in_flight(1).patience(Duration::from_secs(10));
    let mut granted = 0;
    if warm {
        granted += take(&store, limit, key).await.expect("an answer");
    }
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).expect("a word from the parent");
    let tasks = (0..TASKS).map(|_| {
        let (store, limit, key) = (store.clone(), limit.clone(), key.to_owned());
        tokio::spawn(async move {
            let (mut granted, mut returned) = (0, false);
            loop {
                match take(&store, &limit, &key).await.expect("an answer") {
                    0 => return granted,
                    one => granted += one,
                }
                // What can be given back in full is, once, and is somebody's again.
                if !returned && limit.kind().is_flow() && granted > 1 {
                    returned = true;
                    let back = limit.charge(&key).with_action(Action::Refund { at: None });
                    let back = store.decide_one(&back, &NOW).await.expect("an answer");
                    granted -= back.granted();
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        granted += task.await.expect("a task that ends");
    }
    println!("{granted}");
}

/// This test once more, in a process of its own.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str, key: &str, sample: &str, cache: Cache) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([SPEND, url, key, sample, &format!("{cache:?}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test again");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    fn granted(mut self) -> u32 {
        let granted = self.line().parse().expect("a number");
        let status = self.child.wait().expect("a process that ends");
        assert!(status.success(), "a process failed: {status}");
        granted
    }
}
