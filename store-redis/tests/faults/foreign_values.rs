//! Keys that hold values of other programs or versions.

use tollgate_core::store::{Run, Store};
use tollgate_core::{
    Action, AlgorithmKind, Charge, Effect, ErrorKind, IdempotencyKey, Limit, Limiter, Request, Time,
};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, daily, every_algorithm, in_time, limiter, take, used};

const CORRUPT: (ErrorKind, Effect) = (ErrorKind::Corrupt, Effect::None);
/// The advice in the error.
const ADVICE: &str = "delete that key, or configure another prefix";

/// Returns the only key of the server.
async fn only_key(redis: &Redis) -> String {
    let keys = redis.call(&["KEYS", "*"]).await.texts();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().expect("a key")
}

/// Uses a limit, and returns the key of its state.
async fn key_of(redis: &Redis, limiter: &Limiter<RedisStore>, limit: &Limit) -> String {
    redis.call(&["FLUSHALL"]).await;
    let charges = [limit.charge(KEY).with_cost(1)];
    let verdict = in_time(limiter.store().decide(Request::new(&charges), Time::EPOCH)).await;
    assert!(verdict.expect("a decision").is_allowed(), "{}", limit.name());
    only_key(redis).await
}

/// Asserts that every kind of call reports the value as corrupt.
async fn assert_all_refuse(limiter: &Limiter<RedisStore>, limit: &Limit, messages: &[&str]) {
    let messages = [&[limit.name(), ADVICE], messages].concat();
    assert_error(in_time(limiter.charge(take(limit, KEY))).await, CORRUPT, &messages);
    assert_error(in_time(limiter.peek(limit, KEY)).await, CORRUPT, &messages);
    let up_to = take(limit, KEY).with_cost(2).with_action(Action::TakeUpTo);
    assert_error(in_time(limiter.charge(up_to)).await, CORRUPT, &messages);
    let now = Time::EPOCH;
    assert_error(in_time(limiter.store().export(limit, KEY.into(), now)).await, CORRUPT, &[ADVICE]);
    let delta = [limit.charge(KEY).with_action(Action::Debit { at: None })];
    if delta[0].supported().is_ok() {
        let applied = limiter.store().apply_deltas(Request::new(&delta), now);
        assert_error(in_time(applied).await, CORRUPT, &[ADVICE]);
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_not_changed() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    for limit in every_algorithm() {
        let key = key_of(&redis, &limiter, &limit).await;
        redis.call(&["DEL", &key]).await;
        redis.call(&["RPUSH", &key, "one", "two"]).await;
        assert_all_refuse(&limiter, &limit, &["WRONGTYPE"]).await;
        assert_eq!(
            redis.call(&["LRANGE", &key, "0", "-1"]).await.texts(),
            ["one", "two"],
            "{}",
            limit.name()
        );
        redis.call(&["DEL", &key]).await;
        assert!(in_time(limiter.charge(take(&limit, KEY))).await.expect("a fresh state").is_allowed());
    }
}

#[tokio::test]
async fn a_value_of_another_program_is_not_changed() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    for limit in every_algorithm() {
        let key = key_of(&redis, &limiter, &limit).await;
        redis.call(&["DEL", &key]).await;
        let is_set = limit.kind() == AlgorithmKind::Concurrency;
        for value in ["hello", "h", "hi, this is a longer text, as long as any state of a limiter", "1"] {
            redis.call(&["DEL", &key]).await;
            if is_set {
                redis.call(&["ZADD", &key, "0", value]).await;
            } else {
                redis.call(&["SET", &key, value]).await;
            }
            assert_all_refuse(&limiter, &limit, &[]).await;
            let kept = if is_set {
                redis.call(&["ZRANGE", &key, "0", "-1"]).await.texts().concat()
            } else {
                redis.call(&["GET", &key]).await.text()
            };
            assert_eq!(kept, value, "{}", limit.name());
        }
    }
}

#[tokio::test]
async fn a_state_of_another_version_is_not_changed() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    for limit in every_algorithm() {
        let key = key_of(&redis, &limiter, &limit).await;
        if limit.kind() == AlgorithmKind::Concurrency {
            // The version is the second byte of the first member.
            let raise = "local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1] \
                         redis.call('ZREM', KEYS[1], first) \
                         return redis.call('ZADD', KEYS[1], 0, first:sub(1, 1) .. '\\2' .. first:sub(3))";
            redis.call(&["EVAL", raise, "1", &key]).await;
        } else if limit.kind().is_flow() {
            // The version is in the second number.
            let raise = "return redis.call('SETRANGE', KEYS[1], 8, struct.pack('<d', 2 * 2 ^ 27))";
            redis.call(&["EVAL", raise, "1", &key]).await;
        } else {
            redis.call(&["SETRANGE", &key, "0", "\u{2}"]).await;
        }
        assert_all_refuse(&limiter, &limit, &["version"]).await;
    }
}

/// A truncated state may be decoded or not, but a request with it is never debited partly, and the other runs of a
/// batch are not affected.
#[tokio::test]
async fn a_truncated_state_does_not_affect_other_runs() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let (beside, neighbour) =
        (daily(1_000), Limit::per_day(1_000).fixed_window().build("neighbour").expect("valid"));
    for limit in every_algorithm().iter().filter(|limit| limit.kind() != AlgorithmKind::Concurrency) {
        let key = key_of(&redis, &limiter, limit).await;
        let _ = in_time(limiter.charge(take(limit, KEY))).await.expect("a decision");
        let length: usize = redis.call(&["STRLEN", &key]).await.text().parse().expect("a length");
        redis.call(&["RENAME", &key, "whole"]).await;
        let truncate = "return redis.call('SET', KEYS[1], redis.call('GET', 'whole'):sub(1, ARGV[1]))";
        let mut refused = 0;
        for (kept, round) in (1..length).zip(0..) {
            redis.call(&["EVAL", truncate, "1", &key, &kept.to_string()]).await;
            let both = [beside.charge(KEY), limit.charge(KEY)];
            let alone = [neighbour.charge(KEY)];
            let batch = [
                Run::new(Request::new(&alone), 1),
                Run::new(Request::new(&both), 1),
                Run::new(Request::new(&alone), 1),
            ];
            let before = used(&limiter, &beside).await;
            let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
            assert!(
                results[0].is_ok() && results[2].is_ok(),
                "{} truncated to {kept}: {results:?}",
                limit.name()
            );
            assert_eq!(
                used(&limiter, &neighbour).await,
                2 * round + 2,
                "{} truncated to {kept}",
                limit.name()
            );
            let taken = used(&limiter, &beside).await - before;
            match &results[1] {
                Ok(verdict) => assert_eq!(usize::try_from(taken), Ok(verdict.passed()), "{}", limit.name()),
                Err(error) => {
                    assert_eq!((error.kind(), error.effect(), taken), (CORRUPT.0, CORRUPT.1, 0), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "{}: no truncated state was refused", limit.name());
    }
}

#[tokio::test]
async fn in_a_batch_only_the_run_with_the_foreign_value_fails() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    // Plain takes, which have a script of their own, and all algorithms.
    for limits in [vec![daily(10)], every_algorithm()] {
        for limit in &limits {
            let key = key_of(&redis, &limiter, limit).await;
            redis.call(&["DEL", &key]).await;
            redis.call(&["RPUSH", &key, "x"]).await;
            let beside = daily(10).to_builder().build("beside").expect("valid");
            let (good, bad) = ([beside.charge(KEY)], [beside.charge(KEY), limit.charge(KEY)]);
            let runs = [(&good[..], 2), (&bad, 1), (&bad[1..], 3), (&good, 3)];
            let batch = runs.map(|(charges, count)| Run::new(Request::new(charges), count));
            let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
            let [first, both, alone, last] = results.try_into().expect("a result per run");
            assert_error(both, CORRUPT, &[ADVICE]);
            assert_error(alone, CORRUPT, &[ADVICE]);
            assert_eq!(first.map(|run| run.passed()).ok(), Some(2), "{}", limit.name());
            assert_eq!(last.map(|run| run.passed()).ok(), Some(3), "{}", limit.name());
            assert_eq!(used(&limiter, &beside).await, 5, "{}: a failed run was debited", limit.name());
        }
    }
}

#[tokio::test]
async fn reusing_an_idempotency_key_for_another_request_fails_only_that_run() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let (limit, other) = (daily(10), Limit::per_day(10).fixed_window().build("other").expect("valid"));
    let key = IdempotencyKey::unique();
    let decide = async |charges: &[Charge<'_>]| {
        let good = [limit.charge("beside")];
        let batch =
            [Run::new(Request::new(charges).with_idempotency_key(key), 1), Run::new(Request::new(&good), 1)];
        let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
        let [idempotent, beside] = results.try_into().expect("a result per run");
        assert!(beside.is_ok(), "{beside:?}");
        idempotent
    };
    let one = [limit.charge(KEY)];
    let two = [limit.charge(KEY), other.charge(KEY)];
    assert_eq!(decide(&one).await.expect("a decision").passed(), 1);
    assert_error(decide(&two).await, CORRUPT, &["idempotency key"]);
    assert_eq!(used(&limiter, &limit).await, 1);

    let keys = redis.call(&["KEYS", "*op~*"]).await.texts();
    for key in keys {
        redis.call(&["DEL", &key]).await;
        redis.call(&["RPUSH", &key, "x"]).await;
    }
    assert_error(decide(&one).await, CORRUPT, &["WRONGTYPE", ADVICE]);
    assert_eq!(used(&limiter, &limit).await, 1);
}
