//! Keys are any bytes, and different keys never meet.

use tollgate_core::store::Store;
use tollgate_core::{Key, Limit, Request};

use super::Plan;
use crate::samples::{Sample, samples};
use crate::stand::Stand;

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
    // The same but for the last byte.
    names.push([vec![b'k'; 64 * 1024 - 1], vec![b'K']].concat());
    names
}

async fn isolation<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    stand.exhaust(&limit).await;
    let other = stand.one(stand.charge(&limit, "somebody else").with_cost(limit.capacity())).await;
    assert!(other.is_allowed(), "another key is untouched: {other:?}");
}

async fn namespaces<S: Store>(stand: Stand<S>) {
    let limit = Limit::per_hour(1).build("api").expect("valid");
    let now = stand.now();
    // The same bytes, cut differently.
    for (namespace, entity) in
        [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("a:", "bc"), ("a", ":bc")]
    {
        let namespace = format!("{}{namespace}", stand.namespace());
        let charge = [limit.charge(Key::new(&namespace, entity))];
        let verdict = stand.store().decide(Request::new(&charge), now).await.expect("the store answers");
        assert!(verdict.is_allowed(), "{namespace:?} and {entity:?} are nobody else");
    }
}

async fn limits<S: Store>(stand: Stand<S>) {
    let samples = samples();
    for sample in &samples {
        stand.exhaust(&sample.limit).await;
    }
    let renamed = Limit::per_second(10).build("token_bucket2").expect("valid");
    assert!(stand.take(&renamed, 10).await.is_allowed(), "another name is another limit");
}

async fn hostile<S: Store>(stand: Stand<S>) {
    let bucket = Limit::per_hour(2).build("bucket").expect("valid");
    let window = Limit::per_hour(2).sliding_log().build("log {of} a:b").expect("valid");
    for limit in [&bucket, &window] {
        for round in 0..3 {
            for name in hostile_names() {
                let decision = stand.one(stand.charge(limit, &name)).await;
                let shown = String::from_utf8_lossy(&name[..name.len().min(12)]).into_owned();
                assert_eq!(decision.is_allowed(), round < 2, "round {round} of {shown:?}");
            }
        }
    }
}
