//! What each field of the form `descriptors` means.

use serde_json::{Map, Value};

use super::{Compiled, charged, domain, node, pairs, rule};
use crate::matching::{Descriptor, Effect};
use crate::model::DescriptorQuota;

type Entries<'a> = &'a [(&'a str, &'a str)];

fn check(rules: &Compiled, entries: Entries<'_>, expected: &[(&str, &str)]) {
    assert_eq!(charged(&rules.match_descriptors(&[entries])), pairs(expected), "{entries:?}");
}

#[test]
fn a_descriptor_matches_at_exact_depth() {
    let rules = Compiled::descriptors(vec![
        node("a", None).limited("a").with(vec![node("b", None).with(vec![node("c", None).limited("c")])]),
    ]);
    check(&rules, &[("a", "1")], &[("a", "1")]);
    check(&rules, &[("a", "1"), ("b", "2")], &[]);
    check(&rules, &[("a", "1"), ("b", "2"), ("c", "3")], &[("c", "1|2|3")]);
    check(&rules, &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], &[]);
    check(&rules, &[("b", "2")], &[]);
    check(&rules, &[("a", "1"), ("x", "2")], &[]);
    check(&rules, &[], &[]);
}

#[test]
fn the_exact_value_comes_first_then_the_first_wildcard_then_the_bare_key() {
    let rules = Compiled::descriptors(vec![
        node("k", None).limited("bare"),
        node("k", Some("f*")).limited("f*"),
        node("k", Some("fo*r")).limited("fo*r"),
        node("k", Some("foo")).limited("foo"),
    ]);
    check(&rules, &[("k", "foo")], &[("foo", "")]);
    check(&rules, &[("k", "foor")], &[("f*", "foor")]);
    check(&rules, &[("k", "fo*r")], &[("fo*r", "fo*r")]);
    check(&rules, &[("k", "x")], &[("bare", "x")]);
    check(&rules, &[("k", "")], &[("bare", r"\e")]);
}

#[test]
fn there_is_no_second_attempt() {
    let rules = Compiled::descriptors(vec![
        node("k", Some("v")).with(vec![node("x", None).limited("x")]),
        node("k", None).limited("bare").with(vec![node("y", None).limited("y")]),
    ]);
    // A value without a limit lets through, although its key has one.
    check(&rules, &[("k", "v")], &[]);
    check(&rules, &[("k", "v"), ("y", "1")], &[]);
    check(&rules, &[("k", "w"), ("y", "1")], &[("y", "w|1")]);
}

#[test]
fn keys_and_values_do_not_run_together() {
    let rules = Compiled::descriptors(vec![node("a", Some("b_c")).limited("1")]);
    check(&rules, &[("a_b", "c")], &[]);
    check(&rules, &[("a", "b_c")], &[("1", "")]);
}

#[test]
fn a_shared_threshold_has_one_counter() {
    let mut shared = node("k", Some("f*")).limited("f*");
    shared.share_threshold = true;
    let rules = Compiled::descriptors(vec![shared]);
    check(&rules, &[("k", "foo")], &[("f*", "")]);
    check(&rules, &[("k", "far")], &[("f*", "")]);
}

#[test]
fn unlimited_and_blocked_descriptors_are_visible() {
    let rules = Compiled::descriptors(vec![
        node("free", None).quota(DescriptorQuota::Unlimited),
        node("never", None).blocked(),
    ]);
    let (free, never): (Entries<'_>, Entries<'_>) = (&[("free", "1")], &[("never", "1")]);
    let matched = rules.match_descriptors(&[free]);
    assert!(matched.iter().all(|one| one.effect() == Effect::Unlimited) && !matched.denied());
    let matched = rules.match_descriptors(&[free, never]);
    assert!(matched.denied() && matched.charges().is_empty());
    assert_eq!(matched.of_descriptor(1).map(|one| one.is_denied()).collect::<Vec<_>>(), [true]);
}

#[test]
fn matches_know_their_descriptor() {
    let rules = Compiled::descriptors(vec![node("a", None).limited("a"), node("b", None).limited("b")]);
    let descriptors: [Entries<'_>; 4] = [&[("b", "1")], &[("x", "1")], &[("a", "1")], &[("b", "1")]];
    let matched = rules.match_descriptors(&descriptors);
    assert_eq!(matched.descriptors(), 4);
    let statuses: Vec<Vec<_>> = (0..4)
        .map(|index| matched.of_descriptor(index).map(|one| (one.name(), one.charge_index())).collect())
        .collect();
    assert_eq!(statuses, [vec![("b", Some(0))], vec![], vec![("a", Some(1))], vec![("b", Some(0))]]);
    // One counter is charged once.
    assert_eq!(charged(&matched), pairs(&[("b", "1"), ("a", "1")]));
    assert!(matched.of_descriptor(3).all(|one| one.is_repeated() && one.descriptor() == Some(3)));
}

#[test]
fn the_largest_cost_is_charged_to_a_counter() {
    let tokens = super::limit_model("t", crate::model::Cost::Attribute { name: "tokens".into(), default: 1 });
    let tokens = rule("t").limits(crate::model::RuleLimits::All(vec![tokens]));
    let rules = Compiled::new(domain(vec![tokens], Vec::new()));
    let descriptors: [Entries<'_>; 3] = [&[("tokens", "3")], &[("tokens", "9")], &[("tokens", "5")]];
    let matched = rules.match_descriptors(&descriptors);
    assert_eq!(matched.charges().iter().map(tollgate_core::Charge::cost).collect::<Vec<_>>(), [9]);
}

#[test]
fn a_limit_replaces_others_by_name() {
    let rules = Compiled::descriptors(vec![
        node("a", None).limited("a").named(Some("general"), &[]),
        node("b", None).limited("b").named(Some("special"), &["general"]),
        node("c", None).limited("c"),
        node("d", None).quota(DescriptorQuota::Unlimited).named(None, &["special"]),
        node("e", None).blocked().named(Some("general"), &[]),
    ]);
    let of = |keys: &str| {
        let entries: Vec<_> = keys.chars().map(|key| [(key.to_string(), "1".to_owned())]).collect();
        let matched = rules.match_descriptors(&entries);
        (charged(&matched).into_iter().map(|(name, _)| name).collect::<String>(), matched.denied())
    };
    assert_eq!(of("abc"), ("bc".to_owned(), false));
    assert_eq!(of("ac"), ("ac".to_owned(), false));
    assert_eq!(of("bd"), (String::new(), false));
    // Also what is replaced itself replaces, in any order.
    assert_eq!(of("dab"), (String::new(), false));
    assert_eq!(of("e"), (String::new(), true));
    assert_eq!(of("eb"), ("b".to_owned(), false));
}

#[test]
fn shadow_mode_is_counted_apart() {
    let mut shadowed = node("a", None).limited("a");
    shadowed.shadow_mode = true;
    let rules = Compiled::descriptors(vec![shadowed, node("b", None).limited("b")]);
    let descriptors: [Entries<'_>; 2] = [&[("a", "1")], &[("b", "1")]];
    let matched = rules.match_descriptors(&descriptors);
    assert_eq!(charged(&matched), pairs(&[("b", "1")]));
    assert_eq!(matched.shadow_charges()[0].limit().name(), "a");
}

#[test]
fn quota_descriptors_deny_together_only() {
    let blocked = |key, quota| {
        let mut node = node(key, None).blocked();
        node.quota_mode = quota;
        node
    };
    let mut counted = node("c", None).limited("c");
    counted.quota_mode = true;
    let rules = Compiled::descriptors(vec![blocked("q", true), blocked("o", false), counted]);
    let denied = |keys: &str| {
        let entries: Vec<_> = keys.chars().map(|key| [(key.to_string(), "1".to_owned())]).collect();
        let matched = rules.match_descriptors(&entries);
        assert_eq!(
            matched.iter().filter(crate::matching::Match::quota_mode).count(),
            keys.len() - usize::from(keys.contains('o'))
        );
        matched.denied()
    };
    assert!(denied("q") && denied("qq") && denied("qco"));
    assert!(!denied("qc") && !denied("c"));
}

#[test]
fn metrics_have_values_where_the_file_says_so() {
    let flagged = |value_to_metric: bool, detailed_metric: bool, share_threshold: bool| {
        let mut child = node("c", None).limited("c");
        child.detailed_metric = detailed_metric;
        let mut parent = node("p", Some("f*")).with(vec![child]);
        parent.value_to_metric = value_to_metric;
        parent.share_threshold = share_threshold;
        let rules = Compiled::descriptors(vec![parent]);
        let matched = rules.match_descriptors(&[[("p", "foo"), ("c", "1")]]);
        matched.iter().map(|one| one.metric().to_owned()).collect::<String>()
    };
    assert_eq!(flagged(false, false, false), "shop.p_f*.c");
    assert_eq!(flagged(true, false, false), "shop.p_foo.c");
    assert_eq!(flagged(false, true, false), "shop.p_foo.c_1");
    assert_eq!(flagged(true, true, true), "shop.p_f*.c_1");
}

#[test]
fn metadata_is_merged() {
    let with = |key, metadata: &[(&str, i32)]| {
        let mut node = node(key, None).limited(key);
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        node.metadata = Some(metadata.collect::<Map<_, _>>());
        node
    };
    let rules = Compiled::descriptors(vec![with("a", &[("x", 1), ("y", 1)]), with("b", &[("y", 2)])]);
    let matched = rules.match_descriptors(&[[("a", "1")], [("b", "1")]]);
    let merged = Value::from(matched.metadata().expect("both have some"));
    assert_eq!(merged, serde_json::json!({ "x": 1, "y": 2 }));
    assert_eq!(rules.match_descriptors(&[[("z", "1")]]).metadata(), None);
}

#[test]
fn rules_see_entries_as_attributes() {
    let rules = Compiled::new(domain(
        vec![rule("r").when_is("path", "/a").per(&["user"])],
        vec![node("path", None).with(vec![node("user", None).limited("d")])],
    ));
    let both: Entries<'_> = &[("path", "/a"), ("user", "u")];
    let matched = rules.match_descriptors(&[both]);
    assert_eq!(charged(&matched), pairs(&[("d", "/a|u"), ("r", "u")]));
    assert_eq!(matched.iter().map(|one| one.is_descriptor_rule()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn secrets_in_descriptors_are_not_part_of_keys() {
    let rules = Compiled::descriptors(vec![node("api_key", None).limited("a")]);
    let matched = rules.match_descriptors(&[[("api_key", "sk-123")]]);
    assert!(!charged(&matched)[0].1.contains("sk-123"));
}

/// A message of a server.
struct Message(Vec<(String, String)>);

impl Descriptor for Message {
    fn entry(&self, index: usize) -> Option<(&str, &str)> {
        self.0.entry(index)
    }
}

#[test]
fn messages_need_not_be_copied() {
    let rules = Compiled::descriptors(vec![node("a", None).limited("a")]);
    let matched = rules.match_descriptors(&[Message(vec![("a".to_owned(), "1".to_owned())])]);
    assert_eq!(charged(&matched), pairs(&[("a", "1")]));
}
