//! Explanations agree with matching, show no secrets and read well.

use proptest::prelude::*;

use super::{DescriptorOutcome, ExplainedPart, RuleOutcome, ShownValue};
use crate::matching::Match;
use crate::matching::tests::random::{requests, rule_lists};
use crate::matching::tests::{Compiled, domain, named, node, rule};
use crate::model::{Missing, Pattern, RuleLimits, Test};

/// Names with the limits that are charged.
fn explained(part: &ExplainedPart) -> Vec<(String, Vec<Option<String>>)> {
    let applies = |rule: &super::ExplainedRule| match rule.outcome() {
        RuleOutcome::Applies(charges) => {
            let limits = charges.iter().map(|charge| charge.limit().map(str::to_owned)).collect();
            Some((rule.name().to_owned(), limits))
        }
        RuleOutcome::Hidden { .. }
        | RuleOutcome::Skipped { .. }
        | RuleOutcome::NoPlan { .. }
        | RuleOutcome::Failed { .. } => None,
    };
    part.rules().iter().filter_map(applies).collect()
}

fn matched<'m, 'r: 'm>(matches: impl Iterator<Item = Match<'m, 'r>>) -> Vec<(String, Vec<Option<String>>)> {
    // Rules of these tests have one limit each.
    let one =
        |one: Match<'m, 'r>| (one.name().to_owned(), vec![one.limit().map(|limit| limit.name().to_owned())]);
    matches.filter(|one| !one.is_descriptor_rule()).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn explanations_agree_with_matching(rules in rule_lists(), request in requests()) {
        let compiled = Compiled::rules(rules.clone());
        let explanation = compiled.explain(&request);
        let found = compiled.match_attributes(&request);
        prop_assert_eq!(explained(&explanation.parts()[0]), matched(found.iter()));
        prop_assert_eq!(explanation.parts()[0].rules().len(), rules.len());
        prop_assert_eq!(explanation.denied(), found.denied());
        let descriptors = [request.into_iter().collect::<Vec<_>>()];
        let explanation = compiled.explain_descriptors(&descriptors);
        let found = compiled.match_descriptors(&descriptors);
        prop_assert_eq!(explained(&explanation.parts()[0]), matched(found.of_descriptor(0)));
    }
}

#[test]
fn every_outcome_is_readable() {
    let mut limited =
        rule("limited").when("path", Test::OneOf(vec![Pattern::Path("/api/**".into())])).per(&["user"]);
    limited.shadow = true;
    let rules = Compiled::rules(vec![
        limited.priority(1),
        rule("hidden").when("path", Test::Present),
        rule("skipped").per(&["session"]).priority(1),
        rule("plan").plan("plan", None, &[("free", Some("free"))]),
        rule("failed").when("user", Test::NoneOf(vec![Pattern::Exact("alice".into())])),
        rule("free").limits(RuleLimits::Unlimited).priority(1),
        rule("shared").per(&["session"]).missing(Missing::Shared("all".into())).priority(1),
        rule("everybody").priority(1),
    ]);
    let explanation = rules.explain(&[("path", "/api/x"), ("user", "alice"), ("plan", "gold")]);
    assert_eq!(
        explanation.to_string(),
        "domain shop
  rule limited: applies
    charges 1 to limited (100 per second) for user \"alice\", in shadow mode
  rule hidden: hidden, its priority is 0 and rules with 1 apply
  rule skipped: skipped, the request has no session
  rule plan: skipped, plan is \"gold\", which is no plan
  rule failed: does not match, user is \"alice\"; wanted: not alice
  rule free: applies
    unlimited
  rule shared: applies
    charges 1 to shared (100 per second) for all requests without session, as \"all\"
  rule everybody: applies
    charges 1 to everybody (100 per second) for all requests together
"
    );
}

#[test]
fn descriptors_are_explained_one_by_one() {
    let rules = Compiled::descriptors(vec![
        node("a", None).limited("a").with(vec![node("b", None)]),
        node("c", None).limited("c").named(Some("c"), &[]),
        node("d", Some("x")).limited("d").named(None, &["c"]),
    ]);
    let descriptors = [
        vec![("a", "1")],
        vec![("a", "1"), ("b", "2"), ("e", "3")],
        vec![("c", "1")],
        vec![("d", "x")],
        vec![("a", "1"), ("b", "2")],
        vec![("z", "1")],
        vec![("a", "1")],
    ];
    let explanation = rules.explain_descriptors(&descriptors);
    assert_eq!(
        explanation.to_string(),
        "domain shop
  descriptor 0: a \"1\"
    matches a
    charges 1 to a (10 per minute) for a \"1\"
  descriptor 1: a \"1\", b \"2\", e \"3\"
    matches a/b with 2 of its 3 entries: no limit applies
  descriptor 2: c \"1\"
    matches c, which another limit replaces
  descriptor 3: d \"x\"
    matches d=x
    charges 1 to d (10 per minute) for all requests together
  descriptor 4: a \"1\", b \"2\"
    matches a/b, which has no limit
  descriptor 5: z \"1\"
    matches nothing
  descriptor 6: a \"1\"
    matches a
    charges 1 to a (10 per minute) for a \"1\", together with an earlier descriptor
"
    );
    let outcome = explanation.parts()[2].descriptor().map(super::ExplainedDescriptor::outcome);
    assert_eq!(outcome, Some(&DescriptorOutcome::Replaced));
}

#[test]
fn secrets_are_hidden() {
    let mut model = domain(
        vec![
            rule("a").per(&["token"]),
            rule("b").when("header.x-token", Test::Absent),
            rule("c").when("token", Test::Absent),
            rule("d").when_is("token", "sk-456"),
        ],
        vec![node("api_key", None).limited("d")],
    );
    let secret = crate::identifiers::NamedIdentifier { secret: true, ..named("token", &["header.x-token"]) };
    model.identifiers.named = vec![secret];
    let rules = Compiled::new(model);
    let explanation = rules.explain(&[("header.x-token", "sk-123")]);
    for (rule, number) in [("b", 1), ("c", 2)] {
        let outcome = explanation.parts()[0].rules()[number].outcome();
        let is_hidden = matches!(outcome, RuleOutcome::Failed { value: ShownValue::Hidden, .. });
        assert!(is_hidden, "{rule}: {outcome:?}");
    }
    assert!(explanation.to_string().contains("for token hidden"), "{explanation}");
    assert!(!explanation.to_string().contains("sk-"), "{explanation}");
    let explanation = rules.explain_descriptors(&[[("api_key", "sk-123")]]);
    assert!(!explanation.to_string().contains("sk-123"), "{explanation}");
}

#[test]
fn rules_that_do_not_match_can_be_left_out() {
    let rules =
        Compiled::rules((0..10).map(|n| rule(&format!("r{n}")).when_is("x", &n.to_string())).collect());
    let explanation = rules.explain_with(&[("x", "9")], 2);
    let names: Vec<_> = explanation.parts()[0].rules().iter().map(super::ExplainedRule::name).collect();
    assert_eq!((names, explanation.parts()[0].omitted()), (vec!["r0", "r1", "r9"], 7));
}
