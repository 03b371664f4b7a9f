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
    let unexpected = || error::unexpected_reply(reply.server());
    let strings = reply.strings().ok_or_else(unexpected)?;
    let [time, raw] = strings[..] else { return Err(unexpected()) };
    let time = Reader::new(time).time().ok_or_else(unexpected)?;
    let at = inner.timing.caller_time(now).unwrap_or(time);
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

/// The bytes of an entry of a log.
const ENTRY: usize = 15;
/// The last byte of a log's header, if corrections follow the entries.
const WITH_TRAILER: u8 = 2;

fn log_words(raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reader::new(raw);
    if value.u8()? != VERSION {
        return None;
    }
    let (fresh_at, blocked, past, count) = (value.time()?, value.u64()?, value.u32()?, value.u32()?);
    let (newest, sum, mut before) = (value.u64()?, value.count()?, value.count()?);
    let form = value.u8()?;
    let stored = (u64::from(past) + u64::from(count)).saturating_sub(1);
    let mut entries = Reader::new(value.bytes(usize::try_from(stored).ok()?.checked_mul(ENTRY)?)?);
    let corrections = if form == WITH_TRAILER { read_corrections(&mut value)? } else { Vec::new() };
    let mut corrections = corrections.into_iter().peekable();
    let (mut words, mut correction) = (Vec::new(), 0);
    for index in 0..stored {
        let (at, sum) = (entries.u64()?, entries.count()?);
        while let Some((_, next)) = corrections.next_if(|(from, _)| u64::from(*from) <= index) {
            correction = next;
        }
        if index >= past.into() {
            let sum = sum.checked_add_signed(correction)?;
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

/// Reads what is added to the sums of a log: an index, and the correction from there on.
fn read_corrections(value: &mut Reader<'_>) -> Option<Vec<(u32, i64)>> {
    // The instant of the entry without a cost, which the entries show as well.
    value.u64()?;
    (0..value.u32()?).map(|_| Some((value.u32()?, value.signed()?))).collect()
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
