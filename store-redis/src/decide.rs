//! The general script: encodes requests for `decide.lua`, and decodes its replies.

use indexmap::IndexSet;
use tollgate_core::store::{RawDecision, Run, RunVerdict};
use tollgate_core::{AlgorithmKind, Charge, Decision, Limit, Outcome, Source, StoreError, Time, Verdict};

use crate::key::KeyNames;
use crate::reader::Reader;
use crate::script::{self, AlgorithmFiles};
use crate::script_call::ScriptCall;
use crate::stored_form::StoredForm;
use crate::timing::Timing;
use crate::{error, takes};

/// In place of the caller's time: the server's clock decides.
const SERVER_CLOCK: u64 = u64::MAX;
/// The flag of a limit that blocks a key after a denial.
const BLOCKS: u8 = 128;

/// Creates the call for any runs.
pub(crate) fn call(
    runs: &[Run<'_>],
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Result<ScriptCall, StoreError> {
    encode(runs, names, timing, now, false)
}

/// Creates the call that executes a run of deltas, and returns the states of its keys instead of decisions.
pub(crate) fn deltas_call(
    run: &Run<'_>,
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Result<ScriptCall, StoreError> {
    encode(std::slice::from_ref(run), names, timing, now, true)
}

fn encode(
    runs: &[Run<'_>],
    names: &KeyNames,
    timing: &Timing,
    now: Time,
    returns_states: bool,
) -> Result<ScriptCall, StoreError> {
    let mut encoder = Encoder { names, keys: IndexSet::new(), limits: Vec::new(), input: Vec::new() };
    for run in runs {
        encoder.run(run);
    }
    let Encoder { keys, limits, input: encoded_runs, .. } = encoder;
    let mut files = AlgorithmFiles::default();
    let mut input = Vec::with_capacity(16 + 64 * limits.len() + encoded_runs.len());
    push_u64(&mut input, timing.caller_time(now).map_or(SERVER_CLOCK, Time::nanos));
    input.extend_from_slice(&timing.margin_millis().to_be_bytes());
    let retention = if returns_states { timing.delta_retention_millis() } else { timing.retention_millis() };
    input.extend_from_slice(&retention.to_be_bytes());
    push_u16(&mut input, limits.len());
    push_u16(&mut input, runs.len());
    input.push(returns_states.into());
    for limit in &limits {
        files.add(limit.kind());
        encode_limit(&mut input, limit)?;
    }
    input.extend_from_slice(&encoded_runs);
    let repeatable = runs.iter().all(|run| {
        run.request().idempotency_key().is_some() || run.request().charges().iter().all(Charge::is_peek)
    });
    Ok(ScriptCall {
        script: script::decide(files),
        keys: keys.into_iter().collect(),
        arguments: vec![input],
        repeatable,
    })
}

/// Encodes runs, and collects their keys and limits, which runs refer to by index.
struct Encoder<'a> {
    names: &'a KeyNames,
    keys: IndexSet<Vec<u8>>,
    limits: Vec<&'a Limit>,
    input: Vec<u8>,
}

impl<'a> Encoder<'a> {
    fn run(&mut self, run: &Run<'a>) {
        let request = run.request();
        let record = match (request.idempotency_key(), request.charges()) {
            (Some(key), [first, ..]) => self.key(self.names.idempotency_record(first.key(), key)),
            _ => 0,
        };
        push_u16(&mut self.input, record);
        self.input.extend_from_slice(&run.count().to_be_bytes());
        push_u16(&mut self.input, request.charges().len());
        for charge in request.charges() {
            self.charge(charge);
        }
    }

    fn charge(&mut self, charge: &Charge<'a>) {
        let limit = self.limit(charge.limit());
        let key = self.key(self.names.state(charge));
        let (action, nanos) = (charge.action().code(), charge.action().nanos());
        push_u16(&mut self.input, limit);
        push_u16(&mut self.input, key);
        self.input.push(action);
        self.input.extend_from_slice(&charge.cost().to_be_bytes());
        self.input.push(u8::from(nanos.is_some()));
        push_u64(&mut self.input, nanos.unwrap_or(0));
        self.input.extend_from_slice(&charge.lease().get().to_be_bytes());
    }

    /// Returns the index of a key, counted from 1 as in Lua.
    fn key(&mut self, name: Vec<u8>) -> usize {
        self.keys.insert_full(name).0 + 1
    }

    /// Returns the index of a limit, counted from 1 as in Lua.
    fn limit(&mut self, limit: &'a Limit) -> usize {
        let known = self.limits.iter().position(|known| std::ptr::eq(*known, limit) || *known == limit);
        known.unwrap_or_else(|| {
            self.limits.push(limit);
            self.limits.len() - 1
        }) + 1
    }
}

fn encode_limit(input: &mut Vec<u8>, limit: &Limit) -> Result<(), StoreError> {
    let parameters = limit.parameters();
    let count = u64::from(parameters.count.max(1));
    let (token, excess) = (parameters.period / count, parameters.period % count);
    let (flag, words) = match (StoredForm::of(limit)?, parameters.kind) {
        (StoredForm::Flow, _) => {
            (false, vec![token, token.saturating_mul(parameters.capacity.into()), excess])
        }
        (StoredForm::Log, _) => (parameters.count_denied, vec![parameters.min_gap]),
        (StoredForm::Leases, _) => (false, vec![parameters.lease]),
        (StoredForm::Fields, AlgorithmKind::FixedWindow) => (parameters.anchored, vec![]),
        (StoredForm::Fields, AlgorithmKind::SlidingCounter) => (false, vec![parameters.sub_buckets.into()]),
        (StoredForm::Fields, AlgorithmKind::SmoothWarmingUp) => {
            (false, vec![parameters.warm_up, parameters.cold_factor.into(), token, excess])
        }
        (StoredForm::Fields, AlgorithmKind::IntervalBucket | AlgorithmKind::SlidingWindow) => (false, vec![]),
        (StoredForm::Fields, _) => return Err(error::unknown_algorithm(limit)),
    };
    let blocks = if limit.block_time().is_some() { BLOCKS } else { 0 };
    input.extend_from_slice(&[parameters.kind as u8, u8::from(flag) | blocks]);
    input.extend_from_slice(&parameters.count.to_be_bytes());
    input.extend_from_slice(&parameters.capacity.to_be_bytes());
    input.extend_from_slice(&parameters.digest.to_be_bytes());
    push_u64(input, parameters.period);
    push_u64(input, parameters.block);
    input.push(u8::try_from(words.len()).unwrap_or(0));
    for word in words {
        push_u64(input, word);
    }
    Ok(())
}

fn push_u64(input: &mut Vec<u8>, number: u64) {
    input.extend_from_slice(&number.to_be_bytes());
}

fn push_u16(input: &mut Vec<u8>, number: usize) {
    input.extend_from_slice(&u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
}

/// Decodes the verdicts of each run.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &[u8], server: &str) -> Vec<Result<RunVerdict, StoreError>> {
    let mut reader = Reader::new(reply);
    let read = |reader: &mut Reader<'_>| {
        let now = reader.time()?;
        runs.iter().map(|run| run_verdict(run, reader, now)).collect::<Option<Vec<_>>>()
    };
    read(&mut reader).unwrap_or_else(|| vec![Err(error::unexpected_reply(server)); runs.len()])
}

/// Decodes a run's part of the reply, which an idempotency record is, too.
pub(crate) fn run_verdict(
    run: &Run<'_>,
    reader: &mut Reader<'_>,
    now: Time,
) -> Option<Result<RunVerdict, StoreError>> {
    let charges = run.request().charges();
    match reader.u8()? {
        0 => {}
        2 => return takes::replay_record(run, reader),
        _ => {
            let message = reader.text()?;
            let name = charges.first().map_or("", |charge| charge.limit().name());
            return Some(Err(error::of_run(&message, name)));
        }
    }
    let verdicts = (0..run.count())
        .map(|_| {
            let decisions =
                charges.iter().map(|charge| decision(reader, charge.limit())).collect::<Option<Vec<_>>>()?;
            Some(Verdict::new(decisions, now))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Ok(RunVerdict::from_verdicts(verdicts)))
}

fn decision(reader: &mut Reader<'_>, limit: &Limit) -> Option<Decision> {
    // The codes of algorithm.lua.
    let outcome = match reader.u8()? {
        1 => Outcome::Allowed,
        2 => Outcome::Denied,
        3 => Outcome::NeverFits,
        4 => Outcome::LeaseLost,
        _ => return None,
    };
    let granted = reader.u32()?;
    let is_negative = reader.u8()? != 0;
    let left = i64::try_from(reader.u64()?).unwrap_or(i64::MAX);
    let (wait, reset) = (reader.u64()?, reader.u64()?);
    let unit = if limit.kind().is_flow() {
        let parameters = limit.parameters();
        parameters.period / u64::from(parameters.count)
    } else {
        1
    };
    let raw = RawDecision {
        outcome,
        source: Source::Store,
        granted,
        limit: limit.capacity(),
        left: if is_negative { -left } else { left },
        unit,
        wait,
        reset,
    };
    Some(raw.into())
}
