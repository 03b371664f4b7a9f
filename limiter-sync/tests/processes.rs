//! Several processes around one Redis: they learn of each other by exchanging, and one that is killed takes only what it
//! had not told with it.
//!
//! The test starts itself again. Such a process is a node that does what the parent writes to it, line by line, and answers
//! each line with one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Handle, Runtime};
use tollgate_core::store::Store;
use tollgate_core::{IdempotencyKey, Limit, SystemClock, Timer};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit as servers;

/// What a trial does.
type Body = fn(&Handle);

/// The argument that makes a process of this test a node.
const NODE: &str = "--node";
/// How long a node waits before it looks again whether it has exchanged.
const MOMENT: Duration = Duration::from_millis(1);
/// How often it does so, before it gives up.
const PATIENCE: u32 = 30_000;

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url, key] = &arguments[..]
        && flag == NODE
    {
        runtime.block_on(Node::connect(url, key)).obey(&runtime);
        return ExitCode::SUCCESS;
    }
    let trials: [(&str, Body); 3] = [
        ("two_processes_agree_after_two_exchanges", agree),
        ("what_a_killed_process_had_told_is_there", killed_at_rest),
        ("a_process_that_is_killed_at_work_takes_what_it_had_not_told", killed_at_work),
    ];
    let trials = trials.into_iter().map(|(name, trial)| {
        let handle = runtime.handle().clone();
        Trial::test(name, move || {
            trial(&handle);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// So long that nothing comes back while this runs.
fn limit() -> Limit {
    Limit::per(1_000_000, Duration::from_secs(366 * 86_400)).fixed_window().build("api").expect("valid")
}

async fn connect(url: &str) -> RedisStore {
    // The machine may be busy: no call is given up.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).must_be_there();
    config.connect().await.expect("the parent's server")
}

// What is tried.

/// Rounds in which everybody takes once and then exchanges twice, to tell and to be told.
fn agree(runtime: &Handle) {
    let scene = Scene::new(runtime);
    let mut processes = [scene.process(), scene.process()];
    let mut granted = 0;
    let agreed = (0..5).any(|round| {
        for (process, cost) in processes.iter_mut().zip([3, 5]) {
            granted += process.ask(&format!("take {}", cost + round));
        }
        for process in &mut processes {
            process.tell("exchanged-twice");
        }
        let seen = processes.each_mut().map(Process::answer);
        let left = scene.left(runtime);
        assert_eq!(left, limit().capacity() - granted, "everything is told");
        assert!(seen.contains(&left), "who tells last is told everything: {seen:?}, and there are {left}");
        // The second exchange of one may be sooner than the first of the other; then it knows after the next round.
        seen == [left, left]
    });
    assert!(agreed, "they never do");
}

fn killed_at_rest(runtime: &Handle) {
    let scene = Scene::new(runtime);
    let mut process = scene.process();
    assert_eq!(process.ask("take 40"), 40);
    process.ask("exchanged-twice");
    assert_eq!(limit().capacity() - scene.left(runtime), 40);
    process.kill();
    assert_eq!(limit().capacity() - scene.left(runtime), 40, "what it had told is there");
    // Whoever comes next goes on from there.
    let mut next = scene.process();
    assert_eq!(next.ask("take 2"), 2);
    assert_eq!(next.ask("exchanged-twice"), limit().capacity() - 42);
}

/// A process that takes all the time and says what it has told, killed in the middle of it.
fn killed_at_work(runtime: &Handle) {
    let scene = Scene::new(runtime);
    for _ in 0..10 {
        let before = scene.left(runtime);
        let mut process = scene.process();
        process.tell("work");
        let (mut told, mut taken) = (0, 0);
        while told < 200 {
            process.report(&mut told, &mut taken).expect("a process that works");
        }
        process.child.kill().expect("a process that runs");
        // What it said before it ended.
        while process.report(&mut told, &mut taken).is_some() {}
        process.kill();
        let booked = before - scene.left(runtime);
        assert!(told <= booked && booked <= taken, "{told} told, {booked} booked, {taken} taken");
    }
}

/// A key of its own on the server of all trials.
struct Scene {
    url: String,
    key: String,
    centre: RedisStore,
}

impl Scene {
    fn new(runtime: &Handle) -> Self {
        let url = runtime.block_on(servers::redis_url());
        let centre = runtime.block_on(connect(&url));
        Self { url, key: format!("{:032x}", IdempotencyKey::unique().get()), centre }
    }

    fn process(&self) -> Process {
        Process::start(&self.url, &self.key)
    }

    /// What the centre has left.
    fn left(&self, runtime: &Handle) -> u32 {
        let limit = limit();
        let look = limit.charge(&self.key).with_cost(0);
        let seen = runtime.block_on(self.centre.decide_one(&look, &SystemClock::new()));
        seen.expect("the centre answers").remaining()
    }
}

/// This test once more, in a process of its own.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str, key: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([NODE, url, key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test again");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, input, output }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.input, "{what}").expect("a process that listens");
    }

    fn answer(&mut self) -> u32 {
        self.line().expect("an answer").parse().expect("a number")
    }

    fn ask(&mut self, what: &str) -> u32 {
        self.tell(what);
        self.answer()
    }

    /// `None` at the end, even if that is in the middle of a line.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Reads one of the lines of a process that works.
    fn report(&mut self, told: &mut u32, taken: &mut u32) -> Option<()> {
        let line = self.line()?;
        let (what, number) = line.split_once(' ').expect("a word and a number");
        let known = if what == "told" { told } else { taken };
        *known = number.parse().expect("a number");
        Some(())
    }

    /// At once, without a word to it.
    fn kill(mut self) {
        self.child.kill().expect("a process that was not waited for");
        let _ = self.child.wait().expect("a process that ends");
    }
}

/// One of the processes.
struct Node {
    synced: Synced<RedisStore>,
    limit: Limit,
    key: String,
}

impl Node {
    async fn connect(url: &str, key: &str) -> Self {
        let synced = Synced::new(connect(url).await).every(Duration::from_millis(20));
        Self { synced, limit: limit(), key: key.to_owned() }
    }

    /// Does what it is told until the parent is gone.
    fn obey(&self, runtime: &Runtime) {
        for line in std::io::stdin().lines() {
            let line = line.expect("text");
            match line.split_once(' ') {
                Some(("take", cost)) => {
                    println!("{}", runtime.block_on(self.take(cost.parse().expect("a number"))).0);
                }
                None if line == "exchanged-twice" => {
                    println!("{}", runtime.block_on(self.exchanged_twice()));
                }
                None if line == "work" => runtime.block_on(self.work()),
                _ => panic!("not understood: {line}"),
            }
        }
    }

    /// What is granted, and what is left.
    async fn take(&self, cost: u32) -> (u32, u32) {
        let charge = self.limit.charge(&self.key).with_cost(cost);
        let decision = self.synced.decide_one(&charge, &SystemClock::new()).await.expect("decided here");
        (decision.granted(), decision.remaining())
    }

    /// What is left, once the task has exchanged twice and nothing is owed.
    async fn exchanged_twice(&self) -> u32 {
        let before = self.synced.insight().exchanges;
        for _ in 0..PATIENCE {
            let insight = self.synced.insight();
            if insight.exchanges >= before + 2 && insight.owing == 0 {
                return self.take(0).await.1;
            }
            // The task has its own time.
            SystemClock::new().sleep(MOMENT).await;
        }
        panic!("it never exchanges twice: {:?}", self.synced.insight());
    }

    /// Takes without end. Says what it is going to have taken before it takes, and what it has told: what it had taken when
    /// an exchange began that has been answered by now.
    async fn work(&self) {
        let (mut taken, mut noted, mut since) = (0, 0, self.synced.insight().exchanges);
        loop {
            println!("taken {}", taken + 1);
            taken += self.take(1).await.0;
            // The first to be answered may have begun before.
            if self.synced.insight().exchanges >= since + 2 {
                println!("told {noted}");
                (noted, since) = (taken, self.synced.insight().exchanges);
            }
            // Others need the machine as well.
            SystemClock::new().sleep(MOMENT).await;
        }
    }
}
