//! Applies deltas and exports the resulting states in one call: `bucket_debits.lua` for debits on buckets, `decide.lua`
//! for all others. Long states are read by calls of their own, so that none holds the server for long.

use redis::Value;
use tollgate_core::store::{Export, Run, Snapshot, state_indexes};
use tollgate_core::{Action, Charge, Request, StoreError, Time};

use crate::bucket::Bucket;
use crate::decide;
use crate::error;
use crate::flow_value::{self, double};
use crate::key::KeyNames;
use crate::reader::Reader;
use crate::script;
use crate::script_call::ScriptCall;
use crate::snapshot::{export, words};
use crate::store::Inner;
use crate::stored_form::StoredForm;
use crate::take::{arguments, instant, is_time_in_range};
use crate::takes::has_duplicates;
use crate::timing::Timing;
use crate::topology::Place;

/// Returns whether a charge's state is a single value, which the scripts can return. A set of leases is not.
pub(crate) fn has_single_value(charge: &Charge<'_>) -> bool {
    match StoredForm::of(charge.limit()) {
        Ok(StoredForm::Flow | StoredForm::Fields | StoredForm::Log) => true,
        Ok(StoredForm::Leases) | Err(_) => false,
    }
}

/// Applies a request whose charges live in one place, and returns the states after it.
pub(crate) async fn apply(
    inner: &Inner,
    place: Place,
    request: Request<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let (charges, run) = (request.charges(), Run::new(request, 1));
    let deadline = inner.deadline();
    if let Some(call) = bucket_call(request, &inner.names, &inner.timing, now) {
        let reply = inner.run(place, &call, &[run], deadline).await?;
        // Nil: an instant is out of range for that script, and nothing was applied.
        if !matches!(reply.value(), Value::Nil) {
            let states = bucket_states(charges, has_duplicates(&call.keys), reply.bytes()?);
            return states.ok_or_else(|| error::unexpected_reply(reply.server()));
        }
    }
    let call = decide::deltas_call(&run, &inner.names, &inner.timing, now)?;
    let reply = inner.run(place, &call, &[run], deadline).await?;
    let states = states(charges, reply.value()).ok_or_else(|| error::unexpected_reply(reply.server()))??;
    let mut exports = Vec::with_capacity(charges.len());
    for (charge, state) in charges.iter().zip(states) {
        exports.push(match state {
            Some(export) => export,
            // The deltas are applied by now.
            None => export(inner, charge.limit(), charge.key(), now)
                .await
                .map_err(StoreError::with_unknown_effect)?,
        });
    }
    Ok(exports)
}

/// Creates the call for debits on buckets. `None` if `bucket_debits.lua` cannot apply the request.
fn bucket_call(request: Request<'_>, names: &KeyNames, timing: &Timing, now: Time) -> Option<ScriptCall> {
    let charges = request.charges();
    let (first, key) = (charges.first()?, request.idempotency_key()?);
    if !is_time_in_range(timing, now) {
        return None;
    }
    let mut input = Vec::with_capacity(17 + 32 * charges.len());
    input.extend_from_slice(&double(timing.margin_millis().into()));
    input.extend_from_slice(&double(timing.delta_retention_millis().into()));
    let mut keys = Vec::with_capacity(1 + charges.len());
    keys.push(names.idempotency_record(first.key(), key));
    keys.extend(charges.iter().map(|charge| names.state(charge)));
    input.push(u8::from(has_duplicates(&keys)));
    for group in charges.chunk_by(|one, next| one.limit() == next.limit()) {
        let bucket = Bucket::of(group.first()?.limit())?;
        input.extend_from_slice(&u16::try_from(group.len()).ok()?.to_le_bytes());
        input.extend_from_slice(&double(bucket.rate.token));
        bucket.write(&mut input);
        for charge in group {
            let Action::Debit { at } = charge.action() else { return None };
            bucket.rate.units(charge.cost().into())?;
            input.extend_from_slice(&charge.cost().to_le_bytes());
            // The script limits it to its own now.
            input.extend_from_slice(&instant(at.unwrap_or(Time::MAX)));
        }
    }
    let arguments = arguments(input, timing, now);
    Some(ScriptCall { script: script::bucket_debits(), keys, arguments, repeatable: true })
}

/// Decodes the reply of `bucket_debits.lua`: a state for each charge. `None` if it is malformed.
fn bucket_states(charges: &[Charge<'_>], has_duplicates: bool, reply: &[u8]) -> Option<Vec<Export>> {
    let mut reader = Reader::new(reply);
    let (micros, nanos) = (flow_value::whole(*reader.array()?)?, flow_value::whole(*reader.array()?)?);
    let at = Time::from_nanos(micros.checked_mul(1_000)?.checked_add(nanos)?);
    let export = |charge: &Charge<'_>| {
        let value = reader.array()?;
        let state = if *value == [0; flow_value::SIZE] { None } else { Some(flow_value::read(value)?) };
        let words = state
            .filter(|state| state.at > at)
            .map(|state| vec![state.at.nanos(), state.overdrawn.into(), state.digest.into(), 0]);
        Some(Export { state: words.map(|words| snapshot(charge, words)), at })
    };
    let mut exports: Vec<_> = charges.iter().map(export).collect::<Option<_>>()?;
    if has_duplicates {
        // The reply has the state after each charge; the result is the state after all of them.
        for (index, charge) in charges.iter().enumerate() {
            let last = charges.iter().rposition(|later| later.same_state(charge)).unwrap_or(index);
            exports[index] = exports[last].clone();
        }
    }
    Some(exports)
}

fn snapshot(charge: &Charge<'_>, words: Vec<u64>) -> Snapshot {
    Snapshot::from_parts(Snapshot::VERSION, charge.limit().kind(), words)
}

/// The state of each charge; `None` for one that is so long that it has to be read by a call of its own.
type States = Vec<Option<Export>>;

/// Decodes the reply of `decide.lua`. `None` if it is malformed.
fn states(charges: &[Charge<'_>], reply: &Value) -> Option<Result<States, StoreError>> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(head), values @ ..] = parts.as_slice() else { return None };
    let mut reader = Reader::new(head);
    let at = reader.time()?;
    if reader.u8()? != 0 {
        let name = charges.first().map_or("", |charge| charge.limit().name());
        return Some(Err(error::of_run(&reader.text()?, name)));
    }
    // Each key once, in the order of first use.
    let (indexes, count) = state_indexes(charges);
    if values.len() != count {
        return None;
    }
    let exports = charges.iter().zip(indexes).map(|(charge, index)| {
        let value = match &values[index] {
            Value::Nil => return Ok(None),
            Value::BulkString(value) => value,
            _ => return Err(corrupt(charge)),
        };
        if value.is_empty() {
            return Ok(Some(Export { state: None, at }));
        }
        let (words, fresh_at) = words(charge.limit(), value).ok_or_else(|| corrupt(charge))?;
        Ok(Some(Export { state: (fresh_at > at).then(|| snapshot(charge, words)), at }))
    });
    Some(exports.collect())
}

fn corrupt(charge: &Charge<'_>) -> StoreError {
    error::of_run("the value cannot be decoded", charge.limit().name()).with_unknown_effect()
}
