//! Booking what was decided elsewhere, and reading what there is then, in one call: debits on buckets by the short script,
//! anything else by the one that decides.

use redis::Value;
use tollgate_core::store::{Export, Run, Snapshot, slots};
use tollgate_core::{Action, AlgorithmKind, Charge, Request, StoreError, Time};

use crate::call::Call;
use crate::decide;
use crate::error;
use crate::flow_value::{self, double};
use crate::key::Names;
use crate::plain::{Bucket, EXACT, ends_in_time, instant, with_time};
use crate::reply::Reply;
use crate::script;
use crate::settings::Settings;
use crate::snapshot::words;
use crate::store::Inner;
use crate::take::any_twice;
use crate::topology::Place;

/// Whether a charge's state can be told with the answer. A set of leases has no single value.
pub(crate) fn can_tell(charge: &Charge<'_>) -> bool {
    charge.limit().kind() != AlgorithmKind::Concurrency
}

/// Books a request whose charges live in one place, and says what is there afterwards.
pub(crate) async fn at(
    inner: &Inner,
    place: Place,
    request: Request<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let charges = request.charges();
    let deadline = inner.deadline();
    if let Some(call) = plain_call(request, &inner.names, &inner.settings, now) {
        let answer = inner.topology.run(place, &call, deadline).await?;
        // Something lies too far away for the short script, which has done nothing then.
        if !matches!(answer.value(), Value::Nil) {
            let told = plain_states(charges, any_twice(&call.keys), answer.bytes()?);
            return told.ok_or_else(|| error::not_understood(answer.server()));
        }
    }
    let call = decide::exchange(&Run::new(request, 1), &inner.names, &inner.settings, now);
    let answer = inner.topology.run(place, &call, deadline).await?;
    let told = states(charges, answer.bytes()?);
    told.unwrap_or_else(|| Err(error::not_understood(answer.server())))
}

/// The short call; `None` if the request is not one for it.
fn plain_call(request: Request<'_>, names: &Names, settings: &Settings, now: Time) -> Option<Call> {
    let charges = request.charges();
    let (first, id) = (charges.first()?, request.idempotency_key()?);
    if !ends_in_time(settings, now) {
        return None;
    }
    let mut input = Vec::with_capacity(17 + 32 * charges.len());
    input.extend_from_slice(&double(settings.margin_millis().into()));
    input.extend_from_slice(&double(settings.exchange_memory_millis().into()));
    let mut keys = Vec::with_capacity(1 + charges.len());
    keys.push(names.operation(first.key(), id));
    keys.extend(charges.iter().map(|charge| names.state(charge)));
    input.push(u8::from(any_twice(&keys)));
    for alike in charges.chunk_by(|one, next| one.limit() == next.limit()) {
        let bucket = Bucket::of(alike.first()?.limit())?;
        input.extend_from_slice(&u16::try_from(alike.len()).ok()?.to_le_bytes());
        input.extend_from_slice(&double(bucket.token));
        bucket.write(&mut input);
        for charge in alike {
            let Action::Debit { at } = charge.action() else { return None };
            bucket.token.checked_mul(charge.cost().into()).filter(|units| *units < EXACT)?;
            input.extend_from_slice(&charge.cost().to_le_bytes());
            // No later than now, whenever that is for the server.
            input.extend_from_slice(&instant(at.unwrap_or(Time::MAX)));
        }
    }
    Some(Call { script: script::book(), keys, arguments: with_time(input, settings, now), repeatable: true })
}

/// What the short script says is there, for each charge. `None` if nobody understands it.
fn plain_states(charges: &[Charge<'_>], is_charged_twice: bool, reply: &[u8]) -> Option<Vec<Export>> {
    let mut reply = Reply::new(reply);
    let (micros, nanos) = (flow_value::whole(*reply.array()?)?, flow_value::whole(*reply.array()?)?);
    let at = Time::from_nanos(micros.checked_mul(1_000)?.checked_add(nanos)?);
    let told = |charge: &Charge<'_>| {
        let value = reply.array()?;
        let state = if *value == [0; flow_value::SIZE] { None } else { Some(flow_value::read(value)?) };
        let words = state
            .filter(|state| state.at > at)
            .map(|state| vec![state.at.nanos(), state.overdrawn.into(), state.digest.into(), 0]);
        Some(Export { state: words.map(|words| snapshot(charge, words)), at })
    };
    let mut exports: Vec<_> = charges.iter().map(told).collect::<Option<_>>()?;
    if is_charged_twice {
        // The state after each, but what counts is the state after all.
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

/// What `decide.lua` says is there, for each charge. `None` if nobody understands it.
fn states(charges: &[Charge<'_>], reply: &[u8]) -> Option<Result<Vec<Export>, StoreError>> {
    let mut reply = Reply::new(reply);
    let at = reply.time()?;
    if reply.byte()? != 0 {
        let name = charges.first().map_or("", |charge| charge.limit().name());
        return Some(Err(error::of_run(&reply.text()?, name)));
    }
    // Each key once, in the order in which they come first.
    let (slots, count) = slots(charges);
    let value = |_| {
        let length = reply.number()?;
        reply.bytes(usize::try_from(length).ok()?)
    };
    let values: Vec<&[u8]> = (0..count).map(value).collect::<Option<_>>()?;
    let told = charges.iter().zip(slots).map(|(charge, slot)| {
        if values[slot].is_empty() {
            return Ok(Export { state: None, at });
        }
        let read = words(charge.limit(), values[slot]);
        let corrupt = || error::of_run("it cannot be read", charge.limit().name()).with_unknown_effect();
        let (words, fresh_at) = read.ok_or_else(corrupt)?;
        Ok(Export { state: (fresh_at > at).then(|| snapshot(charge, words)), at })
    });
    Some(told.collect())
}
