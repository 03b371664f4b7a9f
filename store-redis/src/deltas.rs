//! Applies deltas and exports the resulting states in one call: by `deltas.lua` if their algorithms have short forms, by
//! `decide.lua` otherwise. Long states are read by calls of their own, so that none holds the server for long.

use redis::Value;
use tollgate_core::store::{Export, Run, Snapshot, state_indexes};
use tollgate_core::{Action, AlgorithmKind, Charge, Limit, Request, StoreError, Time};

use crate::decide;
use crate::error;
use crate::flow_value::double;
use crate::key::KeyNames;
use crate::reader::Reader;
use crate::script::{self, TakeForms};
use crate::script_call::ScriptCall;
use crate::script_limit::ScriptLimit;
use crate::snapshot::{export, words};
use crate::store::Inner;
use crate::stored_form::StoredForm;
use crate::take::{EXACT, arguments, instant, is_time_in_range};
use crate::takes::{GENERAL, has_duplicates, read_time};
use crate::timing::Timing;
use crate::topology::Place;

/// In place of an instant: -1 and 0, as doubles.
const UNDATED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0xf0, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0];

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
    if let Some((call, has_duplicates)) = short_call(request, &inner.names, &inner.timing, now) {
        let reply = inner.run(place, &call, &[run], deadline).await?;
        if !matches!(reply.value(), Value::Int(GENERAL)) {
            let states = short_states(charges, has_duplicates, reply.value());
            return states.ok_or_else(|| error::unexpected_reply(reply.server()))?;
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

/// Creates the call for the short script. Also returns whether charges share a state. `None` if that script cannot apply
/// the request.
fn short_call(
    request: Request<'_>,
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Option<(ScriptCall, bool)> {
    let charges = request.charges();
    let (first, key) = (charges.first()?, request.idempotency_key()?);
    if !is_time_in_range(timing, now) {
        return None;
    }
    let mut input = Vec::with_capacity(17 + 51 + 20 * charges.len());
    input.extend_from_slice(&double(timing.margin_millis().into()));
    input.extend_from_slice(&double(timing.delta_retention_millis().into()));
    let mut keys = Vec::with_capacity(1 + charges.len());
    keys.push(names.idempotency_record(first.key(), key));
    keys.extend(charges.iter().map(|charge| names.state(charge)));
    let has_duplicates = has_duplicates(&keys);
    input.push(has_duplicates.into());
    let mut forms = TakeForms::default();
    for group in charges.chunk_by(|one, next| one.limit() == next.limit()) {
        let limit = group.first()?.limit();
        let ScriptLimit { form, token, numbers, .. } = ScriptLimit::of(limit).filter(|_| is_short(limit))?;
        forms.add(form);
        input.push(form as u8);
        input.extend_from_slice(&u16::try_from(group.len()).ok()?.to_le_bytes());
        input.extend(std::iter::once(token).chain(numbers).flat_map(double));
        for charge in group {
            let cost = i32::try_from(charge.cost()).ok()?;
            token.checked_mul(charge.cost().into()).filter(|units| *units < EXACT)?;
            let (cost, at) = match charge.action() {
                Action::Debit { at } => (cost, at),
                // Even a refund of nothing applies changed parameters to the state.
                Action::Refund { at } if cost > 0 => (-cost, at),
                _ => return None,
            };
            input.extend_from_slice(&cost.to_le_bytes());
            input.extend_from_slice(&at.map_or(UNDATED, instant));
        }
    }
    let arguments = arguments(input, timing, now);
    Some((ScriptCall { script: script::deltas(forms), keys, arguments, repeatable: true }, has_duplicates))
}

/// Returns whether the short script has the deltas of a limit.
fn is_short(limit: &Limit) -> bool {
    let parameters = limit.parameters();
    parameters.block == 0
        && match parameters.kind {
            AlgorithmKind::TokenBucket
            | AlgorithmKind::LeakyMeter
            | AlgorithmKind::Gcra
            | AlgorithmKind::IntervalBucket
            | AlgorithmKind::SlidingWindow
            | AlgorithmKind::SlidingCounter => true,
            AlgorithmKind::FixedWindow => !parameters.anchored,
            _ => false,
        }
}

/// Decodes the reply of the short script: a state for each charge. `None` if it is malformed.
fn short_states(
    charges: &[Charge<'_>],
    has_duplicates: bool,
    reply: &Value,
) -> Option<Result<Vec<Export>, StoreError>> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(time), values @ ..] = parts.as_slice() else { return None };
    let at = read_time(&mut Reader::new(time))?;
    if values.len() != charges.len() {
        return None;
    }
    let exports = charges.iter().enumerate().map(|(index, charge)| {
        // The reply has the state after each charge; the result is the state after all of them.
        let same = |later: &Charge<'_>| has_duplicates && later.same_state(charge);
        let last = charges.iter().rposition(same).unwrap_or(index);
        match &values[last] {
            Value::BulkString(value) => stored_export(charge, value, at),
            _ => Err(corrupt(charge)),
        }
    });
    Some(exports.collect())
}

/// Decodes a stored value. No bytes are a fresh state.
fn stored_export(charge: &Charge<'_>, value: &[u8], at: Time) -> Result<Export, StoreError> {
    if value.is_empty() {
        return Ok(Export { state: None, at });
    }
    let (words, fresh_at) = words(charge.limit(), value).ok_or_else(|| corrupt(charge))?;
    Ok(Export { state: (fresh_at > at).then(|| snapshot(charge, words)), at })
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
        stored_export(charge, value, at).map(Some)
    });
    Some(exports.collect())
}

fn corrupt(charge: &Charge<'_>) -> StoreError {
    error::of_run("the value cannot be decoded", charge.limit().name()).with_unknown_effect()
}
