//! Plain takes from buckets, which nearly all checks are: encodes them for `bucket_check.lua` and `bucket_takes.lua`,
//! and decodes the replies.

use std::collections::HashSet;

use redis::Value;
use tollgate_core::store::{Run, RunVerdict, State, Tat};
use tollgate_core::{Charge, Decision, Limit, Request, StoreError, Time};

use crate::bucket::{Bucket, EXACT, arguments, is_time_in_range};
use crate::error;
use crate::flow_value::{self, double};
use crate::key::KeyNames;
use crate::script;
use crate::script_call::ScriptCall;
use crate::timing::Timing;

/// A plain take from a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BucketTake {
    /// The cost in units.
    cost: u64,
    bucket: Bucket,
}

impl BucketTake {
    /// Returns the take of a charge. `None` if the `bucket_*.lua` scripts cannot decide it.
    fn of(charge: &Charge<'_>) -> Option<Self> {
        let cost = charge.cost();
        if !charge.action().is_plain_take() || cost == 0 || cost > charge.limit().capacity() {
            return None;
        }
        let bucket = Bucket::of(charge.limit())?;
        Some(Self { cost: bucket.token * u64::from(cost), bucket })
    }

    fn write(&self, input: &mut Vec<u8>) {
        input.extend_from_slice(&double(self.cost));
        self.bucket.write(input);
    }
}

pub(crate) fn has_duplicates(keys: &[Vec<u8>]) -> bool {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.len() > 1 && !keys.iter().all(|key| seen.insert(key))
}

/// Returns whether `bucket_takes.lua` can decide all of these runs.
pub(crate) fn are_plain(runs: &[Run<'_>], timing: &Timing, now: Time) -> bool {
    is_time_in_range(timing, now)
        && runs.iter().all(|run| {
            let charges = run.request().charges();
            run.request().idempotency_key().is_none()
                && (run.count() == 1 || charges.len() == 1)
                && charges.iter().enumerate().all(|(index, charge)| {
                    BucketTake::of(charge).is_some()
                        && !charges[..index].iter().any(|earlier| earlier.same_state(charge))
                })
        })
}

/// Creates the call for runs that [are plain](are_plain).
pub(crate) fn call(runs: &[Run<'_>], names: &KeyNames, timing: &Timing, now: Time) -> ScriptCall {
    let charges = runs.iter().map(|run| run.request().charges().len()).sum();
    let mut keys = Vec::with_capacity(charges);
    let mut input = Vec::with_capacity(9 + 8 * runs.len() + 24 * charges);
    input.extend_from_slice(&double(timing.margin_millis().into()));
    // Whether keys repeat; set once all keys are known.
    input.push(0);
    // The last single-charge run and the position of its repeat count. A run that differs only in its key increments
    // it.
    let mut last: Option<(u32, BucketTake, usize)> = None;
    let mut repeats = 1_u16;
    for run in runs {
        let charges = run.request().charges();
        keys.extend(charges.iter().map(|charge| names.state(charge)));
        let take = if let [charge] = charges { BucketTake::of(charge) } else { None };
        if let (Some(take), Some((count, same, position))) = (take, last)
            && (run.count(), take) == (count, same)
            && repeats < u16::MAX
        {
            repeats += 1;
            input[position..position + 2].copy_from_slice(&repeats.to_le_bytes());
            continue;
        }
        repeats = 1;
        input.extend_from_slice(&run.count().to_le_bytes());
        input.extend_from_slice(&u16::try_from(charges.len()).unwrap_or(u16::MAX).to_le_bytes());
        last = take.map(|take| (run.count(), take, input.len()));
        input.extend_from_slice(&repeats.to_le_bytes());
        for take in charges.iter().filter_map(BucketTake::of) {
            take.write(&mut input);
        }
    }
    input[8] = u8::from(has_duplicates(&keys));
    let arguments = arguments(input, timing, now);
    ScriptCall { script: script::bucket_takes(), keys, arguments, repeatable: false }
}

/// Decodes the verdicts of each run. The script returns the state before each charge; the decisions follow from it.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &Value, server: &str) -> Vec<Result<RunVerdict, StoreError>> {
    let read = || {
        let Value::Array(parts) = reply else { return None };
        let mut parts = parts.iter();
        let (micros, nanos) = (number(parts.next()?)?, number(parts.next()?)?);
        let now = Time::from_nanos(micros.saturating_mul(1_000).saturating_add(nanos));
        runs.iter()
            .map(|run| {
                let charges = run.request().charges().iter();
                let states = charges
                    .map(|charge| state(parts.next()?, charge.limit(), now))
                    .collect::<Option<Vec<_>>>()?;
                let states = states.into_iter().collect::<Result<Vec<State>, StoreError>>();
                Some(states.map(|mut states| RunVerdict::replay(run, &mut states, now)))
            })
            .collect::<Option<Vec<_>>>()
    };
    read().unwrap_or_else(|| vec![Err(error::unexpected_reply(server)); runs.len()])
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Decodes the state before a charge, under the limit's current parameters.
fn state(value: &Value, limit: &Limit, now: Time) -> Option<Result<State, StoreError>> {
    match value {
        Value::BulkString(bytes) => Some(
            match <&[u8; flow_value::SIZE]>::try_from(bytes.as_slice()).ok().and_then(flow_value::read) {
                Some(state) => Ok(State::from_flow(state)),
                None => Err(error::of_run(&String::from_utf8_lossy(bytes), limit.name())),
            },
        ),
        value => {
            let at = Time::from_nanos(now.nanos().saturating_add(number(value)?));
            let digest = limit.as_flow()?.digest();
            Some(Ok(State::from_flow(Tat { at, overdrawn: false, digest })))
        }
    }
}

/// Creates the call for a single charge whose decision needs no time. `None` if `bucket_check.lua` cannot decide it.
pub(crate) fn check_call(
    charge: &Charge<'_>,
    names: &KeyNames,
    timing: &Timing,
    now: Time,
) -> Option<ScriptCall> {
    let take =
        BucketTake::of(charge).filter(|take| take.bucket.excess == 0 && is_time_in_range(timing, now))?;
    let margin = timing.margin_millis().into();
    let input = [take.cost, take.bucket.room, margin, take.bucket.mark()].map(double).concat();
    let (keys, arguments) = (vec![names.state(charge)], arguments(input, timing, now));
    Some(ScriptCall { script: script::bucket_check(), keys, arguments, repeatable: false })
}

/// Decodes the decision on a single charge.
pub(crate) fn decision(charge: &Charge<'_>, reply: &Value, server: &str) -> Result<Decision, StoreError> {
    let Some(ahead) = number(reply) else {
        // Too large for an exact number: the reply has the form of bucket_takes.lua.
        let charges = [*charge];
        let mut results = verdicts(&[Run::new(Request::new(&charges), 1)], reply, server);
        let run = results.pop().ok_or_else(|| error::unexpected_reply(server))??;
        let decision = run.verdicts().first().and_then(|verdict| verdict.decisions().first().copied());
        return decision.ok_or_else(|| error::unexpected_reply(server));
    };
    let flow = charge.limit().as_flow().ok_or_else(|| error::unexpected_reply(server))?;
    // If a unit is a nanosecond, the decision does not depend on the time.
    let now = Time::from_nanos(EXACT);
    let state = Tat { at: Time::from_nanos(EXACT + ahead), overdrawn: false, digest: flow.digest() };
    Ok(flow.apply(state, now, charge).0)
}
