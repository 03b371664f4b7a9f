//! Durations: `250ms`, `90s`, `15m`, `1h30m`, `1.5h`, `2d`, `1w`, `15 minutes`.

use std::time::Duration;

use tollgate_core::Limit;

use super::Advice;
use super::number::{did_you_mean, is_like_size, number, size_unit};
use crate::diagnostic::quoted;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;

/// A unit: how it is written in short and in words, its other names, and its length in nanoseconds.
struct Unit {
    short: &'static str,
    word: &'static str,
    others: &'static [&'static str],
    nanos: u64,
}

/// From short to long. Months have 30 days, years 365.
const UNITS: [Unit; 10] = [
    Unit { short: "ns", word: "nanosecond", others: &[], nanos: 1 },
    Unit { short: "us", word: "microsecond", others: &["µs", "μs"], nanos: 1_000 },
    Unit { short: "ms", word: "millisecond", others: &["msec"], nanos: 1_000_000 },
    Unit { short: "s", word: "second", others: &["sec", "secs"], nanos: SECOND },
    Unit { short: "m", word: "minute", others: &["min", "mins"], nanos: 60 * SECOND },
    Unit { short: "h", word: "hour", others: &["hr", "hrs"], nanos: 60 * 60 * SECOND },
    Unit { short: "d", word: "day", others: &[], nanos: DAY },
    Unit { short: "w", word: "week", others: &["wk"], nanos: 7 * DAY },
    Unit { short: "month", word: "month", others: &[], nanos: 30 * DAY },
    Unit { short: "year", word: "year", others: &["yr"], nanos: 365 * DAY },
];

/// Months and years are read, but never written: their length is a convention.
const WRITTEN: usize = 8;

const NAMES: &str =
    "units are `ms`, `s`, `m` (minutes), `h`, `d`, `w`, `month` (30 days) and `year` (365 days)";

/// Returns the length of a unit in nanoseconds. Words are read in upper and lower case, single letters in lower case.
pub(super) fn unit(name: &str) -> Option<u64> {
    let lower = if name.len() < 3 { name.to_owned() } else { name.to_lowercase() };
    let is = |unit: &Unit| {
        let single = lower.strip_suffix('s').unwrap_or(&lower);
        lower == unit.short
            || lower == unit.word
            || single == unit.word
            || unit.others.contains(&lower.as_str())
    };
    UNITS.iter().find(|unit| is(unit)).map(|unit| unit.nanos)
}

/// Returns a duration: one or several numbers with units, the largest first. At least a nanosecond, at most
/// [`Limit::MAX_PERIOD`].
pub(crate) fn duration(text: &str) -> Result<Duration, Advice> {
    let mut rest = text.trim();
    let (mut total, mut last) = (0_u64, u64::MAX);
    if rest.is_empty() {
        return Err(Advice::new("the duration is empty", "write a number and a unit, such as `15m`"));
    }
    while !rest.is_empty() {
        let Some((number, written, after)) = number(rest)? else {
            let message = format!("{} is not a duration", quoted(text.trim()));
            return Err(Advice::new(message, "write a number and a unit, such as `15m` or `1h30m`"));
        };
        let end = after.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let Some(nanos) = unit(name) else { return Err(unknown_unit(written, name)) };
        if nanos >= last {
            let message = format!("the units of {} are out of order", quoted(text.trim()));
            return Err(Advice::new(message, "write each unit once, the largest first: `1h30m`"));
        }
        last = nanos;
        if !number.is_whole(nanos) {
            let message = format!("{} is not a whole number of nanoseconds", quoted(text.trim()));
            return Err(Advice::new(message, "write fewer digits"));
        }
        let part = number.times(nanos).and_then(|part| total.checked_add(part));
        total = part.filter(|total| Duration::from_nanos(*total) <= Limit::MAX_PERIOD).ok_or_else(|| {
            let days = Limit::MAX_PERIOD.as_secs() / (DAY / SECOND);
            Advice::new(format!("{} is too long", quoted(text.trim())), format!("write at most `{days}d`"))
        })?;
        rest = after.trim_start();
    }
    if total == 0 {
        return Err(Advice::new("a duration of zero", "write a duration above zero, such as `1s`"));
    }
    Ok(Duration::from_nanos(total))
}

fn unknown_unit(written: &str, name: &str) -> Advice {
    if name.is_empty() {
        let advice = format!("add one: `{written}s`, `{written}m` (minutes) or `{written}h`");
        return Advice::new(format!("{} has no unit", quoted(written)), advice);
    }
    let whole = quoted(&format!("{written}{name}"));
    if size_unit(name).is_some() || is_like_size(name) {
        return Advice::new(format!("{whole} is a size, not a duration"), NAMES);
    }
    if name.contains('/') {
        return Advice::new(
            format!("{whole} is a rate, not a duration"),
            "write a number and a unit, such as `15m`",
        );
    }
    let names =
        UNITS.iter().flat_map(|unit| [unit.word, unit.short].into_iter().chain(unit.others.iter().copied()));
    let advice = match unit(&name.to_lowercase()) {
        Some(_) => format!("did you mean `{written}{}`?", name.to_lowercase()),
        None => did_you_mean(name, names, NAMES),
    };
    Advice::new(format!("unknown unit {} of a duration", quoted(name)), advice)
}

/// Returns the largest unit, and how many of them, that is exactly this duration.
fn largest_unit(duration: Duration) -> (u128, &'static Unit) {
    let nanos = duration.as_nanos();
    let units = UNITS[..WRITTEN].iter().rev();
    let mut exact = units.filter(|unit| nanos > 0 && nanos.is_multiple_of(u128::from(unit.nanos)));
    match exact.next() {
        Some(unit) => (nanos / u128::from(unit.nanos), unit),
        None => (0, &UNITS[3]),
    }
}

/// Returns a duration in words: "15 minutes", "90 seconds", "1 day".
pub(crate) fn describe_duration(duration: Duration) -> String {
    let (count, unit) = largest_unit(duration);
    format!("{count} {}{}", unit.word, if count == 1 { "" } else { "s" })
}

/// Returns a period as it follows "per": "second", "15 minutes".
pub(crate) fn describe_period(period: Duration) -> String {
    let text = describe_duration(period);
    text.strip_prefix("1 ").unwrap_or(&text).to_owned()
}

/// Returns a duration in its short form: `15m`, `90s`, `1d`.
pub(crate) fn short_duration(duration: Duration) -> String {
    let (count, unit) = largest_unit(duration);
    format!("{count}{}", unit.short)
}
