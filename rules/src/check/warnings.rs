//! What a rule file can say without an error, but probably does not mean.

use std::collections::{HashMap, HashSet};

use crate::diagnostic::{Reporter, quoted};
use crate::model::{DescriptorModel, DomainModel, LimitModel, Missing, RuleLimits, RuleModel, Test};
use crate::nearest::nearest;
use crate::source::Span;

use super::implies::implies;
use super::tighter::never_binds;

/// How many rules of one domain are compared with each other. Of a domain with more, only those with equal conditions.
const MAX_COMPARED: usize = 1_000;

/// Reports everything about a domain that its author probably does not mean.
pub(super) fn warn(domain: &DomainModel, reporter: &mut Reporter) {
    for rule in &domain.rules {
        warn_of_rule(rule, reporter);
        warn_within(rule, reporter);
    }
    // Each rule and limit is reported once, whatever the number of others that make it useless.
    let mut reported = HashSet::new();
    for (rule, other) in pairs(&domain.rules) {
        if other.priority > rule.priority && implies(rule, other) {
            if reported.insert(rule.name.span) {
                report_hidden(rule, other, reporter);
            }
        } else {
            warn_across(rule, other, &mut reported, reporter);
        }
    }
    warn_of_wildcards(&domain.descriptors, reporter);
    let mut names = HashSet::new();
    warn_of_names(&domain.descriptors, &mut names, reporter);
    warn_of_replaced(&domain.descriptors, &names, reporter);
}

/// Returns each two rules that are compared, in both orders.
fn pairs(rules: &[RuleModel]) -> Vec<(&RuleModel, &RuleModel)> {
    let mut groups: HashMap<String, Vec<&RuleModel>> = HashMap::new();
    for rule in rules {
        let group = if rules.len() > MAX_COMPARED { format!("{:?}", tests(rule)) } else { String::new() };
        groups.entry(group).or_default().push(rule);
    }
    let mut pairs = Vec::new();
    for group in groups.values() {
        for (index, rule) in group.iter().take(MAX_COMPARED).enumerate() {
            let others = group.iter().take(MAX_COMPARED).enumerate();
            pairs.extend(others.filter(|(other, _)| *other != index).map(|(_, other)| (*rule, *other)));
        }
    }
    pairs
}

fn tests(rule: &RuleModel) -> Vec<(&str, &Test)> {
    rule.when.iter().map(|condition| (&*condition.attribute.value, &condition.test)).collect()
}

fn warn_of_rule(rule: &RuleModel, reporter: &mut Reporter) {
    let name = &rule.name.value;
    if rule.shadow && !matches!(rule.limits, RuleLimits::Unlimited) {
        let message = format!("rule `{name}` is in shadow mode: it counts, and denies nothing");
        reporter.warning(rule.name.span, message, "remove `shadow` to enforce it");
    }
    for condition in &rule.when {
        let attribute = &condition.attribute.value;
        let counted = rule.per.iter().any(|counted| counted.value == *attribute);
        let limited = !matches!(rule.limits, RuleLimits::Unlimited);
        if condition.test == Test::Absent && counted && limited && rule.missing == Missing::Skip {
            let message = format!(
                "rule `{name}` can never apply: it is for requests without `{attribute}`, and counts by `{attribute}`"
            );
            reporter.warning(condition.attribute.span, message, "count by something else, or set `missing`");
        }
    }
}

/// Warns of limits of one rule that another one of it makes useless.
fn warn_within(rule: &RuleModel, reporter: &mut Reporter) {
    let RuleLimits::All(limits) = &rule.limits else { return };
    for (index, loose) in limits.iter().enumerate() {
        let mut others = limits.iter().enumerate().filter(|(other, _)| *other != index);
        // Of two that are equal, only the second is reported.
        let tight = others.find(|(other, tight)| {
            binds_before(loose, tight) && (*other < index || !binds_before(tight, loose))
        });
        if let Some((_, tight)) = tight {
            report_loose(rule, loose, tight, reporter);
        }
    }
}

fn binds_before(loose: &LimitModel, tight: &LimitModel) -> bool {
    loose.cost == tight.cost && never_binds(&loose.limit, &tight.limit)
}

fn report_loose(rule: &RuleModel, loose: &LimitModel, tight: &LimitModel, reporter: &mut Reporter) {
    let message = format!(
        "this limit of rule `{}` never denies anything, because `{}` is tighter",
        rule.name.value,
        tight.limit.name()
    );
    reporter.warning(loose.span, message, "remove it, or correct one of the two");
}

fn report_hidden(rule: &RuleModel, other: &RuleModel, reporter: &mut Reporter) {
    let message = format!(
        "rule `{}` never applies: `{}` has a higher priority, and applies to all of its requests",
        rule.name.value, other.name.value
    );
    reporter.warning(rule.name.span, message, "give it the same priority, or remove it");
}

/// Warns of limits that another rule makes useless, which counts at least the same requests under the same keys.
fn warn_across(rule: &RuleModel, other: &RuleModel, reported: &mut HashSet<Span>, reporter: &mut Reporter) {
    let per = |rule: &RuleModel| rule.per.iter().map(|name| name.value.clone()).collect::<Vec<_>>();
    let (RuleLimits::All(limits), RuleLimits::All(others)) = (&rule.limits, &other.limits) else { return };
    if other.shadow
        || other.priority != rule.priority
        || other.missing != rule.missing
        || per(rule) != per(other)
    {
        return;
    }
    if !implies(rule, other) {
        return;
    }
    for loose in limits {
        let both = |tight: &&LimitModel| binds_before(loose, tight);
        if let Some(tight) = others.iter().find(both)
            // Of two that are equal, only the second is reported.
            && !(implies(other, rule) && binds_before(tight, loose) && loose.span < tight.span)
            && reported.insert(loose.span)
        {
            report_loose(rule, loose, tight, reporter);
        }
    }
}

/// Warns of values with `*` that come after one that matches everything they do: the first of them counts.
fn warn_of_wildcards(nodes: &[DescriptorModel], reporter: &mut Reporter) {
    let mut earlier: HashMap<&str, Vec<&DescriptorModel>> = HashMap::new();
    for node in nodes {
        warn_of_wildcards(&node.descriptors, reporter);
        let Some(value) = node.value.as_deref().filter(|value| value.contains('*')) else { continue };
        let before = earlier.entry(&node.key.value).or_default();
        let hiding =
            before.iter().find(|before| before.value.as_deref().is_some_and(|wide| hides(wide, value)));
        if let Some(hiding) = hiding {
            let message = format!(
                "this descriptor never matches: `{}` comes before it and matches everything that `{value}` does",
                hiding.value.as_deref().unwrap_or_default()
            );
            reporter.warning(node.key.span, message, "move it before the other one");
        }
        // Comparisons are bounded; what is beyond them gets no warning.
        if before.len() < MAX_COMPARED {
            before.push(node);
        }
    }
}

/// Warns of two limits of descriptors with one name: what replaces one of them replaces the other, too.
fn warn_of_names<'d>(nodes: &'d [DescriptorModel], names: &mut HashSet<&'d str>, reporter: &mut Reporter) {
    for node in nodes {
        if let Some(limit) = &node.limit
            && let Some(name) = &limit.name
            && !names.insert(name)
        {
            let message =
                format!("another limit is named `{name}`, too: what replaces one of them replaces both");
            reporter.warning(limit.span, message, "give it another name, unless that is meant");
        }
        warn_of_names(&node.descriptors, names, reporter);
    }
}

/// Warns of `replaces` with a name that no limit has.
fn warn_of_replaced(nodes: &[DescriptorModel], names: &HashSet<&str>, reporter: &mut Reporter) {
    let mut pending: Vec<&DescriptorModel> = nodes.iter().collect();
    let mut found = 0;
    while let Some(node) = pending.pop() {
        pending.extend(&node.descriptors);
        let Some(limit) = &node.limit else { continue };
        for name in limit.replaces.iter().filter(|name| !names.contains(&***name)) {
            found += 1;
            if found > MAX_COMPARED {
                return;
            }
            // Not in the order of a `HashSet`, which differs from run to run.
            let mut near: Vec<&str> =
                if names.len() > MAX_COMPARED { Vec::new() } else { names.iter().copied().collect() };
            near.sort_unstable();
            let advice = match nearest(name, near) {
                Some(right) => format!("did you mean `{right}`?"),
                None => "write the `name` of another `rate_limit` of the domain".to_owned(),
            };
            let message = format!("it replaces {}, and no limit has this name", quoted(name));
            reporter.warning(limit.span, message, advice);
        }
    }
}

/// Returns whether everything that matches `narrow` matches `wide`: for values whose only `*` is at the end.
fn hides(wide: &str, narrow: &str) -> bool {
    let Some(prefix) = wide.strip_suffix('*').filter(|prefix| !prefix.contains('*')) else { return false };
    narrow.split('*').next().is_some_and(|start| start.starts_with(prefix))
}
