//! Whether every request that one rule applies to is also one of another.

use std::sync::Arc;

use crate::model::{Condition, Missing, Pattern, RuleLimits, RuleModel, Test};

/// Returns whether `wide` applies to every request that `narrow` applies to. It may say no although it does: warnings
/// are about what is certain.
pub(super) fn implies(narrow: &RuleModel, wide: &RuleModel) -> bool {
    wide.when.iter().all(|condition| is_implied(narrow, condition)) && is_counted(narrow, wide)
}

/// Returns whether a request that `narrow` applies to has all that `wide` counts by.
fn is_counted(narrow: &RuleModel, wide: &RuleModel) -> bool {
    let mut needed: Vec<&Arc<str>> = wide.per.iter().map(|name| &name.value).collect();
    if let RuleLimits::Plan(plan) = &wide.limits
        && plan.default.is_none()
    {
        needed.push(&plan.by.value);
    }
    let applies_anyway = match &wide.missing {
        Missing::Skip => matches!(wide.limits, RuleLimits::Unlimited),
        Missing::Deny | Missing::Shared(_) => true,
    };
    applies_anyway || needed.into_iter().all(|name| is_present(narrow, name))
}

/// Returns whether every request that a rule applies to has an attribute.
fn is_present(rule: &RuleModel, name: &str) -> bool {
    let counted = rule.missing == Missing::Skip
        && !matches!(rule.limits, RuleLimits::Unlimited)
        && rule.per.iter().any(|counted| &*counted.value == name);
    let tested = rule.when.iter().any(|condition| {
        &*condition.attribute.value == name
            && match &condition.test {
                Test::OneOf(_) | Test::Present => true,
                Test::NoneOf(_) | Test::Absent => false,
            }
    });
    counted || tested
}

fn is_implied(narrow: &RuleModel, wide: &Condition) -> bool {
    let name = &wide.attribute.value;
    if wide.test == Test::Present {
        return is_present(narrow, name);
    }
    let tests = narrow.when.iter().filter(|condition| condition.attribute.value == *name);
    tests.into_iter().any(|condition| match (&condition.test, &wide.test) {
        (Test::OneOf(narrow), Test::OneOf(wide)) => narrow.iter().all(|one| is_within(one, wide)),
        (Test::NoneOf(narrow), Test::NoneOf(wide)) => wide.iter().all(|one| is_within(one, narrow)),
        // What is one of these texts is none of those.
        (Test::OneOf(narrow), Test::NoneOf(wide)) => narrow.iter().all(|one| {
            matches!(one, Pattern::Exact(text) if wide.iter().all(|other| {
                matches!(other, Pattern::Exact(other) if other != text)
            }))
        }),
        (Test::Absent, Test::Absent | Test::NoneOf(_)) => true,
        (Test::OneOf(_) | Test::NoneOf(_) | Test::Present | Test::Absent, _) => false,
    })
}

/// Returns whether everything that matches `one` matches one of `others`.
fn is_within(one: &Pattern, others: &[Pattern]) -> bool {
    others.iter().any(|other| {
        one == other
            || match (one, other) {
                (Pattern::Exact(text), other) => other.matches(text),
                (Pattern::Prefix(longer), Pattern::Prefix(prefix)) => longer.starts_with(&**prefix),
                (Pattern::Address(address), Pattern::Network(network)) => network.contains(address),
                (Pattern::Network(part), Pattern::Network(network)) => network.contains(part),
                // `/api/v1/**` is within `/api/**`.
                (Pattern::Path(longer), Pattern::Path(wide)) => wide
                    .strip_suffix("/**")
                    .is_some_and(|prefix| !prefix.contains('*') && is_below(longer, prefix)),
                (
                    Pattern::Prefix(_)
                    | Pattern::Path(_)
                    | Pattern::Glob(_)
                    | Pattern::Network(_)
                    | Pattern::Address(_),
                    _,
                ) => false,
            }
    })
}

/// Returns whether a path is `prefix`, or below it.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
