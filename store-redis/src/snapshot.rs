//! Exports stored states as snapshots.

use tollgate_core::store::{Export, Snapshot, State};
use tollgate_core::{AlgorithmKind, Key, Limit, StoreError, Time};

use crate::error;
use crate::flow_value;
use crate::reader::Reader;
use crate::script;
use crate::script_call::ScriptCall;
use crate::store::Inner;
use crate::stored_form::StoredForm;

/// The version of the stored format, in the first byte of a value. The same as in `stored_format.lua`.
const VERSION: u8 = 1;

pub(crate) async fn export(
    inner: &Inner,
    limit: &Limit,
    key: Key<'_>,
    now: Time,
) -> Result<Export, StoreError> {
    let name = inner.names.of(limit, key);
    let place = inner.topology.place(&name);
    let is_set = StoredForm::of(limit)? == StoredForm::Leases;
    let arguments = vec![if is_set { b"1".to_vec() } else { b"0".to_vec() }];
    let call = ScriptCall { script: script::export(), keys: vec![name], arguments, repeatable: true };
    let reply = inner.topology.run(place, &call, inner.deadline()).await?;
    let bytes = reply.bytes()?;
    let time = Reader::new(bytes).time().ok_or_else(|| error::unexpected_reply(reply.server()))?;
    let at = inner.timing.caller_time(now).unwrap_or(time);
    let raw = &bytes[8..];
    if raw.is_empty() {
        return Ok(Export { state: None, at });
    }
    let corrupt = || error::of_run("the value cannot be decoded", limit.name());
    let (words, fresh_at) = words(limit, raw).ok_or_else(corrupt)?;
    let state = (fresh_at > at).then(|| Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words));
    Ok(Export { state, at })
}

/// Decodes a stored state into the words of a snapshot, and the instant from which on it equals a fresh one. `None` if
/// another version or another program wrote it.
pub(crate) fn words(limit: &Limit, raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    match StoredForm::of(limit).ok()? {
        StoredForm::Flow => flow_words(limit, raw),
        StoredForm::Fields => field_words(limit, raw),
        StoredForm::Log => log_words(raw),
        StoredForm::Leases => lease_words(raw),
    }
}

fn field_words(limit: &Limit, raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reader::new(raw);
    if value.u8()? != VERSION {
        return None;
    }
    let fresh_at = value.time()?;
    let (mut blocked, mut has_fields) = (0, true);
    if limit.block_time().is_some() {
        blocked = value.u64()?;
        has_fields = value.u8()? != 0;
    }
    if !has_fields {
        // Only a block.
        let mut words = State::default().snapshot(limit).words().to_vec();
        *words.last_mut()? = blocked;
        return Some((words, Time::from_nanos(blocked)));
    }
    let mut words = match limit.kind() {
        AlgorithmKind::FixedWindow => vec![value.u64()?, value.count()?],
        AlgorithmKind::IntervalBucket => vec![value.count()?, value.u64()?, value.u8()?.into()],
        AlgorithmKind::SlidingWindow => vec![value.u64()?, value.u64()?, value.count()?, value.count()?],
        AlgorithmKind::SmoothWarmingUp => vec![value.u64()?, value.u64()?, value.u64()?],
        AlgorithmKind::SlidingCounter => {
            let (period, newest, parts, length) = (value.u64()?, value.u64()?, value.u16()?, value.u16()?);
            let mut words = vec![period, newest];
            for _ in 0..length {
                words.push(value.count()?);
            }
            words.resize(2 + usize::from(parts), 0);
            words
        }
        _ => return None,
    };
    words.push(blocked);
    value.is_empty().then_some((words, fresh_at))
}

fn flow_words(limit: &Limit, raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reader::new(raw);
    let state = flow_value::read(value.array()?)?;
    let blocked = if limit.block_time().is_some() { value.u64()? } else { 0 };
    let words = vec![state.at.nanos(), state.overdrawn.into(), state.digest.into(), blocked];
    value.is_empty().then_some((words, state.at.max(Time::from_nanos(blocked))))
}

fn log_words(raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reader::new(raw);
    if value.u8()? != VERSION {
        return None;
    }
    let (fresh_at, blocked, past, count) = (value.time()?, value.u64()?, value.u32()?, value.u32()?);
    let (newest, sum, mut before) = (value.u64()?, value.count()?, value.count()?);
    value.u8()?;
    let mut words = Vec::new();
    for index in 1..u64::from(past) + u64::from(count) {
        let (at, sum) = (value.u64()?, value.count()?);
        if index > past.into() {
            words.extend([at, sum.checked_sub(before)?]);
            before = sum;
        }
    }
    if count > 0 {
        words.extend([newest, sum.checked_sub(before)?]);
    }
    words.push(blocked);
    // Refunded entries may have left bytes at the end.
    Some((words, fresh_at))
}

fn lease_words(raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reader::new(raw);
    let (mut words, mut head) = (Vec::new(), None);
    while !value.is_empty() {
        let length = value.u16()?;
        let mut member = Reader::new(value.bytes(length.into())?);
        match member.u8()? {
            b'h' => {
                if member.u8()? != VERSION {
                    return None;
                }
                head = Some((member.time()?, member.u64()?));
            }
            b'l' => words.extend([member.u64()?, member.u64()?, member.u64()?, member.u32()?.into()]),
            // The index of the same leases by id.
            b'n' => {}
            _ => return None,
        }
    }
    let (fresh_at, blocked) = head?;
    words.push(blocked);
    Some((words, fresh_at))
}
