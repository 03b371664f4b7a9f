//! Numbers with `_`, a fraction, and a multiplier; sizes.

use tollgate_core::Limit;

use super::Advice;
use crate::diagnostic::quoted;
use crate::nearest::nearest;

/// More digits are never needed, and would overflow.
const MAX_WHOLE: usize = 18;
const MAX_FRACTION: usize = 9;

/// A decimal number: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    digits: u128,
    scale: u32,
}

impl Number {
    /// Returns the product with a unit, if it is a whole number that fits.
    pub(super) fn times(self, unit: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(unit))?;
        let divisor = 10_u128.pow(self.scale);
        if product % divisor != 0 {
            return None;
        }
        u64::try_from(product / divisor).ok()
    }

    /// Whether it is a whole number times this unit.
    pub(super) fn is_whole(self, unit: u64) -> bool {
        let divisor = 10_u128.pow(self.scale);
        ((self.digits % divisor) * (u128::from(unit) % divisor)).is_multiple_of(divisor)
    }

    /// Returns it as a fraction of two whole numbers, in lowest terms.
    pub(super) fn fraction(self) -> (u128, u128) {
        let (mut a, mut b) = (self.digits, 10_u128.pow(self.scale));
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let divisor = a.max(1);
        (self.digits / divisor, 10_u128.pow(self.scale) / divisor)
    }
}

/// Reads the number that `text` starts with, and returns it, how it is written, and what follows without blanks in front.
/// `None`: there is none.
pub(super) fn number(text: &str) -> Result<Option<(Number, &str, &str)>, Advice> {
    let text = text.trim_start();
    let is_number =
        |text: &str| text.trim_start().starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if text.strip_prefix(['-', '−']).is_some_and(is_number) {
        return Err(Advice::new(format!("{} is negative", quoted(text)), "write a number above 0"));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '_' | '.'))).unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    if written.is_empty() {
        return Ok(None);
    }
    let (whole, fraction) = written.split_once('.').unwrap_or((written, "0"));
    let digits = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_digit())
            && part.ends_with(|last: char| last.is_ascii_digit())
            && !part.contains("__")
            && !part.contains('.')
    };
    if !digits(whole) || !digits(fraction) {
        let advice = "write digits such as `1500`, `1_500` or `1.5`";
        return Err(Advice::new(format!("{} is not a number", quoted(written)), advice));
    }
    let whole = whole.replace('_', "");
    let fraction = fraction.replace('_', "");
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    if whole.len() > MAX_WHOLE || fraction.len() > MAX_FRACTION {
        let advice = format!("write at most {MAX_WHOLE} digits, and {MAX_FRACTION} after the point");
        return Err(Advice::new(format!("{} has too many digits", quoted(written)), advice));
    }
    let value = format!("{whole}{fraction}");
    let digits = if value.is_empty() { Ok(0) } else { value.parse::<u128>() };
    let number = digits.ok().zip(u32::try_from(fraction.len()).ok());
    Ok(number.map(|(digits, scale)| (Number { digits, scale }, written, rest.trim_start())))
}

/// A unit of sizes, and of counts without a unit.
const SIZES: [(&str, u64); 10] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const MULTIPLIERS: [(&str, u64); 2] = [("k", 1_000), ("M", 1_000_000)];

/// Returns the number of bytes of a size such as `10MB` or `512KiB`. `kB`, `MB`, `GB` and `TB` are powers of 1,000;
/// `KiB`, `MiB`, `GiB` and `TiB` are powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, Advice> {
    let Some((number, written, unit)) = number(text)? else {
        return Err(Advice::new(
            format!("{} is not a size", quoted(text)),
            "write a number and a unit, such as `10MB`",
        ));
    };
    let unit = unit.trim_end();
    let Some(bytes) = size_unit(unit) else {
        return Err(unknown_size_unit(written, unit));
    };
    match number.times(bytes) {
        Some(0) => Err(Advice::new("a size of zero", "write at least `1B`")),
        Some(size) => Ok(size),
        None if number.is_whole(bytes) => {
            Err(Advice::new(format!("{} is too large", quoted(text.trim())), "write at most `1000000TB`"))
        }
        None => Err(Advice::new(
            format!("{} is not a whole number of bytes", quoted(text.trim())),
            "write fewer digits",
        )),
    }
}

pub(super) fn size_unit(unit: &str) -> Option<u64> {
    SIZES.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes)
}

/// Returns whether a unit is one of sizes, in any spelling.
pub(super) fn is_like_size(unit: &str) -> bool {
    SIZES.iter().any(|(name, _)| name.len() > 1 && name.eq_ignore_ascii_case(unit))
}

pub(super) fn unknown_size_unit(written: &str, unit: &str) -> Advice {
    if unit.is_empty() {
        let advice = format!("add one: `{written}B`, `{written}kB` or `{written}MB`");
        return Advice::new(format!("{} has no unit", quoted(written)), advice);
    }
    let message = format!("unknown unit {} of a size", quoted(unit));
    if is_like_size(unit)
        || matches!(unit, "k" | "K" | "m" | "M" | "g" | "G" | "T" | "Ki" | "Mi" | "Gi" | "Ti")
    {
        let full =
            if unit.len() < 3 && !unit.ends_with(['b', 'B']) { format!("{unit}B") } else { unit.to_owned() };
        let right = SIZES
            .iter()
            .rev()
            .find(|(name, _)| name.eq_ignore_ascii_case(&full))
            .map_or("MB", |(name, _)| name);
        let bits = if unit.ends_with('b') { " A lower-case `b` means bits" } else { "" };
        return Advice::new(message, format!("did you mean `{written}{right}`?{bits}"));
    }
    if super::duration::unit(unit).is_some() {
        return Advice::new(
            format!("{} is a duration, not a size", quoted(&format!("{written}{unit}"))),
            "sizes are in `B`, `kB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`",
        );
    }
    Advice::new(message, "units are `B`, `kB`, `MB`, `GB`, `TB`, `KiB`, `MiB`, `GiB` and `TiB`")
}

/// Returns a count such as `100`, `10_000`, `10k` or `1.5M`: at least 1, at most [`Limit::MAX_COUNT`].
pub(crate) fn count(text: &str) -> Result<u32, Advice> {
    let Some((number, written, unit)) = number(text)? else {
        return Err(Advice::new(
            format!("{} is not a number", quoted(text)),
            "write a whole number, such as `100`",
        ));
    };
    let unit = unit.trim_end();
    count_of(number, written, unit)
}

/// Returns a number with a multiplier as a count.
pub(super) fn count_of(number: Number, written: &str, unit: &str) -> Result<u32, Advice> {
    let multiplier = if unit.is_empty() { Some(1) } else { multiplier(unit) };
    let Some(multiplier) = multiplier else {
        let message = format!("{} is not a number", quoted(&format!("{written}{unit}")));
        if unit == "K" || unit == "m" {
            let right = if unit == "K" { "k" } else { "M" };
            return Err(Advice::new(message, format!("did you mean `{written}{right}`?")));
        }
        if size_unit(unit).is_some() || is_like_size(unit) {
            return Err(Advice::new(
                message,
                "sizes count only where the cost is a number of bytes, as in `10MB/s`",
            ));
        }
        if super::duration::unit(unit).is_some() {
            return Err(Advice::new(message, "this is a duration; write a whole number, such as `100`"));
        }
        return Err(Advice::new(
            message,
            "write a whole number, such as `100`, `10k` (10,000) or `1M` (1,000,000)",
        ));
    };
    match number.times(multiplier) {
        Some(count) => bounded(count),
        None if number.is_whole(multiplier) => Err(too_large()),
        None => {
            let message = format!("{} is not a whole number", quoted(&format!("{written}{unit}")));
            Err(Advice::new(message, "write a whole number, such as `100`"))
        }
    }
}

/// Checks a count.
pub(super) fn bounded(count: u64) -> Result<u32, Advice> {
    match u32::try_from(count) {
        Ok(0) => Err(Advice::new("a count of zero", "write at least 1")),
        Ok(count) if count <= Limit::MAX_COUNT => Ok(count),
        Ok(_) | Err(_) => Err(too_large()),
    }
}

fn too_large() -> Advice {
    Advice::new(
        "the number is too large",
        format!("write at most {}, or count in larger units", Limit::MAX_COUNT),
    )
}

pub(super) fn multiplier(unit: &str) -> Option<u64> {
    MULTIPLIERS.iter().find(|(name, _)| *name == unit).map(|(_, multiplier)| *multiplier)
}

/// Returns "did you mean …", or what there is.
pub(super) fn did_you_mean<'a>(
    word: &str,
    words: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    match nearest(word, words) {
        Some(right) => format!("did you mean `{right}`?"),
        None => otherwise.to_owned(),
    }
}
