//! A match does not allocate.

use std::hint::black_box;

use super::{Compiled, domain, node, rule};
use crate::model::{Pattern, RuleModel, Test};

fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

fn rules() -> Vec<RuleModel> {
    let one = |pattern| Test::OneOf(vec![pattern]);
    vec![
        rule("path").when("path", one(Pattern::Path("/api/**/x".into()))).per(&["user"]),
        rule("prefix").when("host", one(Pattern::Prefix("www".into()))).per(&["ip", "user"]),
        rule("network").when("ip", one(Pattern::Network("10.0.0.0/8".parse().expect("a network")))),
        rule("glob").when("host", one(Pattern::Glob("*.example.org".into()))),
    ]
}

#[test]
fn matching_attributes_does_not_allocate() {
    let rules = Compiled::rules(rules());
    let attributes =
        [("path", "/api/v1/users/x"), ("host", "www.example.org"), ("ip", "10.1.2.3"), ("user", "alice")];
    let counted = allocations(|| {
        let matched = rules.match_attributes(&attributes);
        assert_eq!(black_box(matched.charges()).len(), 4);
    });
    assert_eq!(counted, 0);
}

#[test]
fn matching_descriptors_does_not_allocate() {
    let tree = node("path", None).with(vec![node("user", Some("a*")).limited("d")]);
    let rules = Compiled::new(domain(vec![rule("r").when_is("path", "/a").per(&["user"])], vec![tree]));
    let descriptors = [[("path", "/a"), ("user", "alice")], [("path", "/b"), ("user", "alice")]];
    let counted = allocations(|| {
        let matched = rules.match_descriptors(&descriptors);
        assert_eq!(black_box(matched.charges()).len(), 3);
    });
    assert_eq!(counted, 0);
}
