//! Several processes on one key are together granted exactly what the core's pure function grants, whether they have
//! the key's row in their cache or not.
//!
//! The test binary starts itself several times per trial. All processes use the same instant, so nothing is refilled
//! and the granted units can be counted.

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

const NOW: Time = Time::from_secs(1_790_000_000);
/// The argument that starts this binary as a worker process.
const WORKER: &str = "--worker";
/// What a worker prints when it is connected, so that all workers start at the same time.
const READY: &str = "ready";
const TASKS: u32 = 8;

/// What the workers of a trial have in their caches at the start.
#[derive(Clone, Copy, Debug)]
enum Cache {
    /// Nothing, although the row exists.
    Cold,
    /// The row.
    Warm,
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url, key, sample, cache] = &arguments[..]
        && flag == WORKER
    {
        runtime.block_on(work(url, key, &limit(sample), cache == "Warm"));
        return ExitCode::SUCCESS;
    }
    let trials = [(2, Cache::Cold), (2, Cache::Warm), (4, Cache::Cold), (4, Cache::Warm)].into_iter();
    let trials = trials.flat_map(|(processes, cache)| {
        let handle = runtime.handle().clone();
        samples().into_iter().map(move |(sample, _)| {
            let handle = handle.clone();
            Trial::test(format!("{processes}_processes::{cache:?}::{sample}").to_lowercase(), move || {
                run_trial(&handle, processes, cache, sample);
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
    // The machine may be busy.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).require_reachable();
    config.connect().await.expect("the server of the parent process")
}

/// Returns the URL of the keyspace of all trials.
async fn keyspace() -> &'static str {
    static KEYSPACE: OnceCell<String> = OnceCell::const_new();
    let create = async || {
        let url = format!("{}/processes", tollgate_testkit::cassandra_url().await);
        Config::new(&url).create_schema(&Replication::Simple(1)).await.expect("a schema");
        url
    };
    KEYSPACE.get_or_init(create).await
}

fn run_trial(runtime: &Handle, processes: u32, cache: Cache, sample: &str) {
    let url = runtime.block_on(keyspace());
    let (limit, key) = (limit(sample), format!("{:032x}", IdempotencyKey::unique().get()));
    let expected = granted_by_the_pure_function(&limit);
    // The row exists, so a worker without it in its cache starts from a wrong assumption.
    let store = runtime.block_on(connect(url));
    let first = runtime.block_on(take(&store, &limit, &key)).expect("a decision");
    assert!(first > 0, "the first unit is allowed");

    let mut workers: Vec<_> = (0..processes).map(|_| Worker::start(url, &key, sample, cache)).collect();
    for worker in &mut workers {
        assert_eq!(worker.read_line(), READY);
    }
    for worker in &mut workers {
        writeln!(worker.child.stdin.take().expect("a pipe")).expect("a worker that waits for its start");
    }
    let granted: u32 = first + workers.into_iter().map(Worker::granted).sum::<u32>();
    assert_eq!(granted, expected, "all workers together");
    let charges = [limit.charge(&key).with_cost(0)];
    let peek = runtime.block_on(store.decide(Request::new(&charges), NOW)).expect("a verdict");
    assert!(peek.is_denied(), "nothing is left: {peek:?}");
}

/// Returns how many units are allowed at one instant.
fn granted_by_the_pure_function(limit: &Limit) -> u32 {
    let mut state = State::default();
    let takes = std::iter::repeat_with(|| state.apply(&limit.charge("any key"), NOW));
    u32::try_from(takes.take_while(Decision::is_allowed).count()).expect("a small number")
}

async fn take(store: &impl Store, limit: &Limit, key: &str) -> Result<u32, StoreError> {
    let decision = store.decide_one(&limit.charge(key), &NOW).await?;
    Ok(u32::from(decision.is_allowed()))
}

/// Runs a worker process: takes units in several tasks until it is denied, and refunds some of them.
async fn work(url: &str, key: &str, limit: &Limit, warm: bool) {
    let store = Coalesced::builder(connect(url).await)
        .max_in_flight(1)
        .overtake_after(Duration::from_secs(10))
        .build()
        .expect("valid");
    let mut granted = 0;
    if warm {
        granted += take(&store, limit, key).await.expect("a decision");
    }
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).expect("the start signal");
    let tasks = (0..TASKS).map(|_| {
        let (store, limit, key) = (store.clone(), limit.clone(), key.to_owned());
        tokio::spawn(async move {
            let (mut granted, mut refunded) = (0, false);
            loop {
                match take(&store, &limit, &key).await.expect("a decision") {
                    0 => return granted,
                    one => granted += one,
                }
                // Refunds one unit, where a refund restores it in full. Any worker can take it again.
                if !refunded && limit.kind().is_flow() && granted > 1 {
                    refunded = true;
                    let refund = limit.charge(&key).with_action(Action::Refund { at: None });
                    let refund = store.decide_one(&refund, &NOW).await.expect("a decision");
                    granted -= refund.granted();
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        granted += task.await.expect("a task that ends");
    }
    println!("{granted}");
}

/// This test binary, started as a worker process.
struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(url: &str, key: &str, sample: &str, cache: Cache) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("the path of this binary"))
            .args([WORKER, url, key, sample, &format!("{cache:?}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    fn granted(mut self) -> u32 {
        let granted = self.read_line().parse().expect("a number");
        let status = self.child.wait().expect("an exit status");
        assert!(status.success(), "a worker failed: {status}");
        granted
    }
}
