//! Calls of any kind: how requests are told to `decide.lua`, and what its answer means.

use indexmap::IndexSet;
use tollgate_core::store::{RawDecision, Run, RunVerdict};
use tollgate_core::{AlgorithmKind, Charge, Decision, Limit, Outcome, Source, StoreError, Time, Verdict};

use crate::call::Call;
use crate::error;
use crate::key::Names;
use crate::reply::Reply;
use crate::script::{self, Needs};
use crate::settings::Settings;

/// Instead of a time: the server's own counts.
const OWN_CLOCK: u64 = u64::MAX;
/// The flag of a limit that blocks whom it denies.
const BLOCKS: u8 = 128;

/// The call for any runs.
pub(crate) fn call(runs: &[Run<'_>], names: &Names, settings: &Settings, now: Time) -> Call {
    write(runs, names, settings, now, false)
}

/// The call that executes a run, and tells the states of its keys instead of its decisions.
pub(crate) fn exchange(run: &Run<'_>, names: &Names, settings: &Settings, now: Time) -> Call {
    write(std::slice::from_ref(run), names, settings, now, true)
}

fn write(runs: &[Run<'_>], names: &Names, settings: &Settings, now: Time, exchange: bool) -> Call {
    let mut call = Writer { names, keys: IndexSet::new(), limits: Vec::new(), input: Vec::new() };
    for run in runs {
        call.run(run);
    }
    let mut needs = Needs::default();
    let mut input = Vec::with_capacity(16 + 64 * call.limits.len() + call.input.len());
    word(&mut input, settings.counts(now).map_or(OWN_CLOCK, Time::nanos));
    input.extend_from_slice(&settings.margin_millis().to_be_bytes());
    let memory = if exchange { settings.exchange_memory_millis() } else { settings.memory_millis() };
    input.extend_from_slice(&memory.to_be_bytes());
    short(&mut input, call.limits.len());
    short(&mut input, runs.len());
    input.push(exchange.into());
    for limit in &call.limits {
        needs.add(limit.kind());
        write_limit(&mut input, limit);
    }
    input.extend_from_slice(&call.input);
    let repeatable = runs.iter().all(|run| {
        run.request().idempotency_key().is_some() || run.request().charges().iter().all(Charge::is_peek)
    });
    Call {
        script: script::decide(needs),
        keys: call.keys.into_iter().collect(),
        arguments: vec![input],
        repeatable,
    }
}

struct Writer<'a> {
    names: &'a Names,
    keys: IndexSet<Vec<u8>>,
    limits: Vec<&'a Limit>,
    input: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn run(&mut self, run: &Run<'a>) {
        let request = run.request();
        let operation = match (request.idempotency_key(), request.charges()) {
            (Some(id), [first, ..]) => self.key(self.names.operation(first.key(), id)),
            _ => 0,
        };
        short(&mut self.input, operation);
        self.input.extend_from_slice(&run.count().to_be_bytes());
        short(&mut self.input, request.charges().len());
        for charge in request.charges() {
            self.charge(charge);
        }
    }

    fn charge(&mut self, charge: &Charge<'a>) {
        let limit = self.limit(charge.limit());
        let key = self.key(self.names.state(charge));
        let (action, nanos) = (charge.action().code(), charge.action().nanos());
        short(&mut self.input, limit);
        short(&mut self.input, key);
        self.input.push(action);
        self.input.extend_from_slice(&charge.cost().to_be_bytes());
        self.input.push(u8::from(nanos.is_some()));
        word(&mut self.input, nanos.unwrap_or(0));
        self.input.extend_from_slice(&charge.lease().get().to_be_bytes());
    }

    /// The number of a key, counted from one as Lua does.
    fn key(&mut self, name: Vec<u8>) -> usize {
        self.keys.insert_full(name).0 + 1
    }

    fn limit(&mut self, limit: &'a Limit) -> usize {
        let known = self.limits.iter().position(|known| std::ptr::eq(*known, limit) || *known == limit);
        known.unwrap_or_else(|| {
            self.limits.push(limit);
            self.limits.len() - 1
        }) + 1
    }
}

fn write_limit(input: &mut Vec<u8>, limit: &Limit) {
    let numbers = limit.parameters();
    let count = u64::from(numbers.count.max(1));
    let (token, excess) = (numbers.period / count, numbers.period % count);
    let (flag, words) = match numbers.kind {
        AlgorithmKind::FixedWindow => (numbers.anchored, vec![]),
        AlgorithmKind::SlidingLog => (numbers.count_denied, vec![numbers.min_gap]),
        AlgorithmKind::SlidingCounter => (false, vec![numbers.sub_buckets.into()]),
        AlgorithmKind::SmoothWarmingUp => {
            (false, vec![numbers.warm_up, numbers.cold_factor.into(), token, excess])
        }
        AlgorithmKind::Concurrency => (false, vec![numbers.lease]),
        kind if kind.is_flow() => (false, vec![token, token.saturating_mul(numbers.capacity.into()), excess]),
        _ => (false, vec![]),
    };
    let blocks = if limit.block_time().is_some() { BLOCKS } else { 0 };
    input.extend_from_slice(&[numbers.kind as u8, u8::from(flag) | blocks]);
    input.extend_from_slice(&numbers.count.to_be_bytes());
    input.extend_from_slice(&numbers.capacity.to_be_bytes());
    input.extend_from_slice(&numbers.digest.to_be_bytes());
    word(input, numbers.period);
    word(input, numbers.block);
    input.push(u8::try_from(words.len()).unwrap_or(0));
    for number in words {
        word(input, number);
    }
}

fn word(input: &mut Vec<u8>, number: u64) {
    input.extend_from_slice(&number.to_be_bytes());
}

fn short(input: &mut Vec<u8>, number: usize) {
    input.extend_from_slice(&u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
}

/// What became of each run.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &[u8], server: &str) -> Vec<Result<RunVerdict, StoreError>> {
    let mut reply = Reply::new(reply);
    let read = |reply: &mut Reply<'_>| {
        let now = reply.time()?;
        runs.iter().map(|run| run_verdict(run, reply, now)).collect::<Option<Vec<_>>>()
    };
    read(&mut reply).unwrap_or_else(|| vec![Err(error::not_understood(server)); runs.len()])
}

fn run_verdict(run: &Run<'_>, reply: &mut Reply<'_>, now: Time) -> Option<Result<RunVerdict, StoreError>> {
    let charges = run.request().charges();
    if reply.byte()? != 0 {
        let message = reply.text()?;
        let name = charges.first().map_or("", |charge| charge.limit().name());
        return Some(Err(error::of_run(&message, name)));
    }
    let verdicts = (0..run.count())
        .map(|_| {
            let decisions =
                charges.iter().map(|charge| decision(reply, charge.limit())).collect::<Option<Vec<_>>>()?;
            Some(Verdict::new(decisions, now))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Ok(RunVerdict::from_verdicts(verdicts)))
}

fn decision(reply: &mut Reply<'_>, limit: &Limit) -> Option<Decision> {
    let outcome = match reply.byte()? {
        1 => Outcome::Allowed,
        2 => Outcome::Denied,
        3 => Outcome::NeverFits,
        4 => Outcome::LeaseLost,
        _ => return None,
    };
    let granted = reply.number()?;
    let minus = reply.byte()? != 0;
    let left = i64::try_from(reply.word()?).unwrap_or(i64::MAX);
    let (wait, reset) = (reply.word()?, reply.word()?);
    let unit = if limit.kind().is_flow() {
        let numbers = limit.parameters();
        numbers.period / u64::from(numbers.count)
    } else {
        1
    };
    let raw = RawDecision {
        outcome,
        source: Source::Store,
        granted,
        limit: limit.capacity(),
        left: if minus { -left } else { left },
        unit,
        wait,
        reset,
    };
    Some(raw.into())
}
