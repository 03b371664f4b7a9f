//! Keys may be any bytes, and never collide.

use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{IdempotencyKey, Key, Limit, Limiter, Request, Time};
use tollgate_store_redis::Config;
use tollgate_testkit::Redis;

use crate::assertions::{every_algorithm, in_time, limiter, used_by};

/// Returns keys that try to collide with other keys.
fn hostile() -> Vec<Vec<u8>> {
    let texts = [
        "", "{", "}", "{}", "}{", "{a}", "a}:b{c", "%", "%7b", "%25", ":", "a:b", "~1", "op~", " ", "a\r\nb",
        "\n",
    ];
    let mut all: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.extend([vec![0], vec![0, 0], b"a\0b".to_vec(), vec![0xff, 0xfe, 0x80]]);
    let long = vec![b'x'; 65_536];
    let mut other = long.clone();
    other[65_535] = b'y';
    all.extend([long, other]);
    all
}

#[tokio::test]
async fn no_two_keys_share_a_state() {
    let redis = Redis::start(&[]).await;
    // Long, because the keys are megabytes.
    let config = Config::new(redis.url()).call_timeout(Duration::from_secs(60));
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    let keys = hostile();
    // All stored forms and all scripts.
    for limit in every_algorithm() {
        let each =
            keys.iter().flat_map(|namespace| keys.iter().map(move |entity| Key::new(namespace, entity)));
        let charges: Vec<_> = each.map(|key| [limit.charge(key).with_cost(1)]).collect();
        let batch: Vec<_> = charges.iter().map(|charges| Run::new(Request::new(charges), 1)).collect();
        for result in in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await {
            let run = result.expect("a decision");
            let decision = run.verdicts()[0].decisions()[0];
            assert!(decision.is_allowed() && used_by(&decision) <= 1, "{}: {decision:?}", limit.name());
        }
        let states: usize = redis.call(&["DBSIZE"]).await.text().parse().expect("a number");
        assert_eq!(states, keys.len() * keys.len(), "{}: one state each", limit.name());
        redis.call(&["FLUSHALL"]).await;
    }
}

#[tokio::test]
async fn every_key_works() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let limit = Limit::per_day(3).build("~ {limit} : %").expect("valid");
    for entity in hostile() {
        let key = Key::new("", &entity);
        for left in [2, 1] {
            assert_eq!(in_time(limiter.check(&limit, key)).await.expect("a decision").remaining(), left);
        }
        // With an idempotency key, repeated.
        let charges = [limit.charge(key)];
        let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
        for _ in 0..2 {
            let verdict = in_time(limiter.store().decide(request, Time::EPOCH)).await.expect("a decision");
            assert!(verdict.is_allowed());
        }
        assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
        let state = in_time(limiter.store().export(&limit, key, Time::EPOCH)).await.expect("a state");
        assert!(state.state.is_some());
        in_time(limiter.reset(&limit, key)).await.expect("a decision");
        assert_eq!(in_time(limiter.peek(&limit, key)).await.expect("a decision").remaining(), 3);
    }
}
