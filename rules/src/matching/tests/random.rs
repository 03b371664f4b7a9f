//! Random rules of the form `rules` and requests, from few texts so that things coincide, compared with a slow model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;

use super::{Compiled, domain, limit_model, rule};
use crate::matching::Matched;
use crate::matching::glob::tests::slow as slow_glob;
use crate::matching::path::tests::slow as slow_path;
use crate::model::{Condition, Cost, Missing, Pattern, PlanLimit, RuleLimits, RuleModel, Test};

const NAMES: [&str; 4] = ["path", "ip", "user", "x"];
const VALUES: [&str; 12] =
    ["a", "b", "ab", "", "/a", "/a/b", "/a/", "10.0.0.1", "10.0.1.1", "::1", "free", "pro"];

pub(crate) type Request = BTreeMap<String, String>;

pub(crate) fn requests() -> impl Strategy<Value = Request> {
    prop::collection::btree_map(
        select(&NAMES[..]).prop_map(str::to_owned),
        select(&VALUES[..]).prop_map(str::to_owned),
        0..5,
    )
}

fn patterns() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        select(&VALUES[..]).prop_map(|text| Pattern::Exact(text.into())),
        select(vec!["", "a", "/", "/a"]).prop_map(|text: &str| Pattern::Prefix(text.into())),
        select(vec!["/*", "/a/**", "/**/b", "/a*", "**", "/*/*"])
            .prop_map(|text: &str| Pattern::Path(text.into())),
        select(vec!["*", "a*b", "*b", "*a*"]).prop_map(|text: &str| Pattern::Glob(text.into())),
        select(vec!["10.0.0.0/8", "10.0.0.0/24", "::/0", "0.0.0.0/0"])
            .prop_map(|text: &str| Pattern::Network(text.parse().expect("a network"))),
        select(vec!["10.0.0.1", "::ffff:10.0.0.1", "::1"])
            .prop_map(|text: &str| Pattern::Address(text.parse().expect("an address"))),
    ]
}

fn conditions() -> impl Strategy<Value = Condition> {
    let lists = || prop::collection::vec(patterns(), 1..4);
    let tests = prop_oneof![
        4 => lists().prop_map(Test::OneOf),
        1 => lists().prop_map(Test::NoneOf),
        1 => Just(Test::Present),
        1 => Just(Test::Absent),
    ];
    (select(&NAMES[..]), tests).prop_map(|(name, test)| Condition { attribute: super::text(name), test })
}

fn limits(name: &str) -> impl Strategy<Value = RuleLimits> + use<> {
    let plans = [("free", Some("plan-free")), ("pro", None)];
    prop_oneof![
        1 => Just(RuleLimits::Unlimited),
        6 => Just(RuleLimits::All(vec![limit_model(name, Cost::Fixed(1))])),
        1 => Just(rule("x").plan("x", None, &plans).limits),
        1 => Just(rule("x").plan("x", Some("free"), &plans).limits),
    ]
}

fn one_rule(index: usize) -> impl Strategy<Value = RuleModel> {
    let missing = select(vec![Missing::Skip, Missing::Deny, Missing::Shared("all".into())]);
    let per = prop::collection::vec(select(&NAMES[..]), 0..3);
    let name = format!("r{index}");
    let conditions = prop::collection::vec(conditions(), 0..4);
    (conditions, per, missing, limits(&name), -1..2, any::<bool>()).prop_map(
        move |(when, per, missing, limits, priority, shadow)| {
            let model = rule(&name).per(&per).missing(missing).limits(limits).priority(priority);
            RuleModel { when, shadow, ..model }
        },
    )
}

pub(crate) fn rule_lists() -> impl Strategy<Value = Vec<RuleModel>> {
    (0..12_usize).prop_flat_map(|count| (0..count).map(one_rule).collect::<Vec<_>>())
}

fn slow_pattern(pattern: &Pattern, value: &str) -> bool {
    let address = || value.parse::<std::net::IpAddr>().ok();
    match pattern {
        Pattern::Exact(text) => **text == *value,
        Pattern::Prefix(text) => value.starts_with(&**text),
        Pattern::Path(text) => slow_path(text, value),
        Pattern::Glob(text) => slow_glob(text.as_bytes(), value.as_bytes()),
        Pattern::Network(network) => address().is_some_and(|address| network.contains(&address)),
        Pattern::Address(one) => address().is_some_and(|address| one.to_canonical() == address),
    }
}

fn slow_condition(condition: &Condition, request: &Request) -> bool {
    let value = request.get(&*condition.attribute.value);
    let any = |patterns: &[Pattern]| {
        value.is_some_and(|value| patterns.iter().any(|pattern| slow_pattern(pattern, value)))
    };
    match &condition.test {
        Test::OneOf(patterns) => any(patterns),
        Test::NoneOf(patterns) => !any(patterns),
        Test::Present => value.is_some(),
        Test::Absent => value.is_none(),
    }
}

/// What a rule does: its name, and the limit with the values of the key, or what it does instead.
type Done = (String, Result<(String, Vec<String>), &'static str>);

/// Returns `None` if the rule does not apply.
fn slow_rule(rule: &RuleModel, request: &Request) -> Option<Done> {
    let name = rule.name.value.to_string();
    let done = |done| Some((name.clone(), done));
    if !rule.when.iter().all(|condition| slow_condition(condition, request)) {
        return None;
    }
    let values: Option<Vec<String>> =
        rule.per.iter().map(|name| request.get(&*name.value).cloned()).collect();
    let values = match (values, &rule.missing) {
        (Some(values), _) => values,
        (None, Missing::Skip) => return None,
        (None, Missing::Deny) => return done(Err("denied")),
        (None, Missing::Shared(shared)) => vec![format!("shared {shared}")],
    };
    let limit = match &rule.limits {
        RuleLimits::Unlimited => return done(Err("unlimited")),
        RuleLimits::All(limits) => &limits[0],
        RuleLimits::Plan(plan) => {
            let find = |name: &str| plan.plans.iter().find(|(plan, _)| *plan.value == *name);
            let found = request.get(&*plan.by.value).and_then(|name| find(name));
            match (found.or_else(|| find(plan.default.as_deref()?)), &rule.missing) {
                (Some((_, PlanLimit::Unlimited)), _) => return done(Err("unlimited")),
                (Some((_, PlanLimit::Limited(limit))), _) => limit,
                (None, Missing::Skip) => return None,
                (None, Missing::Deny | Missing::Shared(_)) => return done(Err("denied")),
            }
        }
    };
    done(Ok((limit.limit.name().to_owned(), values)))
}

fn slow_rules(rules: &[RuleModel], request: &Request) -> Vec<Done> {
    let applied: Vec<_> =
        rules.iter().filter_map(|rule| Some((rule.priority, slow_rule(rule, request)?))).collect();
    let highest = applied.iter().map(|(priority, _)| *priority).max();
    applied.into_iter().filter(|(priority, _)| Some(*priority) == highest).map(|(_, done)| done).collect()
}

/// Reads an entity.
pub(super) fn values(entity: &[u8], count: usize) -> Vec<String> {
    let text = std::str::from_utf8(entity).expect("text");
    if let Some(name) = text.strip_prefix(r"\*") {
        return vec![format!("shared {name}")];
    }
    if count == 0 {
        return Vec::new();
    }
    // The values of these tests need no escapes but that of the empty one.
    text.split('|').map(|value| if value == r"\e" { String::new() } else { value.to_owned() }).collect()
}

pub(super) fn done(matched: &Matched<'_>, rules: &[RuleModel]) -> Vec<Done> {
    use crate::matching::Effect;
    let one = |one: crate::matching::Match<'_, '_>| {
        let rule = rules.iter().find(|rule| *rule.name.value == *one.name()).expect("a rule");
        let done = match one.effect() {
            Effect::Limited(limit) => {
                Ok((limit.name().to_owned(), values(one.key().entity(), rule.per.len())))
            }
            Effect::Unlimited => Err("unlimited"),
            Effect::Denied => Err("denied"),
            Effect::Blocked { .. } => Err("blocked"),
        };
        (one.name().to_owned(), done)
    };
    matched.iter().map(one).collect()
}

/// Addresses are written as networks: no part of what is compared here.
fn plain(mut model: crate::model::DomainModel) -> crate::model::DomainModel {
    (model.identifiers.ip.ipv4_prefix, model.identifiers.ip.ipv6_prefix) = (32, 128);
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rules_match_as_the_slow_model(rules in rule_lists(), requests in prop::collection::vec(requests(), 1..8)) {
        let compiled = Compiled::new(plain(domain(rules.clone(), Vec::new())));
        for request in &requests {
            let matched = compiled.match_attributes(request);
            prop_assert_eq!(done(&matched, &rules), slow_rules(&rules, request), "{:?}", request);
            let shadowed = |name: &str| rules.iter().any(|rule| *rule.name.value == *name && rule.shadow);
            for one in matched.iter() {
                prop_assert_eq!(one.shadow(), shadowed(one.name()));
            }
            let (charges, shadow) = (matched.charges().len(), matched.shadow_charges().len());
            prop_assert_eq!(charges + shadow, matched.iter().filter(|one| one.limit().is_some()).count());
        }
    }
}
