//! Plain takes from buckets, which nearly all checks are: the short script, and what its answer means.

use tollgate_core::{
    Action, AlgorithmKind, Charge, Decision, FullAt, Limit, Run, RunVerdict, State, StoreError, Time,
};

use crate::call::Call;
use crate::error;
use crate::key::Names;
use crate::reply::Reply;
use crate::script;
use crate::settings::Settings;

/// Spans below this are exact in a Lua number, and so is any sum of a few of them.
const EXACT: u64 = 1 << 51;

/// What the script is told of a charge.
struct Plain {
    cost: u64,
    room: u64,
    period: u64,
    excess: u64,
    digest: u16,
}

impl Plain {
    /// `None` if the charge is not one for the short script.
    fn of(charge: &Charge<'_>) -> Option<Self> {
        let limit = charge.limit();
        let fits = matches!(
            limit.kind(),
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra
        );
        let takes = matches!(charge.get_action(), Action::Take { max_wait: None });
        let cost = charge.get_cost();
        if !fits || !takes || cost == 0 || cost > limit.capacity() || limit.block_time().is_some() {
            return None;
        }
        let flow = limit.as_flow()?;
        let (count, period) = (flow.count(), flow.period());
        let (token, excess) = (period / count, period % count);
        let room = token.checked_mul(limit.capacity().into()).filter(|room| *room < EXACT)?;
        // An uneven rate counts from the begin of the period, and multiplies by what a period is too long.
        let narrow = excess == 0
            || (period < EXACT
                && period.is_multiple_of(1_000_000_000)
                && period.checked_mul(excess).is_some_and(|product| product < EXACT));
        narrow.then(|| Self { cost: token * u64::from(cost), room, period, excess, digest: flow.digest() })
    }

    #[expect(clippy::cast_precision_loss, reason = "below 2^51, or not looked at")]
    fn write(&self, bytes: &mut Vec<u8>) {
        for number in [self.cost, self.room, self.period, self.excess] {
            bytes.extend_from_slice(&(number as f64).to_le_bytes());
        }
        bytes.extend_from_slice(&self.digest.to_le_bytes());
    }
}

/// Whether all of it can go through the short script.
pub(crate) fn is_plain(runs: &[Run<'_>], settings: &Settings, now: Time) -> bool {
    settings.counts(now).is_none_or(|now| now.nanos() < Time::MAX.nanos() - 2 * EXACT)
        && runs.iter().all(|run| {
            let charges = run.request().charges();
            run.request().id().is_none()
                && !charges.is_empty()
                && charges.len() < 256
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
    let mut input = Vec::with_capacity(4 + 5 * runs.len() + 34 * charges);
    input.extend_from_slice(&settings.margin_millis().to_le_bytes());
    for run in runs {
        let charges = run.request().charges();
        input.extend_from_slice(&run.count().to_le_bytes());
        input.push(u8::try_from(charges.len()).unwrap_or(u8::MAX));
        for charge in charges {
            keys.push(names.state(charge));
            if let Some(plain) = Plain::of(charge) {
                plain.write(&mut input);
            }
        }
    }
    let mut arguments = vec![input];
    if let Some(now) = settings.counts(now) {
        arguments.push(seconds_and_nanos(now));
    }
    Call { script: script::take(), keys, arguments, repeatable: false }
}

#[expect(clippy::cast_precision_loss, reason = "both are far below 2^53")]
fn seconds_and_nanos(now: Time) -> Vec<u8> {
    let (seconds, nanos) = (now.nanos() / 1_000_000_000, now.nanos() % 1_000_000_000);
    [(seconds as f64).to_le_bytes(), (nanos as f64).to_le_bytes()].concat()
}

/// What became of each run.
pub(crate) fn verdicts(runs: &[Run<'_>], reply: &[u8], server: &str) -> Vec<Result<RunVerdict, StoreError>> {
    let mut reply = Reply::new(reply);
    let read = |reply: &mut Reply<'_>| {
        let now = reply.time()?;
        runs.iter()
            .map(|run| {
                let found = run
                    .request()
                    .charges()
                    .iter()
                    .map(|charge| found(reply, charge.limit()))
                    .collect::<Option<Vec<_>>>()?;
                Some(
                    found
                        .into_iter()
                        .collect::<Result<Vec<State>, StoreError>>()
                        .map(|mut states| RunVerdict::replay(run, &mut states, now)),
                )
            })
            .collect::<Option<Vec<_>>>()
    };
    read(&mut reply).unwrap_or_else(|| vec![Err(error::not_understood(server)); runs.len()])
}

/// What became of a single charge.
pub(crate) fn decision(charge: &Charge<'_>, reply: &[u8], server: &str) -> Result<Decision, StoreError> {
    let mut reply = Reply::new(reply);
    let now = reply.time().ok_or_else(|| error::not_understood(server))?;
    let mut state = found(&mut reply, charge.limit()).ok_or_else(|| error::not_understood(server))??;
    Ok(state.apply(charge, now))
}

/// The state that the script found.
fn found(reply: &mut Reply<'_>, limit: &Limit) -> Option<Result<State, StoreError>> {
    match reply.byte()? {
        0 => Some(Ok(State::default())),
        255 => {
            let message = reply.text()?;
            Some(Err(error::of_run(&message, limit.name())))
        }
        _ => {
            let (at, overdrawn, numbers) = (reply.time()?, reply.byte()? != 0, reply.short()?);
            Some(Ok(State::from_flow(FullAt { at, overdrawn, numbers })))
        }
    }
}
