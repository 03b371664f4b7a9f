//! Limits: the short form, and the map with every option.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{AlgorithmKind, Limit, LimitBuilder, LimitError};

use super::fields::LIMIT;
use super::limit_name;
use super::numbers::Numbers;
use super::options::word;
use super::reader::{Reader, kind_of};
use super::section::Section;
use crate::diagnostic::quoted;
use crate::model::{Cost, LimitModel};
use crate::nearest::nearest;
use crate::source::{Span, Spanned};
use crate::syntax::tree::{Node, Scalar, Value};
use crate::units;

/// What a limit is called, and what it costs if it does not say so itself.
pub(super) struct Belonging<'r> {
    pub(super) domain: &'r str,
    pub(super) rule: &'r str,
    /// The last part of the name, if not the period.
    pub(super) suffix: Option<&'static str>,
    pub(super) cost: &'r Cost,
}

impl Belonging<'_> {
    fn suffix_of(&self, name: Option<&Spanned<Arc<str>>>, period: Duration) -> String {
        match (name, self.suffix) {
            (Some(name), _) => name.value.to_string(),
            (None, Some(suffix)) => suffix.to_owned(),
            (None, None) => units::short_duration(period),
        }
    }
}

/// Returns whether a value is the word `unlimited`.
pub(super) fn is_unlimited(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if &*scalar.text == "unlimited")
}

/// What other programs write for `unlimited`.
const NO_LIMIT: [&str; 8] = ["none", "off", "infinite", "infinity", "inf", "disabled", "no limit", "-1"];

impl Reader<'_> {
    /// Reads a limit in short form or as a map. `owner` is what has it: "`limit`".
    pub(super) fn limit(
        &mut self,
        owner: &str,
        node: &Node,
        belonging: &Belonging<'_>,
    ) -> Option<LimitModel> {
        match &node.value {
            Value::Scalar(scalar) => self.short_limit(owner, scalar, node.span, belonging),
            Value::Map(_) => {
                let section = self.section(&LIMIT, owner, node)?;
                self.limit_map(&section, belonging)
            }
            Value::List(_) => {
                let message = format!("{owner} is {} here", kind_of(node));
                self.error(node.span, message, "write one limit, such as `50/s burst 100`");
                None
            }
        }
    }

    fn short_limit(
        &mut self,
        owner: &str,
        scalar: &Scalar,
        span: Span,
        belonging: &Belonging<'_>,
    ) -> Option<LimitModel> {
        let numbers = match units::short_limit(&scalar.text) {
            Ok(short) => Numbers::from(short),
            Err(problem) => {
                let word = scalar.text.trim().to_ascii_lowercase();
                let advice = if NO_LIMIT.contains(&&*word) || nearest(&word, ["unlimited"]).is_some() {
                    "write `unlimited` for no limit".to_owned()
                } else {
                    problem.advice
                };
                self.error(span, format!("{owner}: {}", problem.message), advice);
                return None;
            }
        };
        let mut builder = Limit::per(numbers.count, numbers.period);
        if let Some(burst) = numbers.burst {
            builder = builder.burst(burst);
        }
        let limit = self.build(builder, &belonging.suffix_of(None, numbers.period), belonging, |_| span)?;
        let cost = belonging.cost.clone();
        self.check_cost(&cost, numbers.bytes, &limit, span)?;
        Some(LimitModel { limit, cost, span })
    }

    fn limit_map(&mut self, section: &Section<'_>, belonging: &Belonging<'_>) -> Option<LimitModel> {
        // All of them before any `?`, so that all errors are reported.
        let numbers = self.numbers(section);
        let algorithm = self.algorithm(section);
        let cost = section.get("cost").map(|setting| self.cost(&setting));
        let name = section.get("name").map(|setting| self.name(&setting));
        let options = self.options(section);
        let numbers = numbers?;
        let builder = options?.apply(algorithm?, Limit::per(numbers.count, numbers.period), numbers.burst);
        let name = match name {
            Some(name) => Some(name?),
            None => None,
        };
        let place = |field: &str| {
            let written = match field {
                "count" | "period" if section.has("rate") => "rate",
                field => field,
            };
            let known = LIMIT.field(written).and_then(|field| section.get(field.name));
            known.map_or(section.span, |setting| setting.node.span)
        };
        let suffix = belonging.suffix_of(name.as_ref(), numbers.period);
        let limit = self.build(builder, &suffix, belonging, place)?;
        let (cost, cost_span) = match cost {
            Some(cost) => (cost?, place("cost")),
            None => (belonging.cost.clone(), section.span),
        };
        self.check_cost(&cost, numbers.bytes, &limit, cost_span)?;
        Some(LimitModel { limit, cost, span: section.span })
    }

    /// Builds a limit. `place` returns where a field was read.
    pub(super) fn build(
        &mut self,
        builder: LimitBuilder,
        suffix: &str,
        belonging: &Belonging<'_>,
        place: impl Fn(&str) -> Span,
    ) -> Option<Limit> {
        match builder.build(&limit_name::of_rule(belonging.domain, belonging.rule, suffix)) {
            Ok(limit) => Some(limit),
            Err(error) => {
                self.limit_error(&error, place(error.field()));
                None
            }
        }
    }

    /// Reports an error of core's builder.
    pub(super) fn limit_error(&mut self, error: &LimitError, span: Span) {
        self.error(span, format!("`{}` {}", error.field(), error.problem()), error.advice());
    }

    /// Checks that the cost is in the unit of the limit, and that a request can pass at all.
    fn check_cost(&mut self, cost: &Cost, bytes: bool, limit: &Limit, span: Span) -> Option<()> {
        if bytes && *cost == Cost::Fixed(1) {
            let advice = "add the attribute that has the number of bytes, such as `cost: content_length`";
            self.error(span, "the limit is in bytes, but a request costs 1", advice);
            return None;
        }
        let (Cost::Fixed(cost) | Cost::Attribute { default: cost, .. }) = *cost;
        // Smooth limiters pass any cost, and make the next caller wait.
        let any_cost = matches!(
            limit.kind(),
            AlgorithmKind::SmoothBursty | AlgorithmKind::SmoothWarmingUp | AlgorithmKind::LeakyQueue
        );
        if any_cost || cost <= limit.capacity() {
            return Some(());
        }
        let capacity = limit.capacity();
        let message =
            format!("a cost of {cost} is more than the {capacity} that can pass at once, so nothing passes");
        let advice =
            format!("lower the cost, or raise the limit: {} {}", word(limit.kind()), quoted(limit.name()));
        self.error(span, message, advice);
        None
    }
}
