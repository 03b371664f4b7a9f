//! Several processes on one server, all on the same few keys, by the server's clock. Their decisions must be those of
//! core's pure function, in the order in which the server executed the calls.
//!
//! The test starts itself again, several times per algorithm. Each of these processes ([`worker`]) calls the store from
//! many tasks, and prints its requests and decisions ([`record`]). The parent sorts all of them by the server's time,
//! and replays them with the pure function ([`replay`]).

mod limits;
mod record;
mod replay;
mod worker;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;
use tollgate_testkit::Redis;

use limits::Sample;
use record::Record;

const PROCESSES: usize = 4;
/// What a process prints when it is connected, so that all of them start together.
const READY: &str = "ready";

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url, sample, number] = &arguments[..]
        && flag == worker::FLAG
    {
        let number = number.parse().expect("the number of a process");
        runtime.block_on(worker::run(url, limits::named(sample), number));
        return ExitCode::SUCCESS;
    }
    let trials = limits::samples()
        .into_iter()
        .map(|sample| {
            let handle = runtime.handle().clone();
            Trial::test(sample.name, move || {
                run_together(&handle, &sample);
                Ok(())
            })
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the server of all trials. It stops with this process.
async fn server() -> &'static Redis {
    static SERVER: OnceCell<Redis> = OnceCell::const_new();
    SERVER.get_or_init(async || Redis::start(&[]).await).await
}

fn run_together(runtime: &Handle, sample: &Sample) {
    let url = runtime.block_on(server()).url();
    let mut processes: Vec<_> = (0..PROCESSES).map(|number| Process::start(&url, sample, number)).collect();
    for process in &mut processes {
        assert_eq!(process.line(), READY);
    }
    for process in &mut processes {
        writeln!(process.child.stdin.take().expect("a pipe")).expect("a waiting process");
    }
    let records: Vec<Vec<Record>> = std::thread::scope(|scope| {
        let readers: Vec<_> =
            processes.into_iter().map(|process| scope.spawn(move || process.records())).collect();
        readers.into_iter().map(|reader| reader.join().expect("records")).collect()
    });
    replay::check(sample, &records);
}

/// This test, in a process of its own.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str, sample: &Sample, number: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([worker::FLAG, url, sample.name, &number.to_string()])
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

    fn records(mut self) -> Vec<Record> {
        let records = self.output.lines().map(|line| Record::read(&line.expect("text"))).collect();
        let status = self.child.wait().expect("a process that ends");
        assert!(status.success(), "a process failed: {status}");
        records
    }
}
