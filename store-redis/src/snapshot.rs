//! Stored states, read from a server as the words of a snapshot.

use tollgate_core::store::{Export, Snapshot, State};
use tollgate_core::{AlgorithmKind, Key, Limit, StoreError, Time};

use crate::call::Call;
use crate::error;
use crate::flow_value;
use crate::reply::Reply;
use crate::script;
use crate::store::Inner;

/// The version of what is stored, in its first byte.
const VERSION: u8 = 1;

pub(crate) async fn export(
    inner: &Inner,
    limit: &Limit,
    key: Key<'_>,
    now: Time,
) -> Result<Export, StoreError> {
    let name = inner.names.of(limit, key);
    let place = inner.topology.place(&name);
    let is_set = limit.kind() == AlgorithmKind::Concurrency;
    let arguments = vec![if is_set { b"1".to_vec() } else { b"0".to_vec() }];
    let call = Call { script: script::export(), keys: vec![name], arguments, repeatable: true };
    let answer = inner.topology.run(place, &call, inner.deadline()).await?;
    let bytes = answer.bytes()?;
    let time = Reply::new(bytes).time().ok_or_else(|| error::not_understood(answer.server()))?;
    let at = inner.settings.counts(now).unwrap_or(time);
    let raw = &bytes[8..];
    if raw.is_empty() {
        return Ok(Export { state: None, at });
    }
    let corrupt = || error::of_run("it cannot be read", limit.name());
    let (words, fresh_at) = words(limit, raw).ok_or_else(corrupt)?;
    let state = (fresh_at > at).then(|| Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words));
    Ok(Export { state, at })
}

/// The words of a stored state, and from when on it equals a fresh one.
pub(crate) fn words(limit: &Limit, raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    match limit.kind() {
        AlgorithmKind::Concurrency => lease_words(raw),
        AlgorithmKind::SlidingLog => log_words(raw),
        kind if kind.is_flow() => flow_words(limit, raw),
        _ => value_words(limit, raw),
    }
}

fn value_words(limit: &Limit, raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reply::new(raw);
    if value.byte()? != VERSION {
        return None;
    }
    let fresh_at = value.time()?;
    let (mut blocked, mut there) = (0, true);
    if limit.block_time().is_some() {
        blocked = value.word()?;
        there = value.byte()? != 0;
    }
    if !there {
        // A block and nothing else.
        let mut words = State::default().snapshot(limit).words().to_vec();
        *words.last_mut()? = blocked;
        return Some((words, Time::from_nanos(blocked)));
    }
    let mut words = match limit.kind() {
        AlgorithmKind::FixedWindow => vec![value.word()?, value.count()?],
        AlgorithmKind::IntervalBucket => vec![value.count()?, value.word()?, value.byte()?.into()],
        AlgorithmKind::SlidingWindow => vec![value.word()?, value.word()?, value.count()?, value.count()?],
        AlgorithmKind::SmoothWarmingUp => vec![value.word()?, value.word()?, value.word()?],
        AlgorithmKind::SlidingCounter => {
            let (period, newest, parts, length) =
                (value.word()?, value.word()?, value.short()?, value.short()?);
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
    let mut value = Reply::new(raw);
    let state = flow_value::read(value.array()?)?;
    let blocked = if limit.block_time().is_some() { value.word()? } else { 0 };
    let words = vec![state.at.nanos(), state.overdrawn.into(), state.digest.into(), blocked];
    value.is_empty().then_some((words, state.at.max(Time::from_nanos(blocked))))
}

fn log_words(raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reply::new(raw);
    if value.byte()? != VERSION {
        return None;
    }
    let (fresh_at, blocked, past, count) = (value.time()?, value.word()?, value.number()?, value.number()?);
    let (newest, sum, mut before) = (value.word()?, value.count()?, value.count()?);
    value.byte()?;
    let mut words = Vec::new();
    for index in 1..u64::from(past) + u64::from(count) {
        let (at, sum) = (value.word()?, value.count()?);
        if index > past.into() {
            words.extend([at, sum.checked_sub(before)?]);
            before = sum;
        }
    }
    if count > 0 {
        words.extend([newest, sum.checked_sub(before)?]);
    }
    words.push(blocked);
    // Entries that were taken back may have left bytes behind.
    Some((words, fresh_at))
}

fn lease_words(raw: &[u8]) -> Option<(Vec<u64>, Time)> {
    let mut value = Reply::new(raw);
    let (mut words, mut head) = (Vec::new(), None);
    while !value.is_empty() {
        let length = value.short()?;
        let mut member = Reply::new(value.bytes(length.into())?);
        match member.byte()? {
            b'h' => {
                if member.byte()? != VERSION {
                    return None;
                }
                head = Some((member.time()?, member.word()?));
            }
            b'l' => words.extend([member.word()?, member.word()?, member.word()?, member.number()?.into()]),
            // The same leases by name.
            b'n' => {}
            _ => return None,
        }
    }
    let (fresh_at, blocked) = head?;
    words.push(blocked);
    Some((words, fresh_at))
}
