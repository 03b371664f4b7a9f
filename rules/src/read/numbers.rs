//! The numbers of a limit: how much per which period, and the burst.

use std::time::Duration;

use super::reader::Reader;
use super::section::{Section, Setting};
use crate::source::Span;
use crate::units::{self, Rate, ShortLimit};

/// The parameters that all forms of a limit have.
pub(super) struct Numbers {
    pub(super) count: u32,
    pub(super) period: Duration,
    pub(super) burst: Option<u32>,
    /// Whether they are numbers of bytes.
    pub(super) bytes: bool,
}

impl From<Rate> for Numbers {
    fn from(Rate { count, period, bytes }: Rate) -> Self {
        Self { count, period, burst: None, bytes }
    }
}

impl From<ShortLimit> for Numbers {
    fn from(ShortLimit { rate, burst }: ShortLimit) -> Self {
        Self { burst, ..Self::from(rate) }
    }
}

impl Reader<'_> {
    /// Reads `rate`, or `count` and `period`, and `burst`.
    pub(super) fn numbers(&mut self, section: &Section<'_>) -> Option<Numbers> {
        let rate = section.get("rate");
        let burst = section.get("burst").map(|setting| (setting, self.amount(&setting)));
        let numbers = match &rate {
            Some(rate) => self.rate_alone(section, rate),
            None => self.count_and_period(section),
        };
        let Some((setting, burst)) = burst else { return numbers };
        let (numbers, (burst, bytes)) = (numbers?, burst?);
        if let (Some(rate), Some(_)) = (&rate, numbers.burst) {
            self.contradiction(rate, &setting, "write the burst once");
            return None;
        }
        if bytes && !numbers.bytes {
            let advice = "write both in bytes, as in `rate: 10MB/s` and `burst: 20MB`, or none";
            self.error(setting.node.span, "the burst is in bytes, but the rate is not", advice);
            return None;
        }
        Some(Numbers { burst: Some(burst), ..numbers })
    }

    fn rate_alone(&mut self, section: &Section<'_>, rate: &Setting<'_>) -> Option<Numbers> {
        let others = ["count", "period"].map(|name| section.get(name));
        for other in others.iter().flatten() {
            self.contradiction(rate, other, "write either `rate`, or `count` and `period`");
        }
        let numbers = self.rate(rate)?;
        others.iter().all(Option::is_none).then_some(numbers)
    }

    /// Reads a rate. A burst in it is as good as one beside it.
    fn rate(&mut self, setting: &Setting<'_>) -> Option<Numbers> {
        let Some(scalar) = setting.scalar() else {
            self.wrong_type(setting);
            return None;
        };
        let numbers = if scalar.text.contains("burst") {
            units::short_limit(&scalar.text).map(Numbers::from)
        } else {
            units::rate(&scalar.text).map(Numbers::from)
        };
        match numbers {
            Ok(numbers) => Some(numbers),
            Err(problem) => {
                self.error(setting.node.span, format!("`rate`: {}", problem.message), problem.advice);
                None
            }
        }
    }

    fn count_and_period(&mut self, section: &Section<'_>) -> Option<Numbers> {
        let count = section.get("count").map(|setting| self.amount(&setting));
        let period = section.get("period").map(|setting| self.duration(&setting));
        let (Some(count), Some(period)) = (count, period) else {
            let missing = match (count, period) {
                (None, None) => "`rate`",
                (None, Some(_)) => "`count`",
                (Some(_), _) => "`period`",
            };
            let is_empty = |name| section.has(name) && section.get(name).is_none();
            let is_misspelt = |name| section.has_misspelt(name);
            if !["rate", "count", "period"].into_iter().any(|name| is_empty(name) || is_misspelt(name)) {
                let span = Span { end: section.span.start, ..section.span };
                let advice = "write `rate: 5/min`, or `count: 5` and `period: 1m`";
                self.error(span, format!("a limit without {missing}"), advice);
            }
            return None;
        };
        let ((count, bytes), period) = (count?, period?);
        Some(Numbers { count, period, burst: None, bytes })
    }
}
