//! What each field of the form `rules` means.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use tollgate_core::{AlgorithmKind, Limit};

use super::{Compiled, charged, domain, limit_model, named, pairs, rule};
use crate::attributes::Attributes;
use crate::matching::Effect;
use crate::model::{Cost, LimitModel, Missing, OnStoreError, Pattern, RuleLimits, Test};
use crate::rule_set::RuleSet;

const NONE: [(&str, &str); 0] = [];

#[test]
fn rule_sets_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<RuleSet>();
}

#[test]
fn domains_are_found_by_name() {
    let mut other = domain(vec![rule("b")], Vec::new());
    other.name = super::text("bank");
    let set = RuleSet::compile(vec![domain(vec![rule("a")], Vec::new()), other]);
    let names: Vec<_> = set.domains().map(crate::rule_set::Domain::name).collect();
    assert_eq!(names, ["bank", "shop"]);
    let matched = set.domain("bank").expect("compiled").match_attributes(&NONE);
    assert_eq!(charged(&matched), pairs(&[("b", "")]));
    assert_eq!(matched.charges()[0].key().namespace(), b"bank");
    assert!(set.domain("elsewhere").is_none());
}

#[test]
fn all_conditions_must_hold() {
    let rules = Compiled::rules(vec![
        rule("both").when_is("path", "/a").when_is("method", "GET"),
        rule("not").when_is("path", "/a").when("method", Test::NoneOf(vec![Pattern::Exact("GET".into())])),
        rule("absent").when_is("path", "/a").when("method", Test::Absent),
        rule("present").when("method", Test::Present),
    ]);
    let names = |attributes: &[(&str, &str)]| charged(&rules.match_attributes(attributes));
    assert_eq!(names(&[("path", "/a"), ("method", "GET")]), pairs(&[("both", ""), ("present", "")]));
    assert_eq!(names(&[("path", "/a"), ("method", "PUT")]), pairs(&[("not", ""), ("present", "")]));
    assert_eq!(names(&[("path", "/a")]), pairs(&[("not", ""), ("absent", "")]));
    assert_eq!(names(&[("path", "/b")]), []);
}

#[test]
fn every_kind_of_pattern_is_indexed() {
    let one = |pattern| Test::OneOf(vec![pattern]);
    let rules = Compiled::rules(vec![
        rule("exact").when("path", one(Pattern::Exact("/api/x".into()))),
        rule("path").when("path", one(Pattern::Path("/api/**".into()))),
        rule("prefix").when("path", one(Pattern::Prefix("/ap".into()))),
        rule("glob").when("path", one(Pattern::Glob("*x".into()))),
        rule("network").when("ip", one(Pattern::Network("10.0.0.0/8".parse().expect("a network")))),
        rule("address").when("ip", one(Pattern::Address("10.1.1.1".parse().expect("an address")))),
    ]);
    let matched = rules.match_attributes(&[("path", "/api/x"), ("ip", "10.1.1.1")]);
    let names: Vec<_> = matched.iter().map(|one| one.name()).collect();
    assert_eq!(names, ["exact", "path", "prefix", "glob", "network", "address"]);
    assert!(rules.match_attributes(&[("path", "/y"), ("ip", "11.1.1.1")]).is_empty());
}

#[test]
fn long_lists_are_compared_like_short_ones() {
    let patterns = |count| (0..count).map(|n| Pattern::Exact(format!("v{n}").into())).collect::<Vec<_>>();
    for count in [1, 8, 9, 100] {
        let rules = Compiled::rules(vec![
            rule("one").when_is("path", "/").when("x", Test::OneOf(patterns(count))),
            rule("none").when_is("path", "/").when("x", Test::NoneOf(patterns(count))),
        ]);
        for n in 0..=count {
            let x = format!("v{n}");
            let expected = if n < count { "one" } else { "none" };
            let matched = rules.match_attributes(&[("path", "/"), ("x", &x)]);
            assert_eq!(charged(&matched), pairs(&[(expected, "")]), "{n} of {count}");
        }
    }
}

#[test]
fn a_rule_that_several_patterns_find_is_charged_once() {
    let patterns = vec![Pattern::Exact("/a".into()), Pattern::Prefix("/".into()), Pattern::Path("/*".into())];
    let rules = Compiled::rules(vec![rule("a").when("path", Test::OneOf(patterns))]);
    assert_eq!(rules.match_attributes(&[("path", "/a")]).charges().len(), 1);
}

#[test]
fn a_key_has_the_values_in_order() {
    let rules = Compiled::rules(vec![rule("a").per(&["user", "model"])]);
    let matched = rules.match_attributes(&[("model", "m|1"), ("user", "")]);
    assert_eq!(charged(&matched), pairs(&[("a", r"\e|m\|1")]));
}

#[test]
fn a_missing_attribute_skips_the_rule_or_denies_or_shares_a_counter() {
    let rules = Compiled::rules(vec![
        rule("skip").per(&["user"]),
        rule("deny").per(&["user"]).missing(Missing::Deny),
        rule("share").per(&["user"]).missing(Missing::Shared("anonymous".into())),
    ]);
    let matched = rules.match_attributes(&NONE);
    assert_eq!(charged(&matched), pairs(&[("share", r"\*anonymous")]));
    assert!(matched.denied());
    let denied: Vec<_> = matched.iter().filter(crate::matching::Match::is_denied).collect();
    assert_eq!((denied.len(), denied[0].name(), denied[0].effect()), (1, "deny", Effect::Denied));
    let matched = rules.match_attributes(&[("user", r"\*anonymous")]);
    assert_eq!(matched.charges().len(), 3);
    assert!(!matched.denied());
    assert!(!charged(&matched).contains(&("share".into(), r"\*anonymous".into())));
}

#[test]
fn a_denial_in_shadow_mode_denies_nothing() {
    let mut denying = rule("deny").per(&["user"]).missing(Missing::Deny);
    denying.shadow = true;
    let rules = Compiled::rules(vec![denying]);
    let matched = rules.match_attributes(&NONE);
    assert!(!matched.denied() && !matched.is_empty());
}

#[test]
fn a_named_attribute_is_found_in_its_sources() {
    let mut model = domain(vec![rule("a").per(&["user"])], Vec::new());
    model.identifiers.named = vec![named("user", &["claim.sub", "header.x-user"])];
    let rules = Compiled::new(model);
    for (attributes, entity) in [
        (vec![("header.x-user", "h")], "h"),
        (vec![("header.x-user", "h"), ("claim.sub", "c")], "c"),
        (vec![("header.x-user", "h"), ("claim.sub", "c"), ("user", "u")], "u"),
    ] {
        assert_eq!(charged(&rules.match_attributes(&attributes)), pairs(&[("a", entity)]));
    }
    assert!(rules.match_attributes(&NONE).is_empty());
}

#[test]
fn secrets_are_not_part_of_keys() {
    let rules = Compiled::rules(vec![rule("a").per(&["api_key"])]);
    let matched = rules.match_attributes(&[("api_key", "sk-123")]);
    let [(_, entity)] = &charged(&matched)[..] else { panic!("one charge") };
    assert!(entity.len() == 32 && !entity.contains("sk-123"), "{entity}");
}

#[test]
fn plans_are_selected_by_an_attribute() {
    let plans = [("free", Some("p-free")), ("pro", Some("p-pro")), ("staff", None)];
    let rules = Compiled::rules(vec![rule("tiers").per(&["user"]).plan("plan", Some("free"), &plans)]);
    for (plan, limit) in
        [(Some("free"), "p-free"), (Some("pro"), "p-pro"), (Some("gold"), "p-free"), (None, "p-free")]
    {
        let mut attributes = vec![("user", "u")];
        attributes.extend(plan.map(|plan| ("plan", plan)));
        assert_eq!(charged(&rules.match_attributes(&attributes)), pairs(&[(limit, "u")]), "{plan:?}");
    }
    let staff = rules.match_attributes(&[("user", "u"), ("plan", "staff")]);
    assert_eq!(staff.iter().map(|one| one.effect()).collect::<Vec<_>>(), [Effect::Unlimited]);
}

#[test]
fn a_request_without_a_plan_is_handled_as_missing_says() {
    let denied = |missing: Missing| {
        let tiers = rule("tiers").missing(missing).plan("plan", None, &[("free", Some("p"))]);
        let rules = Compiled::rules(vec![tiers]);
        let matched = rules.match_attributes(&[("plan", "gold")]);
        assert!(matched.charges().is_empty());
        (matched.is_empty(), matched.denied())
    };
    assert_eq!(denied(Missing::Skip), (true, false));
    assert_eq!(denied(Missing::Deny), (false, true));
    assert_eq!(denied(Missing::Shared("all".into())), (false, true));
}

#[test]
fn only_the_highest_priority_that_applies_counts() {
    let rules = Compiled::rules(vec![
        rule("everybody"),
        rule("staff").when_is("group", "staff").limits(RuleLimits::Unlimited).priority(2),
        rule("partner").per(&["partner"]).priority(1),
        rule("also").when("partner", Test::Present).priority(1),
    ]);
    assert_eq!(charged(&rules.match_attributes(&NONE)), pairs(&[("everybody", "")]));
    let partner = [("partner", "p"), ("group", "guests")];
    assert_eq!(charged(&rules.match_attributes(&partner)), pairs(&[("partner", "p"), ("also", "")]));
    let staff = rules.match_attributes(&[("partner", "p"), ("group", "staff")]);
    assert_eq!(
        staff.iter().map(|one| (one.name(), one.effect())).collect::<Vec<_>>(),
        [("staff", Effect::Unlimited)]
    );
    assert!(staff.charges().is_empty() && !staff.denied());
}

#[test]
fn a_rule_has_several_limits_and_options() {
    let concurrent = Limit::concurrent(3).build("exports/concurrent").expect("valid");
    let mut exports = rule("exports").per(&["user"]).limits(RuleLimits::All(vec![
        limit_model("exports/1s", Cost::Attribute { name: "tokens".into(), default: 7 }),
        LimitModel { limit: concurrent, ..limit_model("x", Cost::Fixed(1)) },
    ]));
    exports.on_store_error = Some(OnStoreError::Deny);
    exports.shadow = true;
    let rules = Compiled::rules(vec![rule("enforced"), exports]);
    for (tokens, cost) in [("40", 40), ("many", 7)] {
        let matched = rules.match_attributes(&[("user", "u"), ("tokens", tokens)]);
        let shadow = matched.shadow_charges();
        assert_eq!(charged(&matched), pairs(&[("enforced", "")]));
        assert_eq!(shadow.iter().map(tollgate_core::Charge::cost).collect::<Vec<_>>(), [cost, 1]);
        assert_eq!(shadow[1].limit().kind(), AlgorithmKind::Concurrency);
        let indexes: Vec<_> = matched.iter().map(|one| (one.shadow(), one.charge_index())).collect();
        assert_eq!(indexes, [(false, Some(0)), (true, Some(0)), (true, Some(1))]);
        assert_eq!(matched.iter().nth(1).and_then(|one| one.on_store_error()), Some(OnStoreError::Deny));
    }
}

/// Counts how often each attribute is asked for.
#[derive(Default)]
struct Counted(RefCell<BTreeMap<String, u32>>);

impl Attributes for Counted {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        *self.0.borrow_mut().entry(name.to_owned()).or_default() += 1;
        (name != "user").then(|| name.to_owned().into())
    }
}

#[test]
fn an_attribute_is_asked_for_once_and_only_if_a_rule_needs_it() {
    let mut model = domain(
        vec![
            rule("a").when_is("path", "path").per(&["user", "path"]),
            rule("b").when_is("path", "path").when("user", Test::Present).when("method", Test::Present),
            rule("c").when_is("path", "elsewhere").when_is("header.x", "y").per(&["ip"]),
        ],
        Vec::new(),
    );
    model.identifiers.named = vec![named("user", &["claim.sub"])];
    let rules = Compiled::new(model);
    let counted = Counted::default();
    assert_eq!(rules.match_attributes(&counted).charges().len(), 2);
    let asked = counted.0.into_inner();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["claim.sub", "method", "path", "user"]);
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
}

#[test]
fn counters_depend_on_rule_limit_and_values_only() {
    let same = || rule("same").when_is("path", "/a").per(&["user"]);
    let (old, new) =
        (Compiled::rules(vec![same()]), Compiled::rules(vec![rule("new"), same(), rule("newer")]));
    let attributes = [("path", "/a"), ("user", "u")];
    let (old, new) = (old.match_attributes(&attributes), new.match_attributes(&attributes));
    let (old, new) = (old.charges(), new.charges());
    assert_eq!((old[0].key(), old[0].limit().id()), (new[1].key(), new[1].limit().id()));
}
