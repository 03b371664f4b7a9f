//! Keys are any bytes, and different keys never share state.

use tollgate_core::store::{Run, RunVerdict, Store};
use tollgate_core::{Key, Limit, Request};

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::{Sample, samples};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>, replay_steps: usize) {
    plan.each("key_isolation", isolation);
    plan.add("key_isolation::namespaces", namespaces);
    plan.add("key_isolation::limits", limits);
    plan.add("key_isolation::names_that_look_alike", look_alikes);
    plan.add("key_isolation::many_keys", move |fixture| many(fixture, (replay_steps / 3).max(200)));
    plan.add("hostile_keys", hostile);
    plan.add("hostile_keys::under_several_limits", hostile_under_several_limits);
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

/// Namespaces, entities and names of limits that are the same text once they are joined by a separator.
async fn look_alikes<S: Store>(fixture: Fixture<S>) {
    const SPLITS: [[&str; 3]; 4] =
        [["a", "b", "c+d"], ["a", "b+c", "d"], ["a+b", "c", "d"], ["", "a+b+c", "d"]];
    for separator in [":", "}:", ":{", "}:{", "{", "}", "/", "|", "~", "%", "_", "-", ".", ",", " "] {
        for split in SPLITS {
            let [namespace, entity, name] = split.map(|part| part.replace('+', separator));
            let namespace = format!("{}{namespace}", fixture.namespace());
            let limit = Limit::per_hour(1).build(&name).expect("valid");
            let charge = [limit.charge(Key::new(&namespace, &entity))];
            let verdict = fixture.store().decide(Request::new(&charge), fixture.now()).await;
            assert!(
                verdict.expect("the store decides").is_allowed(),
                "namespace {namespace:?}, entity {entity:?} and limit {name:?} have a state of their own"
            );
        }
    }
}

/// Every one of many keys keeps its state, however many come after it.
async fn many<S: Store>(fixture: Fixture<S>, count: usize) {
    let limit = Limit::per_hour(1).sliding_log().build("many").expect("valid");
    let entities: Vec<_> = (0..count).map(|key| format!("key {key}")).collect();
    let charges: Vec<_> = entities.iter().map(|entity| [fixture.charge(&limit, entity)]).collect();
    let runs: Vec<_> = charges.iter().map(|charge| Run::new(Request::new(charge), 1)).collect();
    for expected in [count, 0] {
        let results = fixture.store().decide_batch(&runs, fixture.now()).await;
        let passed = |result: Result<RunVerdict, _>| result.expect("the store decides").passed();
        let allowed: usize = results.into_iter().map(passed).sum();
        assert_eq!(allowed, expected, "of {count} keys with one unit each, {expected} are expected to pass");
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

/// The states of one entity are decided together, whatever its name: a server must not look for them in two places.
async fn hostile_under_several_limits<S: Store>(fixture: Fixture<S>) {
    let bucket = Limit::per_hour(1).build("bucket").expect("valid");
    let window = Limit::per_hour(2).sliding_log().build("log }of{ a:b").expect("valid");
    for name in hostile_names() {
        let charges = [fixture.charge(&bucket, &name), fixture.charge(&window, &name)];
        let shown = String::from_utf8_lossy(&name[..name.len().min(12)]).into_owned();
        for expected in [true, false] {
            let allowed = fixture.decide(&charges).await.is_allowed();
            assert_eq!(allowed, expected, "{shown:?} has one unit under both limits");
        }
        let left = fixture.one(fixture.charge(&window, &name).with_cost(0)).await.remaining();
        assert_eq!(left, 1, "{shown:?}: the denied request debits nothing");
    }
}
