//! One of the processes: many tasks that call the store as fast as they can.

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::Seed;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Charge, IdempotencyKey, LeaseId, Request, Time};
use tollgate_store_redis::{Config, RedisStore};

use crate::READY;
use crate::limits::{ENTITIES, Mix, Sample};
use crate::record::{Ask, Record, RecordedRun};

/// The argument that starts a worker process.
pub(crate) const FLAG: &str = "--worker";

const TASKS: u64 = 16;
const CALLS: u64 = 60;

pub(crate) async fn run(url: &str, sample: Sample, process: u64) {
    // Several connections, so that the tasks of a process are interleaved. The timeout is long, because the machine may
    // be busy.
    let config = Config::new(url).connections(4).call_timeout(Duration::from_secs(30)).require_reachable();
    let store = config.connect().await.expect("the parent's server");
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).expect("the start signal of the parent");
    let sample = Arc::new(sample);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, sample) = (store.clone(), Arc::clone(&sample));
            tokio::spawn(async move {
                let mut caller =
                    Caller { sample, process, task, random: Seed::new(process << 32 | task), past: None };
                let mut records = Vec::new();
                for call in 0..CALLS {
                    let runs = caller.runs(call);
                    records.extend(caller.call(&store, runs).await);
                }
                records
            })
        })
        .collect();
    for task in tasks {
        for record in task.await.expect("no panic") {
            println!("{record}");
        }
    }
}

struct Caller {
    sample: Arc<Sample>,
    process: u64,
    task: u64,
    random: Seed,
    /// The time of the last decision of this task.
    past: Option<Time>,
}

impl Caller {
    /// Returns a record for each script call: a batch may be split between two.
    async fn call(&mut self, store: &RedisStore, runs: Vec<RecordedRun>) -> Vec<Record> {
        // The server's clock decides, so this does not matter.
        let now = Time::EPOCH;
        let charges: Vec<Vec<Charge<'_>>> =
            runs.iter().map(|run| run.asks.iter().map(|ask| self.sample.charge(ask)).collect()).collect();
        let mut verdicts = Vec::new();
        if let ([run], [charges]) = (&runs[..], &charges[..])
            && run.count == 1
        {
            verdicts.push(vec![store.decide(request(charges, run), now).await.expect("a verdict")]);
        } else {
            let batch: Vec<_> = runs
                .iter()
                .zip(&charges)
                .map(|(run, charges)| Run::new(request(charges, run), run.count))
                .collect();
            for result in store.decide_batch(&batch, now).await {
                verdicts.push(result.expect("verdicts").into_verdicts());
            }
        }
        let mut records: Vec<Record> = Vec::new();
        for (mut run, verdicts) in runs.into_iter().zip(verdicts) {
            let at = verdicts[0].decided_at();
            assert!(
                verdicts.iter().all(|verdict| verdict.decided_at() == at),
                "a run is decided at one instant"
            );
            run.decisions = verdicts.iter().flat_map(|verdict| verdict.decisions().to_vec()).collect();
            match records.iter_mut().find(|record| record.at == at) {
                Some(record) => record.runs.push(run),
                None => records.push(Record { at, runs: vec![run] }),
            }
        }
        self.past = records.iter().map(|record| record.at).max();
        records
    }

    fn runs(&mut self, call: u64) -> Vec<RecordedRun> {
        if self.sample.mix == Mix::Takes {
            return vec![self.run(1, Self::take)];
        }
        match self.random.below(20) {
            // All processes use the same idempotency key at about the same time: one of the requests is executed.
            0..=2 => vec![self.shared_run(call)],
            3 => {
                let mut run = self.run(1, Self::any);
                run.key = Some(self.idempotency_key(call));
                vec![run]
            }
            4 => {
                let mut run = self.run(1, Self::take);
                run.count = self.number(2, 5);
                vec![run]
            }
            5 => {
                let mut runs: Vec<_> = (0..4).map(|_| self.run(1, Self::any)).collect();
                runs[1].count = self.number(2, 5);
                runs[2] = self.run(2, Self::any);
                runs[3].key = Some(self.idempotency_key(call));
                runs
            }
            6 | 7 => vec![self.run(2, Self::any)],
            8 => vec![self.run(3, Self::any)],
            9 => vec![self.run(3, Self::take)],
            10..=12 => vec![self.run(1, Self::take)],
            _ => vec![self.run(1, Self::any)],
        }
    }

    fn run(&mut self, charges: usize, ask: fn(&mut Self) -> Ask) -> RecordedRun {
        let asks = (0..charges).map(|_| ask(self)).collect();
        RecordedRun { key: None, count: 1, asks, decisions: Vec::new() }
    }

    /// Returns a run that depends only on the task and the call, and is the same in every process.
    fn shared_run(&mut self, call: u64) -> RecordedRun {
        let own = std::mem::replace(&mut self.random, Seed::new(self.task << 32 | call));
        let run = self.run(2, Self::take);
        self.random = own;
        RecordedRun { key: Some(IdempotencyKey::new(u128::from(self.task << 32 | call))), ..run }
    }

    fn idempotency_key(&self, call: u64) -> IdempotencyKey {
        IdempotencyKey::new(u128::from(1 + self.process) << 64 | u128::from(self.task << 32 | call))
    }

    fn take(&mut self) -> Ask {
        let limit = usize::from(self.sample.mix == Mix::All && self.random.once_in(5));
        let entity = usize::from(self.random.once_in(3)) % ENTITIES.len();
        Ask {
            limit,
            entity,
            cost: self.number(1, 3),
            action: Action::Take { max_wait: None },
            lease: self.lease(),
        }
    }

    fn any(&mut self) -> Ask {
        let mut ask = self.take();
        match self.random.below(20) {
            0 => ask.cost = 0,
            1 | 2 => ask.action = Action::TakeUpTo,
            3 => ask.action = Action::Debit { at: None },
            4 => ask.action = Action::Debit { at: self.past },
            5 => ask.action = Action::Refund { at: None },
            6 | 7 => ask.action = Action::Refund { at: self.past },
            8 | 9 => {
                ask.action =
                    Action::Take { max_wait: Some(Duration::from_micros(self.random.below(20_000))) };
            }
            10 if self.random.once_in(4) => ask.action = Action::Reset,
            11 | 12 => ask.action = Action::Renew,
            13 | 14 => ask.action = Action::Release,
            _ => {}
        }
        let plain = Ask { action: Action::Take { max_wait: None }, ..ask };
        if self.sample.charge(&ask).supported().is_ok() { ask } else { plain }
    }

    /// Returns mostly a lease of its own, sometimes a shared one, sometimes an anonymous one.
    fn lease(&mut self) -> LeaseId {
        match self.random.below(8) {
            0 => LeaseId::ANONYMOUS,
            1 | 2 => LeaseId::new(1 + u128::from(self.random.below(8))),
            _ => LeaseId::new(u128::from(1 + self.process) << 64 | u128::from(self.task)),
        }
    }

    fn number(&mut self, from: u32, to: u32) -> u32 {
        from + u32::try_from(self.random.below(u64::from(to - from + 1))).unwrap_or(0)
    }
}

fn request<'a>(charges: &'a [Charge<'a>], run: &RecordedRun) -> Request<'a> {
    let request = Request::new(charges);
    run.key.map_or(request, |key| request.with_idempotency_key(key))
}
