//! Plain takes from buckets, which nearly all checks are: the short scripts, and what their answers mean.

use std::collections::HashSet;

use redis::Value;
use tollgate_core::store::{Run, RunVerdict, State, Tat};
use tollgate_core::{Action, Charge, Decision, Limit, Request, StoreError, Time};

use crate::call::Call;
use crate::error;
use crate::flow_value::{self, double};
use crate::key::Names;
use crate::plain::{Bucket, EXACT, ends_in_time, with_time};
use crate::script;
use crate::settings::Settings;

/// What the scripts are told of a charge.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Plain {
    cost: u64,
    bucket: Bucket,
}

impl Plain {
    /// `None` if the charge is not one for the short scripts.
    fn of(charge: &Charge<'_>) -> Option<Self> {
        let cost = charge.cost();
        let takes = matches!(charge.action(), Action::Take { max_wait: None });
        if !takes || cost == 0 || cost > charge.limit().capacity() {
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

pub(crate) fn any_twice(keys: &[Vec<u8>]) -> bool {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.len() > 1 && !keys.iter().all(|key| seen.insert(key))
}

/// Whether all of it can go through the short scripts.
pub(crate) fn is_plain(runs: &[Run<'_>], settings: &Settings, now: Time) -> bool {
    ends_in_time(settings, now)
        && runs.iter().all(|run| {
            let charges = run.request().charges();
            run.request().idempotency_key().is_none()
                && (run.count() == 1 || charges.len() == 1)
                && charges.iter().enumerate().all(|(index, charge)| {
                    Plain::of(charge).is_some()
                        && !charges[..index].iter().any(|earlier| earlier.same_state(charge))
                })
        })
}

/// The call for runs that [are plain](is_plain).
pub(crate) fn call(runs: &[Run<'_>], names: &Names, settings: &Settings, now: Time) -> Call {
    let charges = runs.iter().map(|run| run.request().charges().len()).sum();
    let mut keys = Vec::with_capacity(charges);
    let mut input = Vec::with_capacity(9 + 8 * runs.len() + 24 * charges);
    input.extend_from_slice(&double(settings.margin_millis().into()));
    // Whether a key comes twice, which shows when all are known.
    input.push(0);
    // The run before and what it says, if the next may be like it, and where it is said how many are.
    let mut last: Option<(u32, Plain, usize)> = None;
    let mut alike = 1_u16;
    for run in runs {
        let charges = run.request().charges();
        keys.extend(charges.iter().map(|charge| names.state(charge)));
        let plain = if let [charge] = charges { Plain::of(charge) } else { None };
        if let (Some(plain), Some((count, same, at))) = (plain, last)
            && (run.count(), plain) == (count, same)
            && alike < u16::MAX
        {
            alike += 1;
            input[at..at + 2].copy_from_slice(&alike.to_le_bytes());
            continue;
        }
        alike = 1;
        input.extend_from_slice(&run.count().to_le_bytes());
        input.extend_from_slice(&u16::try_from(charges.len()).unwrap_or(u16::MAX).to_le_bytes());
        last = plain.map(|plain| (run.count(), plain, input.len()));
        input.extend_from_slice(&alike.to_le_bytes());
        for plain in charges.iter().filter_map(Plain::of) {
            plain.write(&mut input);
        }
    }
    input[8] = u8::from(any_twice(&keys));
    Call { script: script::take(), keys, arguments: with_time(input, settings, now), repeatable: false }
}

/// What became of each run.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &Value, server: &str) -> Vec<Result<RunVerdict, StoreError>> {
    let read = || {
        let Value::Array(parts) = reply else { return None };
        let mut parts = parts.iter();
        let (micros, nanos) = (number(parts.next()?)?, number(parts.next()?)?);
        let now = Time::from_nanos(micros.saturating_mul(1_000).saturating_add(nanos));
        runs.iter()
            .map(|run| {
                let charges = run.request().charges().iter();
                let found = charges
                    .map(|charge| found(parts.next()?, charge.limit(), now))
                    .collect::<Option<Vec<_>>>()?;
                let states = found.into_iter().collect::<Result<Vec<State>, StoreError>>();
                Some(states.map(|mut states| RunVerdict::replay(run, &mut states, now)))
            })
            .collect::<Option<Vec<_>>>()
    };
    read().unwrap_or_else(|| vec![Err(error::not_understood(server)); runs.len()])
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The state that the script found, as it is under the limit's own numbers.
fn found(told: &Value, limit: &Limit, now: Time) -> Option<Result<State, StoreError>> {
    match told {
        Value::BulkString(bytes) => Some(
            match <&[u8; flow_value::SIZE]>::try_from(bytes.as_slice()).ok().and_then(flow_value::read) {
                Some(state) => Ok(State::from_flow(state)),
                None => Err(error::of_run(&String::from_utf8_lossy(bytes), limit.name())),
            },
        ),
        told => {
            let at = Time::from_nanos(now.nanos().saturating_add(number(told)?));
            let digest = limit.as_flow()?.digest();
            Some(Ok(State::from_flow(Tat { at, overdrawn: false, digest })))
        }
    }
}

/// The call for a single charge that nobody needs the time of; `None` if it is not one for the shortest script.
pub(crate) fn single(charge: &Charge<'_>, names: &Names, settings: &Settings, now: Time) -> Option<Call> {
    let plain = Plain::of(charge).filter(|plain| plain.bucket.excess == 0 && ends_in_time(settings, now))?;
    let margin = settings.margin_millis().into();
    let input = [plain.cost, plain.bucket.room, margin, plain.bucket.mark()].map(double).concat();
    let (keys, arguments) = (vec![names.state(charge)], with_time(input, settings, now));
    Some(Call { script: script::check(), keys, arguments, repeatable: false })
}

/// What became of a single charge.
pub(crate) fn decision(charge: &Charge<'_>, reply: &Value, server: &str) -> Result<Decision, StoreError> {
    let Some(away) = number(reply) else {
        // Too far for a number: answered as if there were several.
        let charges = [*charge];
        let mut answers = verdicts(&[Run::new(Request::new(&charges), 1)], reply, server);
        let run = answers.pop().ok_or_else(|| error::not_understood(server))??;
        let told = run.verdicts().first().and_then(|verdict| verdict.decisions().first().copied());
        return told.ok_or_else(|| error::not_understood(server));
    };
    let flow = charge.limit().as_flow().ok_or_else(|| error::not_understood(server))?;
    // At a rate of whole nanoseconds the decision is the same at any time.
    let now = Time::from_nanos(EXACT);
    let state = Tat { at: Time::from_nanos(EXACT + away), overdrawn: false, digest: flow.digest() };
    Ok(flow.apply(state, now, charge).0)
}
