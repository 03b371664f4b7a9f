//! The options of algorithms: which algorithm has which, and which it requires.

use std::time::Duration;

use tollgate_core::AlgorithmKind::{
    self, FixedWindow, Gcra, IntervalBucket, LeakyMeter, LeakyQueue, SlidingCounter, SlidingLog,
    SlidingWindow, SmoothBursty, SmoothWarmingUp, TokenBucket,
};
use tollgate_core::LimitBuilder;

use super::fields::LIMIT;
use super::reader::Reader;
use super::section::{Section, Setting};
use crate::syntax::tree::ScalarKind;

/// An algorithm: the word for it, and how core's builder selects it.
pub(super) struct Algorithm {
    word: &'static str,
    kind: AlgorithmKind,
    select: fn(LimitBuilder, &Options) -> LimitBuilder,
}

const fn algorithm(
    word: &'static str,
    kind: AlgorithmKind,
    select: fn(LimitBuilder, &Options) -> LimitBuilder,
) -> Algorithm {
    Algorithm { word, kind, select }
}

const TOKEN_BUCKET: Algorithm = algorithm("token_bucket", TokenBucket, |limit, _| limit);

const KINDS: [Algorithm; 11] = [
    TOKEN_BUCKET,
    algorithm("gcra", Gcra, |limit, _| limit.gcra()),
    algorithm("leaky_bucket", LeakyMeter, |limit, _| limit.leaky_bucket()),
    algorithm("queue", LeakyQueue, |limit, options| limit.queue(options.waiting.unwrap_or(0))),
    algorithm("fixed_window", FixedWindow, |limit, _| limit.fixed_window()),
    algorithm("sliding_window", SlidingWindow, |limit, _| limit.sliding_window()),
    algorithm("sliding_counter", SlidingCounter, |limit, options| {
        limit.sliding_counter(options.sub_buckets.unwrap_or(0))
    }),
    algorithm("sliding_log", SlidingLog, |limit, _| limit.sliding_log()),
    algorithm("smooth", SmoothBursty, |limit, _| limit.smooth()),
    algorithm("warm_up", SmoothWarmingUp, |limit, options| {
        limit.warm_up(options.warm_up.unwrap_or_default())
    }),
    algorithm("interval_bucket", IntervalBucket, |limit, _| limit.refill_by_interval()),
];

/// Options that not every algorithm has, and the algorithms that do. `true`: they require it.
const OPTIONS: [(&str, bool, &[AlgorithmKind]); 8] = [
    ("burst", false, &[TokenBucket, Gcra, LeakyMeter, SmoothBursty, IntervalBucket]),
    ("waiting", true, &[LeakyQueue]),
    ("anchored", false, &[FixedWindow]),
    ("count_denied", false, &[SlidingLog]),
    ("min_gap", false, &[SlidingLog]),
    ("sub_buckets", true, &[SlidingCounter]),
    ("warm_up", true, &[SmoothWarmingUp]),
    ("cold_factor", false, &[SmoothWarmingUp]),
];

/// The options of a limit's map, but for its burst.
pub(super) struct Options {
    anchored: bool,
    count_denied: bool,
    waiting: Option<u32>,
    sub_buckets: Option<u32>,
    cold_factor: Option<u32>,
    min_gap: Option<Duration>,
    warm_up: Option<Duration>,
    block_for: Option<Duration>,
}

impl Options {
    pub(super) fn apply(
        self,
        algorithm: &Algorithm,
        builder: LimitBuilder,
        burst: Option<u32>,
    ) -> LimitBuilder {
        let mut builder = (algorithm.select)(builder, &self);
        if let Some(burst) = burst {
            builder = builder.burst(burst);
        }
        if self.anchored {
            builder = builder.anchored();
        }
        if self.count_denied {
            builder = builder.count_denied();
        }
        if let Some(gap) = self.min_gap {
            builder = builder.min_gap(gap);
        }
        if let Some(factor) = self.cold_factor {
            builder = builder.cold_factor(factor);
        }
        if let Some(block) = self.block_for {
            builder = builder.block_for(block);
        }
        builder
    }
}

impl Reader<'_> {
    /// Reads the algorithm, and checks that it has every option that is set and every option that it requires.
    pub(super) fn algorithm(&mut self, section: &Section<'_>) -> Option<&'static Algorithm> {
        let setting = section.get("algorithm");
        let algorithm: &'static Algorithm = match &setting {
            Some(setting) => {
                let word = self.word(setting)?;
                KINDS.iter().find(|algorithm| algorithm.word == word)?
            }
            None => &TOKEN_BUCKET,
        };
        let kind = algorithm.kind;
        let mut fits = true;
        for (option, required, kinds) in OPTIONS {
            let has = kinds.contains(&kind);
            if let Some(value) = section.get(option)
                && !has
                && !is_off(&value)
            {
                self.misplaced_option(&value, setting.as_ref(), kinds);
                fits = false;
            }
            if has && required && !section.has(option) {
                let Some(field) = LIMIT.field(option) else { continue };
                let span = setting.as_ref().map_or(section.span, |setting| setting.node.span);
                let message = format!("`algorithm: {}` without `{option}`", word(kind));
                self.error(span, message, format!("add it, such as `{option}: {}`", field.example));
                fits = false;
            }
        }
        fits.then_some(algorithm)
    }

    /// Reads the options, but for the burst.
    pub(super) fn options(&mut self, section: &Section<'_>) -> Option<Options> {
        let flags = ["anchored", "count_denied"].map(|name| match section.get(name) {
            Some(setting) => self.flag(&setting, false),
            None => Some(false),
        });
        let counts = ["waiting", "sub_buckets", "cold_factor"].map(|name| match section.get(name) {
            Some(setting) => self.count(&setting).map(Some),
            None => Some(None),
        });
        let durations = ["min_gap", "warm_up", "block_for"].map(|name| match section.get(name) {
            Some(setting) => self.duration(&setting).map(Some),
            None => Some(None),
        });
        let ([anchored, count_denied], [waiting, sub_buckets, cold_factor], [min_gap, warm_up, block_for]) =
            (flags, counts, durations);
        Some(Options {
            anchored: anchored?,
            count_denied: count_denied?,
            waiting: waiting?,
            sub_buckets: sub_buckets?,
            cold_factor: cold_factor?,
            min_gap: min_gap?,
            warm_up: warm_up?,
            block_for: block_for?,
        })
    }

    fn misplaced_option(
        &mut self,
        option: &Setting<'_>,
        algorithm: Option<&Setting<'_>>,
        kinds: &[AlgorithmKind],
    ) {
        let name = option.field.name;
        let words: Vec<String> = kinds.iter().map(|kind| format!("`{}`", word(*kind))).collect();
        let owners = words.join(", ");
        if let Some(algorithm) = algorithm {
            let advice = format!("remove one of them: `{name}` is for {owners}");
            self.contradiction(option, algorithm, &advice);
        } else {
            let advice = match kinds {
                [kind] => format!("add `algorithm: {}`, or remove it", word(*kind)),
                _ => format!("add an `algorithm` that has it: {owners}"),
            };
            let message = format!("`{name}` does not apply to a token bucket, the default algorithm");
            self.error(option.key, message, advice);
        }
    }
}

/// Returns whether a flag is off, which every algorithm has.
fn is_off(option: &Setting<'_>) -> bool {
    option
        .scalar()
        .is_some_and(|scalar| scalar.kind == ScalarKind::Bool && scalar.text.eq_ignore_ascii_case("false"))
}

/// Returns the word for an algorithm.
pub(super) fn word(kind: AlgorithmKind) -> &'static str {
    KINDS.iter().find(|algorithm| algorithm.kind == kind).map_or("concurrent", |algorithm| algorithm.word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::fields::ALGORITHMS;

    #[test]
    fn every_algorithm_has_a_word() {
        assert_eq!(KINDS.map(|algorithm| algorithm.word), *ALGORITHMS);
        for kind in AlgorithmKind::ALL {
            assert!((word(kind) == "concurrent") == (kind == AlgorithmKind::Concurrency), "{kind:?}");
        }
    }
}
