//! What a rule means, in plain sentences.

use std::fmt::Write;
use std::sync::Arc;

use tollgate_core::{AlgorithmKind, Limit};

use crate::identifiers::{Identifiers, KeyForm};
use crate::model::{
    Condition, Cost, DescriptorLimit, DescriptorModel, DescriptorQuota, LimitModel, Missing, OnStoreError,
    Pattern, PlanLimit, PlanModel, RuleLimits, RuleModel, Test,
};
use crate::source::Spanned;
use crate::units::{describe_duration, describe_period};

/// Returns what a rule of the form `rules` means.
pub(super) fn of_rule(rule: &RuleModel, identifiers: &Identifiers) -> String {
    let mut text = requests(&rule.when);
    match &rule.limits {
        RuleLimits::Unlimited => text.push_str(" are not limited"),
        RuleLimits::All(limits) => {
            let limits: Vec<_> = limits.iter().map(limit).collect();
            let _ = write!(text, " may take {}", listed(&limits, "and"));
        }
        RuleLimits::Plan(plan) => {
            let _ = write!(text, " may take what the plan in `{}` allows: {}", plan.by.value, plans(plan));
        }
    }
    let counts = !matches!(rule.limits, RuleLimits::Unlimited);
    if counts {
        text.push_str(&counted(&rule.per, identifiers));
    }
    text.push('.');
    if let Some(missing) = missing(rule) {
        let _ = write!(text, " {missing}.");
    }
    if let Some(policy) = rule.on_store_error.filter(|_| counts) {
        let _ = write!(text, " While the store fails, they are {}.", while_failing(policy));
    }
    if rule.shadow && counts {
        text.push_str(" Nothing is denied: the rule is in shadow mode.");
    }
    if rule.priority != 0 {
        let _ = write!(text, " Where it applies, rules with a priority below {} do not.", rule.priority);
    }
    text
}

/// Returns what a descriptor with a limit means. `path` are the nodes that lead to it, itself included.
pub(super) fn of_descriptor(path: &[&DescriptorModel], limit: &DescriptorLimit) -> String {
    let entries: Vec<_> = path.iter().map(|node| entry(node)).collect();
    let mut text = format!("Descriptors with {}", listed(&entries, "and"));
    match &limit.quota {
        DescriptorQuota::Unlimited => text.push_str(" are not limited"),
        DescriptorQuota::Blocked { .. } => text.push_str(" are denied"),
        DescriptorQuota::Limited(quota) => {
            let _ = write!(text, " may take {}", rate(quota));
            let counted: Vec<_> =
                path.iter().filter(|node| is_counted_by_value(node)).map(|node| key(node)).collect();
            if !counted.is_empty() {
                let _ = write!(text, ", counted per value of {}", listed(&counted, "and"));
            }
        }
    }
    text.push('.');
    if !limit.replaces.is_empty() {
        let names: Vec<_> = limit.replaces.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(text, " Where it applies, {} does not.", listed(&names, "or"));
    }
    let last = path.last();
    if last.is_some_and(|node| node.shadow_mode) {
        text.push_str(" Nothing is denied: it is in shadow mode.");
    }
    if last.is_some_and(|node| node.quota_mode) {
        text.push_str(" A request is denied only if all such quotas of it are exhausted.");
    }
    text
}

fn key(node: &DescriptorModel) -> String {
    format!("`{}`", node.key.value)
}

fn entry(node: &DescriptorModel) -> String {
    match &node.value {
        Some(value) => format!("`{}` = `{value}`", node.key.value),
        None => format!("any `{}`", node.key.value),
    }
}

/// Returns whether requests with different values of this entry have counters of their own.
fn is_counted_by_value(node: &DescriptorModel) -> bool {
    match &node.value {
        None => true,
        Some(value) => value.contains('*') && !node.share_threshold,
    }
}

fn requests(when: &[Condition]) -> String {
    if when.is_empty() {
        return "All requests".to_owned();
    }
    let conditions: Vec<_> = when.iter().map(condition).collect();
    format!("Requests {}", listed(&conditions, "and"))
}

fn condition(condition: &Condition) -> String {
    let name = &condition.attribute.value;
    match &condition.test {
        Test::OneOf(patterns) => format!("whose `{name}` {}", one_of(patterns)),
        Test::NoneOf(patterns) => format!("without a `{name}` that {}", one_of(patterns)),
        Test::Present => format!("with `{name}`"),
        Test::Absent => format!("without `{name}`"),
    }
}

fn one_of(patterns: &[Pattern]) -> String {
    let patterns: Vec<_> = patterns.iter().map(pattern).collect();
    listed(&patterns, "or")
}

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(text) => format!("is `{text}`"),
        Pattern::Prefix(text) => format!("starts with `{text}`"),
        Pattern::Path(text) | Pattern::Glob(text) => format!("matches `{text}`"),
        Pattern::Network(network) => format!("is in {network}"),
        Pattern::Address(address) => format!("is {address}"),
    }
}

fn limit(model: &LimitModel) -> String {
    let mut text = rate(&model.limit);
    match &model.cost {
        Cost::Fixed(1) => {}
        Cost::Fixed(cost) => {
            let _ = write!(text, ", where each counts {}", grouped(*cost));
        }
        Cost::Attribute { name, default } => {
            let _ = write!(text, ", where each counts what `{name}` says, or {}", grouped(*default));
        }
    }
    text
}

fn rate(limit: &Limit) -> String {
    let parameters = limit.parameters();
    let (count, period) = (grouped(limit.count()), describe_duration(limit.period()));
    let per = describe_period(limit.period());
    let with_burst = |how: &str| {
        if limit.capacity() == limit.count() {
            format!("{count} per {per}{how}")
        } else {
            format!("{count} per {per} (up to {} at once){how}", grouped(limit.capacity()))
        }
    };
    let mut text = match limit.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::Gcra | AlgorithmKind::LeakyMeter => with_burst(""),
        AlgorithmKind::IntervalBucket => with_burst(", refilled at the end of each period"),
        AlgorithmKind::SmoothBursty => with_burst(", where each waits for those before it"),
        AlgorithmKind::SmoothWarmingUp => {
            let warm_up = describe_duration(std::time::Duration::from_nanos(parameters.warm_up));
            format!("{count} per {per} after a warm-up of {warm_up}")
        }
        AlgorithmKind::LeakyQueue => {
            let waiting = grouped(limit.capacity().saturating_sub(1));
            format!("{count} per {per}, one after the other, with {waiting} waiting")
        }
        AlgorithmKind::FixedWindow if parameters.anchored => {
            format!("{count} in each window of {period} that starts with its first request")
        }
        AlgorithmKind::FixedWindow => format!("{count} in each window of {period}"),
        AlgorithmKind::SlidingWindow | AlgorithmKind::SlidingCounter => {
            format!("about {count} in any {per}")
        }
        AlgorithmKind::SlidingLog if parameters.count_denied => {
            format!("{count} in any {per}, denied ones included")
        }
        AlgorithmKind::SlidingLog => format!("{count} in any {per}"),
        AlgorithmKind::Concurrency => format!("{count} at the same time, each for at most {period}"),
        other => format!("{count} per {per} ({})", other.name()),
    };
    if parameters.min_gap > 0 {
        let gap = describe_duration(std::time::Duration::from_nanos(parameters.min_gap));
        let _ = write!(text, ", with at least {gap} between two");
    }
    if let Some(block) = limit.block_time() {
        let _ = write!(text, ", and nothing for {} after a denial", describe_duration(block));
    }
    text
}

fn plans(plan: &PlanModel) -> String {
    let plans = plan.plans.iter().map(|(name, quota)| match quota {
        PlanLimit::Unlimited => format!("`{}` any number", name.value),
        PlanLimit::Limited(model) => format!("`{}` {}", name.value, limit(model)),
    });
    let mut text = listed(&plans.collect::<Vec<_>>(), "and");
    if let Some(default) = &plan.default {
        let _ = write!(text, " (without a known plan: `{default}`)");
    }
    text
}

fn counted(per: &[Spanned<Arc<str>>], identifiers: &Identifiers) -> String {
    if per.is_empty() {
        return ", all of them together".to_owned();
    }
    let names = per.iter().map(|name| match identifiers.key_form(&name.value) {
        KeyForm::Plain | KeyForm::Hashed => format!("`{}`", name.value),
        KeyForm::Network { ipv4_prefix, ipv6_prefix }
        | KeyForm::HashedNetwork { ipv4_prefix, ipv6_prefix } => {
            let ipv4 = if ipv4_prefix == 32 { String::new() } else { format!("IPv4 by /{ipv4_prefix}, ") };
            format!("`{}` ({ipv4}IPv6 by /{ipv6_prefix})", name.value)
        }
    });
    format!(", counted per {}", listed(&names.collect::<Vec<_>>(), "and"))
}

fn missing(rule: &RuleModel) -> Option<String> {
    let mut needed: Vec<_> = rule.per.iter().map(|name| format!("`{}`", name.value)).collect();
    if let RuleLimits::Plan(PlanModel { by, default: None, .. }) = &rule.limits {
        needed.push(format!("a plan in `{}`", by.value));
    }
    if needed.is_empty() || matches!(rule.limits, RuleLimits::Unlimited) {
        return None;
    }
    let needed = listed(&needed, "or");
    Some(match &rule.missing {
        Missing::Skip => format!("It does not apply to requests without {needed}"),
        Missing::Deny => format!("Requests without {needed} are denied"),
        Missing::Shared(name) => format!("Requests without {needed} are counted together, as `{name}`"),
    })
}

fn while_failing(policy: OnStoreError) -> String {
    match policy {
        OnStoreError::Allow => "allowed".to_owned(),
        OnStoreError::Deny => "denied".to_owned(),
        OnStoreError::Share { of } => format!("decided by each process, with one of {of} parts of the limit"),
        OnStoreError::AllowFor(time) => format!("allowed for {}, and denied then", describe_duration(time)),
    }
}

/// Returns `a, b and c`.
fn listed(items: &[String], conjunction: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Returns a number with its thousands separated.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
