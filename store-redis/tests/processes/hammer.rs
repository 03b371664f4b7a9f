//! One of the processes: many tasks that ask as fast as they can.

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::Seed;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Charge, IdempotencyKey, LeaseId, Request, Time};
use tollgate_store_redis::{Config, RedisStore};

use crate::READY;
use crate::limits::{Mix, Sample, WHOM};
use crate::record::{Ask, Record, Turn};

/// The argument that makes a process of this test one that hammers.
pub(crate) const FLAG: &str = "--hammer";

const TASKS: u64 = 16;
const CALLS: u64 = 60;

pub(crate) async fn hammer(url: &str, sample: Sample, process: u64) {
    // Connections of their own mix the tasks of a process as well. The machine may be busy: no call is given up.
    let config = Config::new(url).connections(4).call_timeout(Duration::from_secs(30)).must_be_there();
    let store = config.connect().await.expect("the parent's server");
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new()).expect("a word from the parent");
    let sample = Arc::new(sample);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, sample) = (store.clone(), Arc::clone(&sample));
            tokio::spawn(async move {
                let mut caller =
                    Caller { sample, process, task, random: Seed::new(process << 32 | task), past: None };
                let mut records = Vec::new();
                for call in 0..CALLS {
                    let turns = caller.turns(call);
                    records.push(caller.ask(&store, turns).await);
                }
                records
            })
        })
        .collect();
    for task in tasks {
        for record in task.await.expect("a task that was told") {
            println!("{record}");
        }
    }
}

struct Caller {
    sample: Arc<Sample>,
    process: u64,
    task: u64,
    random: Seed,
    /// When this task was last told something.
    past: Option<Time>,
}

impl Caller {
    async fn ask(&mut self, store: &RedisStore, mut turns: Vec<Turn>) -> Record {
        // The server's clock decides, whatever the caller thinks.
        let now = Time::EPOCH;
        let charges: Vec<Vec<Charge<'_>>> =
            turns.iter().map(|turn| turn.asks.iter().map(|ask| self.sample.charge(ask)).collect()).collect();
        let mut verdicts = Vec::new();
        if let ([turn], [charges]) = (&turns[..], &charges[..])
            && turn.count == 1
        {
            verdicts.push(vec![store.decide(request(charges, turn), now).await.expect("a verdict")]);
        } else {
            let runs: Vec<_> = turns
                .iter()
                .zip(&charges)
                .map(|(turn, charges)| Run::new(request(charges, turn), turn.count))
                .collect();
            for answer in store.decide_batch(&runs, now).await {
                verdicts.push(answer.expect("a verdict on each of a run").into_verdicts());
            }
        }
        let at = verdicts[0][0].decided_at();
        for (turn, verdicts) in turns.iter_mut().zip(verdicts) {
            assert!(
                verdicts.iter().all(|verdict| verdict.decided_at() == at),
                "a batch is decided in one step"
            );
            turn.told = verdicts.iter().flat_map(|verdict| verdict.decisions().to_vec()).collect();
        }
        self.past = Some(at);
        Record { at, turns }
    }

    fn turns(&mut self, call: u64) -> Vec<Turn> {
        if self.sample.mix == Mix::Takes {
            return vec![self.turn(1, Self::take)];
        }
        match self.random.below(20) {
            // All processes name the same operation at about the same time: one of them is executed.
            0..=2 => vec![self.shared_turn(call)],
            3 => {
                let mut turn = self.turn(1, Self::any);
                turn.id = Some(self.operation(call));
                vec![turn]
            }
            4 => {
                let mut turn = self.turn(1, Self::take);
                turn.count = self.number(2, 5);
                vec![turn]
            }
            5 => {
                let mut turns: Vec<_> = (0..4).map(|_| self.turn(1, Self::any)).collect();
                turns[1].count = self.number(2, 5);
                turns[2] = self.turn(2, Self::any);
                turns[3].id = Some(self.operation(call));
                turns
            }
            6 | 7 => vec![self.turn(2, Self::any)],
            8 => vec![self.turn(3, Self::any)],
            9 => vec![self.turn(3, Self::take)],
            10..=12 => vec![self.turn(1, Self::take)],
            _ => vec![self.turn(1, Self::any)],
        }
    }

    fn turn(&mut self, charges: usize, ask: fn(&mut Self) -> Ask) -> Turn {
        let asks = (0..charges).map(|_| ask(self)).collect();
        Turn { id: None, count: 1, asks, told: Vec::new() }
    }

    /// Follows from the task and the call alone, and is the same in every process.
    fn shared_turn(&mut self, call: u64) -> Turn {
        let own = std::mem::replace(&mut self.random, Seed::new(self.task << 32 | call));
        let turn = self.turn(2, Self::take);
        self.random = own;
        Turn { id: Some(IdempotencyKey::new(u128::from(self.task << 32 | call))), ..turn }
    }

    fn operation(&self, call: u64) -> IdempotencyKey {
        IdempotencyKey::new(u128::from(1 + self.process) << 64 | u128::from(self.task << 32 | call))
    }

    fn take(&mut self) -> Ask {
        let limit = usize::from(self.sample.mix == Mix::All && self.random.once_in(5));
        let key = usize::from(self.random.once_in(3)) % WHOM.len();
        Ask {
            limit,
            key,
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

    /// Mostly one of its own, sometimes one that others hold as well, sometimes none that has a name.
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

fn request<'a>(charges: &'a [Charge<'a>], turn: &Turn) -> Request<'a> {
    let request = Request::new(charges);
    turn.id.map_or(request, |id| request.with_idempotency_key(id))
}
