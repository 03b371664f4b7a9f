//! Plain takes, which nearly all charges are: encodes them for `check.lua` and `takes.lua`, and derives the decisions
//! from the states in the replies with core's function.

use std::collections::HashSet;

use redis::Value;
use tollgate_core::store::{Run, RunVerdict, Snapshot, State, Tat};
use tollgate_core::{Charge, Decision, IdempotencyKey, Limit, StoreError, Time};

use crate::flow_value::{self, double};
use crate::key::KeyNames;
use crate::reader::Reader;
use crate::script::{self, TakeForms};
use crate::script_call::ScriptCall;
use crate::snapshot::words;
use crate::take::{EXACT, Take, TakeForm, arguments, is_time_in_range};
use crate::timing::Timing;
use crate::{decide, error};

/// The result of a run, or `None` if the general script has to decide it. It has changed nothing then.
pub(crate) type Decided<T> = Option<Result<T, StoreError>>;

/// In a reply: the general script has to decide.
pub(crate) const GENERAL: i64 = -1;

pub(crate) fn has_duplicates(keys: &[Vec<u8>]) -> bool {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.len() > 1 && !keys.iter().all(|key| seen.insert(key))
}

/// Returns whether `takes.lua` can decide a run.
pub(crate) fn is_plain(run: &Run<'_>, timing: &Timing, now: Time) -> bool {
    let charges = run.request().charges();
    is_time_in_range(timing, now)
        && (run.count() == 1 || (charges.len() == 1 && run.request().idempotency_key().is_none()))
        && charges.iter().enumerate().all(|(index, charge)| {
            Take::of(charge, timing).is_some()
                && !charges[..index].iter().any(|earlier| earlier.same_state(charge))
        })
}

/// Creates the call for one charge. `None` if `check.lua` cannot decide it.
pub(crate) fn check_call(
    charge: &Charge<'_>,
    idempotency_key: Option<IdempotencyKey>,
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Option<ScriptCall> {
    let take = Take::of(charge, timing).or_else(|| Take::of_lease(charge));
    let take = take.filter(|_| is_time_in_range(timing, now))?;
    let mut input = Vec::with_capacity(16 + Take::SIZE);
    input.extend_from_slice(&double(timing.margin_millis().into()));
    match take.even_flow() {
        Some(numbers) if idempotency_key.is_none() => {
            input.extend(numbers.into_iter().flat_map(double));
        }
        Some(_) | None => {
            input.extend_from_slice(&double(timing.retention_millis().into()));
            take.write_numbers(&mut input);
        }
    }
    if take.form == TakeForm::Lease {
        input.extend_from_slice(&charge.lease().get().to_be_bytes());
    }
    let mut keys = vec![names.state(charge)];
    keys.extend(idempotency_key.map(|key| names.idempotency_record(charge.key(), key)));
    Some(ScriptCall {
        script: script::check(take.form),
        keys,
        arguments: arguments(input, timing, now),
        repeatable: idempotency_key.is_some(),
    })
}

/// Creates the call for one run of one charge with an idempotency key. `None` if there is more, or no such key: the
/// reply of `check.lua` has no time then.
pub(crate) fn request_call(
    runs: &[Run<'_>],
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Option<ScriptCall> {
    let [run] = runs else { return None };
    let ([charge], 1) = (run.request().charges(), run.count()) else { return None };
    let key = run.request().idempotency_key()?;
    check_call(charge, Some(key), names, timing, now)
}

/// Creates the call for runs that [are plain](is_plain).
pub(crate) fn call(runs: &[Run<'_>], names: &KeyNames, timing: &Timing, now: Time) -> ScriptCall {
    let charges = runs.iter().map(|run| run.request().charges().len()).sum();
    let mut keys = Vec::with_capacity(charges);
    let mut input = Vec::with_capacity(17 + 9 * runs.len() + Take::SIZE);
    input.extend_from_slice(&double(timing.margin_millis().into()));
    input.extend_from_slice(&double(timing.retention_millis().into()));
    // Whether to read all values at once; set once all takes are known.
    input.push(0);
    let mut forms = TakeForms::default();
    // The last group, and the position of its number of runs.
    let mut last: Option<(Group, usize)> = None;
    for run in runs {
        let (charges, key) = (run.request().charges(), run.request().idempotency_key());
        if let (Some(key), [first, ..]) = (key, charges) {
            keys.push(names.idempotency_record(first.key(), key));
        }
        keys.extend(charges.iter().map(|charge| names.state(charge)));
        if let Some((last, position)) = last.as_mut().filter(|(last, _)| last.takes_in(run, timing)) {
            last.runs += 1;
            input[*position..*position + 2].copy_from_slice(&last.runs.to_le_bytes());
            continue;
        }
        let group = Group::of(run, timing);
        input.extend_from_slice(&group.count.to_le_bytes());
        input.extend_from_slice(&u16::try_from(charges.len()).unwrap_or(u16::MAX).to_le_bytes());
        let position = input.len();
        input.extend_from_slice(&group.runs.to_le_bytes());
        input.push(group.has_record.into());
        for take in &group.takes {
            forms.add(take.form);
            take.write(&mut input);
        }
        last = Some((group, position));
    }
    let has_logs = forms.contains(TakeForm::SlidingLog);
    input[16] = (!has_logs && !has_duplicates(&keys)).into();
    let repeatable = runs.iter().all(|run| run.request().idempotency_key().is_some());
    ScriptCall { script: script::takes(forms), keys, arguments: arguments(input, timing, now), repeatable }
}

/// Consecutive runs that differ in nothing but their keys. They are encoded once.
struct Group {
    count: u32,
    has_record: bool,
    takes: Vec<Take>,
    runs: u16,
}

impl Group {
    fn of(run: &Run<'_>, timing: &Timing) -> Self {
        let has_record = run.request().idempotency_key().is_some();
        Self { count: run.count(), has_record, takes: takes(run, timing).collect(), runs: 1 }
    }

    fn takes_in(&self, run: &Run<'_>, timing: &Timing) -> bool {
        (self.count, self.has_record) == (run.count(), run.request().idempotency_key().is_some())
            && takes(run, timing).eq(self.takes.iter().copied())
            && self.runs < u16::MAX
    }
}

/// Returns the takes of a run that [is plain](is_plain).
fn takes(run: &Run<'_>, timing: &Timing) -> impl Iterator<Item = Take> {
    run.request().charges().iter().filter_map(|charge| Take::of(charge, timing))
}

/// Decodes the reply of `takes.lua`.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &Value, server: &str) -> Vec<Decided<RunVerdict>> {
    let read = || {
        let (now, mut parts) = time_and_rest(reply)?;
        let mut decided = Vec::with_capacity(runs.len());
        for run in runs {
            let length = match parts.first()? {
                Value::Int(GENERAL) | Value::Array(_) => 1,
                _ => run.request().charges().len(),
            };
            let (part, rest) = parts.split_at_checked(length)?;
            parts = rest;
            decided.push(match part {
                [Value::Int(GENERAL)] => None,
                [Value::Array(record)] => Some(recorded(run, record, now, server)),
                states => Some(replayed(run, states, now)),
            });
        }
        Some(decided)
    };
    read().unwrap_or_else(|| vec![Some(Err(error::unexpected_reply(server))); runs.len()])
}

/// Decodes the reply of `check.lua` to a charge without an idempotency key.
pub(crate) fn decision(charge: &Charge<'_>, reply: &Value, server: &str) -> Decided<Decision> {
    let limit = charge.limit();
    match reply {
        Value::Int(GENERAL) => None,
        // The decision does not depend on the time.
        value @ Value::Int(_) => {
            let now = Time::from_nanos(EXACT);
            Some(state(limit, value, now).map(|mut state| state.apply(charge, now)))
        }
        reply => Some(match time_and_value(reply) {
            Some((now, value)) => stored_state(limit, value).map(|mut state| state.apply(charge, now)),
            None => Err(error::unexpected_reply(server)),
        }),
    }
}

/// Decodes the reply of `check.lua` to a run of one request that has an idempotency key.
pub(crate) fn verdict(run: &Run<'_>, reply: &Value, server: &str) -> Decided<RunVerdict> {
    match (reply, run.request().charges()) {
        (Value::Int(GENERAL), _) => None,
        (Value::Array(_), _) => Some(match time_and_rest(reply) {
            Some((now, record)) => recorded(run, record, now, server),
            None => Err(error::unexpected_reply(server)),
        }),
        (reply, [charge]) => Some(match time_and_value(reply) {
            Some((now, value)) => {
                stored_state(charge.limit(), value).map(|state| RunVerdict::replay(run, &mut [state], now))
            }
            None => Err(error::unexpected_reply(server)),
        }),
        _ => Some(Err(error::unexpected_reply(server))),
    }
}

fn time_and_value(reply: &Value) -> Option<(Time, &[u8])> {
    let Value::BulkString(bytes) = reply else { return None };
    let (time, value) = bytes.split_first_chunk::<16>()?;
    Some((read_time(&mut Reader::new(time))?, value))
}

/// Reads a time in microseconds and nanoseconds.
pub(crate) fn read_time(reader: &mut Reader<'_>) -> Option<Time> {
    let (micros, nanos) = (flow_value::whole(*reader.array()?)?, flow_value::whole(*reader.array()?)?);
    Some(time(micros, nanos))
}

fn time_and_rest(reply: &Value) -> Option<(Time, &[Value])> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Int(micros), Value::Int(nanos), rest @ ..] = parts.as_slice() else { return None };
    Some((time(u64::try_from(*micros).ok()?, u64::try_from(*nanos).ok()?), rest))
}

fn time(micros: u64, nanos: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1_000).saturating_add(nanos))
}

fn replayed(run: &Run<'_>, values: &[Value], now: Time) -> Result<RunVerdict, StoreError> {
    let charges = run.request().charges().iter();
    let mut states = charges
        .zip(values)
        .map(|(charge, value)| state(charge.limit(), value, now))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RunVerdict::replay(run, &mut states, now))
}

/// Decodes the state before a take.
fn state(limit: &Limit, value: &Value, now: Time) -> Result<State, StoreError> {
    match value {
        Value::Int(ahead) => {
            // Whatever wrote the state, it means the same under the current parameters.
            let at = Time::from_nanos(now.nanos().saturating_add(u64::try_from(*ahead).unwrap_or(0)));
            let digest = limit.as_flow().ok_or_else(|| corrupt(limit))?.digest();
            Ok(State::from_flow(Tat { at, overdrawn: false, digest }))
        }
        Value::Nil => Ok(State::default()),
        Value::BulkString(bytes) => stored_state(limit, bytes),
        _ => Err(corrupt(limit)),
    }
}

/// Decodes a stored state. No bytes are a fresh one.
fn stored_state(limit: &Limit, value: &[u8]) -> Result<State, StoreError> {
    if value.is_empty() {
        return Ok(State::default());
    }
    // What a plain bucket needs, without an allocation.
    if let Ok(flow) = <&[u8; flow_value::SIZE]>::try_from(value)
        && limit.as_flow().is_some()
    {
        return flow_value::read(flow).map(State::from_flow).ok_or_else(|| corrupt(limit));
    }
    let (words, fresh_at) = words(limit, value).ok_or_else(|| corrupt(limit))?;
    State::from_stored(limit, &Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words), fresh_at)
}

fn corrupt(limit: &Limit) -> StoreError {
    error::of_run("the value cannot be decoded", limit.name())
}

/// Decodes an idempotency record.
fn recorded(run: &Run<'_>, record: &[Value], now: Time, server: &str) -> Result<RunVerdict, StoreError> {
    let [Value::BulkString(record)] = record else { return Err(error::unexpected_reply(server)) };
    let mut reader = Reader::new(record);
    let verdict = decide::run_verdict(run, &mut reader, now).filter(|_| reader.is_empty());
    verdict.unwrap_or_else(|| Err(error::used_for_another_request(run)))
}

/// Decodes the states of a record, and replays the request on them. `None` if it is the record of another request.
pub(crate) fn replay_record(
    run: &Run<'_>,
    reader: &mut Reader<'_>,
) -> Option<Result<RunVerdict, StoreError>> {
    let charges = run.request().charges();
    let count = u16::from_le_bytes(*reader.array()?);
    let now = read_time(reader)?;
    if usize::from(count) != charges.len() {
        return None;
    }
    let mut states = Vec::with_capacity(charges.len());
    for charge in charges {
        let length = u32::from_le_bytes(*reader.array()?);
        let value = reader.bytes(usize::try_from(length).ok()?)?;
        let state = if value.is_empty() { Ok(State::default()) } else { stored_state(charge.limit(), value) };
        match state {
            Ok(state) => states.push(state),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(RunVerdict::replay(run, &mut states, now)))
}
