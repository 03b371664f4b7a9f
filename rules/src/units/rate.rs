//! Rates: `50/s`, `10000/day`, `100 per minute`, `3/90s`, `10k/h`, `10MB/s`; and limits: `50/s burst 100`.

use std::time::Duration;

use tollgate_core::Limit;

use super::Advice;
use super::duration::{duration, short_duration, unit};
use super::number::{
    Number, bounded, count, count_of, did_you_mean, number, size, size_unit, unknown_size_unit,
};
use super::number::{is_like_size, multiplier};
use crate::diagnostic::quoted;

/// How many per which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: u32,
    pub(crate) period: Duration,
    /// Whether the count is written as a size: what is charged must be a number of bytes.
    pub(crate) bytes: bool,
}

/// A limit in its short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortLimit {
    pub(crate) rate: Rate,
    pub(crate) burst: Option<u32>,
}

const FORM: &str = "write a number and a period, such as `50/s` or `1000/15m`";

/// Returns a rate. The period is a unit (`s`) or a duration (`90s`); `/` may be written `per`. The count may have a
/// multiplier (`k` is 1,000, `M` is 1,000,000) or be a size.
pub(crate) fn rate(text: &str) -> Result<Rate, Advice> {
    let text = text.trim();
    let Some((written_count, written_period)) = split(text) else { return Err(no_period(text)) };
    let (written_count, written_period) = (written_count.trim(), written_period.trim());
    if written_count.is_empty() {
        return Err(Advice::new(format!("{} has no count", quoted(text)), FORM));
    }
    let period = period(written_period, written_count)?;
    let Some((number, written, count_unit)) = number(written_count)? else {
        return Err(Advice::new(format!("{} is not a number", quoted(written_count)), FORM));
    };
    if let Some(bytes) = size_unit(count_unit) {
        let count = bounded(number.times(bytes).map_or_else(|| size(written_count), Ok)?)?;
        return Ok(Rate { count, period, bytes: true });
    }
    if is_like_size(count_unit) {
        return Err(unknown_size_unit(written, count_unit));
    }
    if !number.is_whole(1) && count_unit.is_empty() {
        return Err(fraction(number, written, period));
    }
    let words = ["request", "requests", "req", "reqs", "call", "calls", "token", "tokens", "hits"];
    if multiplier(count_unit).is_none() && words.contains(&count_unit) {
        let message = format!("{} is not a number", quoted(written_count));
        return Err(Advice::new(message, format!("write only the number: `{written}/{written_period}`")));
    }
    let count = count_of(number, written, count_unit)?;
    Ok(Rate { count, period, bytes: false })
}

/// Splits at `/` or `per`.
fn split(text: &str) -> Option<(&str, &str)> {
    let per = || {
        let at = text.find(" per ").or_else(|| text.ends_with(" per").then(|| text.len() - " per".len()))?;
        Some((&text[..at], &text[at + " per".len()..]))
    };
    text.split_once('/').or_else(per)
}

/// Reads the period: a unit or a duration.
fn period(text: &str, count: &str) -> Result<Duration, Advice> {
    if text.is_empty() {
        let message = "the period is missing";
        return Err(Advice::new(message, periods(count)));
    }
    if let Some(nanos) = unit(text) {
        return Ok(Duration::from_nanos(nanos));
    }
    if text.contains('/') {
        return Err(Advice::new(format!("{} is not a period", quoted(text)), FORM));
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.' | '_')) {
        // A unit with an error: read it as one of it.
        let Advice { message, advice } = match duration(&format!("1{text}")) {
            Ok(period) => return Ok(period),
            Err(advice) => advice,
        };
        return Err(Advice::new(message, advice.replace("`1", "`")));
    }
    duration(text)
}

fn periods(count: &str) -> String {
    let count = if count.len() > 20 { "50" } else { count };
    format!("write `{count}/s`, `{count}/min`, `{count}/h` or `{count}/day`")
}

/// Returns what is wrong with a text without `/`.
fn no_period(text: &str) -> Advice {
    let written = match number(text) {
        Err(advice) => return advice,
        Ok(None) => return Advice::new(format!("{} is not a rate", quoted(text)), FORM),
        Ok(Some((_, written, after))) => (written, after),
    };
    match written {
        (count, "") => Advice::new(format!("{} has no period", quoted(text)), periods(count)),
        (count, after) if unit(after).is_some() => {
            let message = format!("{} is a duration, not a rate", quoted(text));
            Advice::new(message, format!("did you mean `{count}/{after}`?"))
        }
        (count, "rps" | "qps" | "tps") => {
            Advice::new(format!("{} is not a rate", quoted(text)), format!("did you mean `{count}/s`?"))
        }
        (count, "rpm" | "qpm" | "tpm") => {
            Advice::new(format!("{} is not a rate", quoted(text)), format!("did you mean `{count}/min`?"))
        }
        (count, after) if size_unit(after).is_some() || multiplier(after).is_some() => {
            Advice::new(format!("{} has no period", quoted(text)), periods(&format!("{count}{after}")))
        }
        (_, _) => Advice::new(format!("{} is not a rate", quoted(text)), FORM),
    }
}

/// Returns what to write for `0.5/s`.
fn fraction(number: Number, written: &str, period: Duration) -> Advice {
    let (count, parts) = number.fraction();
    let message = format!("{} is not a whole number", quoted(written));
    let longer = u32::try_from(parts).ok().and_then(|parts| period.checked_mul(parts));
    let longer = longer.filter(|longer| *longer <= Limit::MAX_PERIOD && count > 0);
    let advice = match longer {
        Some(longer) => {
            format!("write the same rate with a longer period: `{count}/{}`", short_duration(longer))
        }
        None => "write a whole number and a longer period".to_owned(),
    };
    Advice::new(message, advice)
}

/// Returns a limit in its short form: a rate, and optionally `burst` and a count, which is a size if the rate is one.
pub(crate) fn short_limit(text: &str) -> Result<ShortLimit, Advice> {
    let text = text.trim();
    let mut words = words(text);
    let Some((at, word)) = words.find(|(_, word)| *word == "burst") else {
        return match rate(text) {
            Ok(rate) => Ok(ShortLimit { rate, burst: None }),
            Err(advice) => Err(after_rate(text).unwrap_or(advice)),
        };
    };
    let rate = rate(&text[..at])?;
    let burst = text[at + word.len()..].trim();
    if burst.is_empty() {
        return Err(Advice::new(
            "`burst` has no number",
            "write how much may come at once, such as `burst 100`",
        ));
    }
    let burst = if rate.bytes { size(burst).and_then(bounded)? } else { count(burst)? };
    Ok(ShortLimit { rate, burst: Some(burst) })
}

/// Returns what is wrong with a text that starts with a rate.
fn after_rate(text: &str) -> Option<Advice> {
    /// A rate has at most this many words, such as `100 per 1h 30m`.
    const WORDS: usize = 8;
    let (_, word) = words(text).skip(1).take(WORDS).filter(|(at, _)| rate(&text[..*at]).is_ok()).last()?;
    let otherwise = "only `burst` may follow, as in `50/s burst 100`";
    let message = format!("unknown word {} after the rate", quoted(word));
    Some(Advice::new(message, did_you_mean(word, ["burst"], otherwise)))
}

/// Returns the words of a text and where they start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(char::is_whitespace).filter_map(move |part| {
        let start = at;
        at += part.len();
        let word = part.trim_end();
        (!word.is_empty()).then_some((start, word))
    })
}
