//! How rules of the form `rules` are explained: condition by condition, without the index that matching uses.

use std::borrow::Cow;
use std::collections::HashMap;

use tollgate_core::AlgorithmKind;

use super::{ExplainedCharge, ExplainedRule, RuleOutcome, ShownValue};
use crate::attributes::Attributes;
use crate::identifiers::Identifiers;
use crate::matching::{Effect, Match};
use crate::model::{Condition, Missing, RuleLimits, RuleModel, Test};
use crate::rule_set::Domain;
use crate::units::describe_period;

/// Explains the rules. Also returns how many were left out.
pub(super) fn explain<'m, 'r: 'm, I: Iterator<Item = Match<'m, 'r>>>(
    domain: &Domain,
    attributes: &(impl Attributes + ?Sized),
    matched: impl Fn() -> I,
    unmatched: usize,
) -> (Vec<ExplainedRule>, usize) {
    let highest = matched()
        .filter_map(|one| domain.model.rules.get(one.rule_number()?))
        .map(|rule| rule.priority)
        .max();
    let mut request = Request { attributes, identifiers: &domain.model.identifiers, orders: HashMap::new() };
    let (mut explained, mut failed, mut omitted) = (Vec::new(), 0, 0);
    for (number, rule) in domain.model.rules.iter().enumerate() {
        let outcome = match request.first_failed(rule).or_else(|| request.skipped(rule)) {
            Some(RuleOutcome::Failed { .. }) if failed == unmatched => {
                omitted += 1;
                continue;
            }
            Some(outcome) => {
                failed += usize::from(matches!(outcome, RuleOutcome::Failed { .. }));
                outcome
            }
            None => match highest {
                Some(highest) if highest > rule.priority => {
                    RuleOutcome::Hidden { priority: rule.priority, highest }
                }
                Some(_) | None => {
                    let charges = matched().filter(|one| one.rule_number() == Some(number));
                    RuleOutcome::Applies(charges.map(|one| charge(&one, request.key(rule))).collect())
                }
            },
        };
        explained.push(ExplainedRule { name: rule.name.value.to_string(), outcome });
    }
    (explained, omitted)
}

/// Describes what a match does.
pub(super) fn charge(one: &Match<'_, '_>, key: String) -> ExplainedCharge {
    let meaning = match one.effect() {
        Effect::Limited(limit) if limit.kind() == AlgorithmKind::Concurrency => {
            format!("{} at once", limit.count())
        }
        Effect::Limited(limit) => format!("{} per {}", limit.count(), describe_period(limit.period())),
        Effect::Unlimited => "unlimited".to_owned(),
        Effect::Blocked { .. } => "blocked: 0 requests".to_owned(),
        Effect::Denied => "denied: an attribute that the rule counts by is missing".to_owned(),
    };
    let limit = one.limit().map(|limit| limit.name().to_owned());
    let (cost, shadow, repeated) = (one.cost(), one.shadow(), one.is_repeated());
    ExplainedCharge { limit, meaning, key, cost, shadow, repeated }
}

/// Shows the value of an attribute, unless it is a secret.
pub(super) fn shown(identifiers: &Identifiers, attribute: &str, value: Option<&str>) -> ShownValue {
    match value {
        None => ShownValue::Missing,
        Some(_) if is_hidden(identifiers, attribute) => ShownValue::Hidden,
        Some(value) => ShownValue::Text(value.to_owned()),
    }
}

/// Also attributes from which a secret is taken are hidden.
fn is_hidden(identifiers: &Identifiers, attribute: &str) -> bool {
    let has_secret = |name: &str| {
        let order = identifiers.lookup_order(name);
        identifiers.is_secret(name) && order.iter().any(|source| **source == *attribute)
    };
    identifiers.is_secret(attribute) || identifiers.named.iter().any(|named| has_secret(&named.name))
}

/// A request, and where its attributes are found.
struct Request<'a, A: ?Sized> {
    attributes: &'a A,
    identifiers: &'a Identifiers,
    orders: HashMap<String, Vec<std::sync::Arc<str>>>,
}

impl<'a, A: Attributes + ?Sized> Request<'a, A> {
    fn get(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let (attributes, identifiers) = (self.attributes, self.identifiers);
        let order = self.orders.entry(name.to_owned()).or_insert_with(|| identifiers.lookup_order(name));
        order.iter().find_map(|source| attributes.get(source))
    }

    fn shown(&mut self, name: &str) -> ShownValue {
        let value = self.get(name);
        shown(self.identifiers, name, value.as_deref())
    }

    fn first_failed(&mut self, rule: &RuleModel) -> Option<RuleOutcome> {
        let failed = rule.when.iter().find(|condition| !self.holds(condition))?;
        let attribute = failed.attribute.value.to_string();
        let value = self.shown(&attribute);
        // What a secret is compared with may be one, too.
        let is_shown = !is_hidden(self.identifiers, &attribute);
        let condition = if is_shown { failed.test.to_string() } else { "hidden".to_owned() };
        Some(RuleOutcome::Failed { attribute, condition, value })
    }

    fn holds(&mut self, condition: &Condition) -> bool {
        let value = self.get(&condition.attribute.value);
        let any = |value: &str, patterns: &[crate::model::Pattern]| {
            patterns.iter().any(|pattern| pattern.matches(value))
        };
        match &condition.test {
            Test::OneOf(patterns) => value.is_some_and(|value| any(&value, patterns)),
            Test::NoneOf(patterns) => !value.is_some_and(|value| any(&value, patterns)),
            Test::Present => value.is_some(),
            Test::Absent => value.is_none(),
        }
    }

    /// Returns the attribute of `per` that the request lacks.
    fn missing(&mut self, rule: &RuleModel) -> Option<String> {
        let missing = rule.per.iter().find(|name| self.get(&name.value).is_none());
        missing.map(|name| name.value.to_string())
    }

    fn skipped(&mut self, rule: &RuleModel) -> Option<RuleOutcome> {
        if rule.missing != Missing::Skip {
            return None;
        }
        if let Some(attribute) = self.missing(rule) {
            return Some(RuleOutcome::Skipped { attribute });
        }
        match &rule.limits {
            RuleLimits::Plan(plan) if plan.default.is_none() => {
                let name = self.get(&plan.by.value);
                let is_known = plan.plans.iter().any(|(plan, _)| name.as_deref() == Some(&*plan.value));
                let attribute = plan.by.value.to_string();
                let value = self.shown(&attribute);
                (!is_known).then_some(RuleOutcome::NoPlan { attribute, value })
            }
            RuleLimits::Plan(_) | RuleLimits::Unlimited | RuleLimits::All(_) => None,
        }
    }

    /// Describes whom the limits of a rule count.
    fn key(&mut self, rule: &RuleModel) -> String {
        if let (Some(attribute), Missing::Shared(name)) = (self.missing(rule), &rule.missing) {
            return format!("all requests without {attribute}, as {name:?}");
        }
        if rule.per.is_empty() {
            return "all requests together".to_owned();
        }
        let one = |name: &crate::source::Spanned<std::sync::Arc<str>>| {
            let value = self.shown(&name.value);
            format!("{} {value}", name.value)
        };
        rule.per.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
