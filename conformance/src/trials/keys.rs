//! Keys are any bytes, and different keys never share state.

use tollgate_core::store::Store;
use tollgate_core::{Key, Limit, Request};

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::{Sample, samples};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("key_isolation", isolation);
    plan.add("key_isolation::namespaces", namespaces);
    plan.add("key_isolation::limits", limits);
    plan.add("hostile_keys", hostile);
}

/// Names that have broken limiters before.
fn hostile_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        "", " ", "  ", "\0", "\0\0", "a\0b", "{", "}", "{}", "{a}", "{{a}}", "a}b{c", ":", "::", "a:b", "*",
        "?", "[a]", "\\", "'", "\"", "\r\n", "\n", "a b", "a  b", "%s", "${a}", "ключ", "鍵", "🔑",
        "e\u{301}", "\u{e9}",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push(vec![0xff, 0xfe, 0x80]);
    names.push(vec![b'k'; 64 * 1024]);
    // Differs in the last byte only.
    names.push([vec![b'k'; 64 * 1024 - 1], vec![b'K']].concat());
    names
}

async fn isolation<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    fixture.exhaust(&limit).await;
    let other = fixture.one(fixture.charge(&limit, "another").with_cost(limit.capacity())).await;
    assert!(other.is_allowed(), "another key is untouched: {other:?}");
}

async fn namespaces<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::per_hour(1).build("api").expect("valid");
    let now = fixture.now();
    // The same bytes, split at different positions.
    for (namespace, entity) in
        [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("a:", "bc"), ("a", ":bc")]
    {
        let namespace = format!("{}{namespace}", fixture.namespace());
        let charge = [limit.charge(Key::new(&namespace, entity))];
        let verdict = fixture.store().decide(Request::new(&charge), now).await.expect("the store decides");
        assert!(verdict.is_allowed(), "{namespace:?} and {entity:?} are a key of their own");
    }
}

async fn limits<S: Store>(fixture: Fixture<S>) {
    let samples = samples();
    for sample in &samples {
        fixture.exhaust(&sample.limit).await;
    }
    let renamed = Limit::per_second(10).build("token_bucket2").expect("valid");
    assert!(fixture.take(&renamed, 10).await.is_allowed(), "another name is another limit");
}

async fn hostile<S: Store>(fixture: Fixture<S>) {
    let bucket = Limit::per_hour(2).build("bucket").expect("valid");
    let window = Limit::per_hour(2).sliding_log().build("log {of} a:b").expect("valid");
    for limit in [&bucket, &window] {
        for round in 0..3 {
            for name in hostile_names() {
                let decision = fixture.one(fixture.charge(limit, &name)).await;
                let shown = String::from_utf8_lossy(&name[..name.len().min(12)]).into_owned();
                assert_eq!(decision.is_allowed(), round < 2, "round {round} of {shown:?}");
            }
        }
    }
}
