//! States in raw words, read from a server and written back: export and merge.
//!
//! A merge reads the state, works out the tighter of both here, and replaces it if nobody has changed it meanwhile.

use tokio::time::Instant;
use tollgate_core::{
    AlgorithmKind, ErrorKind, Export, FullAt, Key, Limit, Snapshot, State, StoreError, Time,
};

use crate::call::Call;
use crate::error;
use crate::flow_value;
use crate::reply::Reply;
use crate::script;
use crate::store::Inner;
use crate::topology::Place;

/// How often a merge tries again because somebody else was faster.
const ATTEMPTS: usize = 64;
/// The version of what is stored, in its first byte.
const VERSION: u8 = 1;

pub(crate) async fn export(
    inner: &Inner,
    limit: &Limit,
    key: Key<'_>,
    now: Time,
) -> Result<Export, StoreError> {
    let found = read(inner, limit, key, now, inner.deadline()).await?;
    let state = found.state.filter(|_| found.fresh_at > found.at);
    Ok(Export { state, at: found.at })
}

pub(crate) async fn merge(
    inner: &Inner,
    limit: &Limit,
    key: Key<'_>,
    snapshot: &Snapshot,
    now: Time,
) -> Result<(), StoreError> {
    let theirs = State::from_snapshot(limit, snapshot)?;
    let deadline = inner.deadline();
    for _ in 0..ATTEMPTS {
        let found = read(inner, limit, key, now, deadline).await?;
        let mut state = match &found.state {
            Some(ours) if found.fresh_at > found.at => State::from_snapshot(limit, ours)?,
            _ => State::default(),
        };
        state.merge(limit, &theirs);
        if state.is_fresh(found.at) {
            return Ok(());
        }
        let call = replacement(inner, limit, key, &found, &state);
        let answer = inner.topology.run(found.place, &call, deadline).await?;
        if answer.bytes()? == b"1" {
            return Ok(());
        }
    }
    let message = format!("limit `{}`: the state changes faster than it can be merged", limit.name());
    Err(StoreError::new(ErrorKind::Unavailable, message))
}

/// A state as it was found.
struct Found {
    place: Place,
    at: Time,
    raw: Vec<u8>,
    state: Option<Snapshot>,
    fresh_at: Time,
}

fn is_set(limit: &Limit) -> bool {
    limit.kind() == AlgorithmKind::Concurrency
}

fn mark(limit: &Limit) -> Vec<u8> {
    if is_set(limit) { b"1".to_vec() } else { b"0".to_vec() }
}

async fn read(
    inner: &Inner,
    limit: &Limit,
    key: Key<'_>,
    now: Time,
    deadline: Instant,
) -> Result<Found, StoreError> {
    let name = inner.names.of(limit, key);
    let place = inner.topology.place(&name);
    let call =
        Call { script: script::export(), keys: vec![name], arguments: vec![mark(limit)], repeatable: true };
    let answer = inner.topology.run(place, &call, deadline).await?;
    let bytes = answer.bytes()?;
    let time = Reply::new(bytes).time().ok_or_else(|| error::not_understood(answer.server()))?;
    let at = inner.settings.counts(now).unwrap_or(time);
    let raw = bytes[8..].to_vec();
    if raw.is_empty() {
        return Ok(Found { place, at, raw, state: None, fresh_at: Time::EPOCH });
    }
    let corrupt = || error::of_run("it cannot be read", limit.name());
    let (words, fresh_at) = words(limit, &raw).ok_or_else(corrupt)?;
    let state = Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words);
    Ok(Found { place, at, raw, state: Some(state), fresh_at })
}

fn replacement(inner: &Inner, limit: &Limit, key: Key<'_>, found: &Found, state: &State) -> Call {
    let live = state.fresh_at().since(found.at).as_nanos().div_ceil(1_000_000)
        + u128::from(inner.settings.margin_millis());
    let snapshot = state.snapshot(limit);
    let mut arguments = vec![mark(limit), found.raw.clone(), live.to_string().into_bytes()];
    arguments.extend(values(limit, snapshot.words(), state.fresh_at()));
    // Twice is the same as once: the second finds what the first has written, and says that it changed.
    Call { script: script::replace(), keys: vec![inner.names.of(limit, key)], arguments, repeatable: true }
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
    let words = vec![state.at.nanos(), state.overdrawn.into(), state.numbers.into(), blocked];
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

/// What is stored for the words of a state: a value, or the members of a sorted set.
fn values(limit: &Limit, words: &[u64], fresh_at: Time) -> Vec<Vec<u8>> {
    let (blocked, words) = words.split_last().map_or((0, words), |(blocked, words)| (*blocked, words));
    match limit.kind() {
        AlgorithmKind::Concurrency => lease_members(words, blocked, fresh_at),
        AlgorithmKind::SlidingLog => vec![log_value(words, blocked, fresh_at)],
        kind if kind.is_flow() => vec![flow_value(limit, words, blocked)],
        _ => vec![value(limit, words, blocked, fresh_at)],
    }
}

fn value(limit: &Limit, words: &[u64], blocked: u64, fresh_at: Time) -> Vec<u8> {
    let mut value = Writer(vec![VERSION]);
    value.word(fresh_at.nanos());
    if limit.block_time().is_some() {
        value.word(blocked);
        value.0.push(1);
    }
    match (limit.kind(), words) {
        (AlgorithmKind::FixedWindow, &[start, used]) => {
            value.word(start);
            value.count(used);
        }
        (AlgorithmKind::IntervalBucket, &[missing, since, overdrawn]) => {
            value.count(missing);
            value.word(since);
            value.byte(overdrawn);
        }
        (AlgorithmKind::SlidingWindow, &[period, start, previous, current]) => {
            value.word(period);
            value.word(start);
            value.count(previous);
            value.count(current);
        }
        (AlgorithmKind::SlidingCounter, [period, newest, counts @ ..]) => {
            value.word(*period);
            value.word(*newest);
            value.short(counts.len());
            value.short(counts.len());
            for count in counts {
                value.count(*count);
            }
        }
        (AlgorithmKind::SmoothWarmingUp, words) => value.words(words),
        // Core makes no other words.
        _ => {}
    }
    value.0
}

fn flow_value(limit: &Limit, words: &[u64], blocked: u64) -> Vec<u8> {
    let [at, overdrawn, digest] = words.first_chunk().copied().unwrap_or_default();
    let numbers = u16::try_from(digest).unwrap_or_default();
    let state = FullAt { at: Time::from_nanos(at), overdrawn: overdrawn == 1, numbers };
    let mut value = Writer(flow_value::write(state).to_vec());
    if limit.block_time().is_some() {
        value.word(blocked);
    }
    value.0
}

fn log_value(words: &[u64], blocked: u64, fresh_at: Time) -> Vec<u8> {
    let (entries, _) = words.as_chunks::<2>();
    let mut value = Writer(vec![VERSION]);
    value.word(fresh_at.nanos());
    value.word(blocked);
    value.number(0);
    value.number(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    let sum = entries.iter().map(|[_, cost]| cost).sum();
    let [newest, cost] = entries.last().copied().unwrap_or_default();
    value.word(newest);
    value.count(sum);
    value.count(0);
    value.byte(u64::from(cost > 0));
    let mut sum = 0;
    for [at, cost] in entries.iter().take(entries.len().saturating_sub(1)) {
        sum += cost;
        value.word(*at);
        value.count(sum);
    }
    value.0
}

fn lease_members(words: &[u64], blocked: u64, fresh_at: Time) -> Vec<Vec<u8>> {
    let (leases, _) = words.as_chunks::<4>();
    let mut header = Writer(vec![b'h', VERSION]);
    header.word(fresh_at.nanos());
    header.word(blocked);
    header.word(leases.iter().map(|[expires, ..]| *expires).max().unwrap_or(0));
    header.count(leases.iter().map(|[.., places]| places).sum());
    let mut members = vec![header.0];
    for &[expires, high, low, places] in leases {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let (mut in_order, mut by_name) = (Writer(vec![b'l']), Writer(vec![b'n']));
        in_order.words(&[expires, high, low]);
        by_name.words(&[high, low, expires]);
        in_order.number(places);
        by_name.number(places);
        members.extend([in_order.0, by_name.0]);
    }
    members
}

/// Writes as `struct.pack` does.
struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u64) {
        self.0.push(u8::try_from(byte).unwrap_or(u8::MAX));
    }

    fn short(&mut self, number: usize) {
        self.0.extend_from_slice(&u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
    }

    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_be_bytes());
    }

    fn words(&mut self, words: &[u64]) {
        for word in words {
            self.word(*word);
        }
    }

    /// Exact in a Lua number, like every count.
    fn count(&mut self, count: u64) {
        self.0.extend_from_slice(&count.min((1 << 53) - 1).to_be_bytes()[1..]);
    }
}
