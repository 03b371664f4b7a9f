//! Rows whose content was not written by a store.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Clock, Effect, ErrorKind, Limit, Limiter, Request, Time};
use tollgate_store_cassandra::CassandraStore;

use crate::fixture::{assert_error, daily, every_algorithm, in_time, limiter, put, rows, stored, take, used};

const CORRUPT: (ErrorKind, Effect) = (ErrorKind::Corrupt, Effect::None);
const ADVICE: &str = "delete the row, or use a table that only this store writes to";

/// Asserts that every call for the key fails, and leaves the row unchanged.
async fn assert_all_calls_fail(limiter: &Limiter<CassandraStore>, limit: &Limit, key: &str, problem: &str) {
    let corrupt = stored(key).await;
    let messages = [limit.name(), problem, ADVICE];
    assert_error(in_time(limiter.charge(take(limit, key))).await, CORRUPT, &messages);
    assert_error(in_time(limiter.peek(limit, key)).await, CORRUPT, &messages);
    let up_to = take(limit, key).with_cost(2).with_action(Action::TakeUpTo);
    assert_error(in_time(limiter.charge(up_to)).await, CORRUPT, &messages);
    let export = limiter.store().export(limit, key.into(), Time::EPOCH);
    assert_error(in_time(export).await, CORRUPT, &messages);
    assert_eq!(stored(key).await, corrupt, "{}", limit.name());
}

#[tokio::test]
async fn a_corrupt_row_is_an_error_and_stays_unchanged() {
    let limiter = &limiter().await;
    let limits = every_algorithm().into_iter().step_by(4);
    let each = limits.map(|limit| async move {
        let key = &format!("corrupt {}", limit.name());
        assert!(in_time(limiter.charge(take(&limit, key))).await.expect("a decision").granted() <= 1);
        let good = stored(key).await;
        let with = |index: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[index] = byte;
            bytes
        };
        let kind = good[1];
        for (bytes, problem) in [
            (b"hello".to_vec(), "has format version 104, but this program reads version 1"),
            (Vec::new(), "is empty"),
            (with(0, 2), "has format version 2"),
            (with(1, 99), "has an unknown algorithm"),
            (with(1, kind % 9 + 1), "has an invalid state"),
            (good[..good.len() - 1].to_vec(), "has the wrong length"),
            ([&good[..], b"!"].concat(), "has the wrong length"),
        ] {
            put(key, &bytes).await;
            assert_all_calls_fail(limiter, &limit, key, problem).await;
        }
        // Once repaired, it works again.
        put(key, &good).await;
        let result = in_time(limiter.charge(take(&limit, key))).await;
        assert!(result.expect("a decision").granted() <= 1, "{}", limit.name());
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn a_request_with_a_corrupt_row_charges_nothing() {
    let (limiter, key) = (limiter().await, "corrupt in a request");
    let (limit, beside) = (daily(10), Limit::per_day(10).fixed_window().build("beside").expect("valid"));
    assert!(in_time(limiter.check(&limit, key)).await.is_ok());
    put(key, b"hello").await;
    let both = [beside.charge(key), limit.charge(key)];
    let (alone, elsewhere) = ([beside.charge(key)], [beside.charge("another key")]);
    assert_error(in_time(limiter.check_all(both)).await, CORRUPT, &["`daily`", ADVICE]);
    assert_eq!(rows(key, "state").await.len(), 1, "nothing was written");

    // In a batch, other entities are not affected.
    let runs = [&both[..], &elsewhere].map(|charges| Run::new(Request::new(charges), 1));
    let results = in_time(limiter.store().decide_batch(&runs, Time::EPOCH)).await;
    let [corrupt, elsewhere] = results.try_into().expect("a result per run");
    assert_error(corrupt, CORRUPT, &["`daily`", ADVICE]);
    assert_eq!(elsewhere.expect("a decision").passed(), 1);
    assert!(in_time(limiter.check_all(alone)).await.expect("a decision").is_allowed());
    assert_eq!(used(&limiter, &beside, key).await, 1);
}

/// Other limits of the same entity are not affected either.
#[tokio::test]
async fn a_corrupt_row_does_not_fail_other_runs_of_a_batch() {
    let (limiter, key) = (limiter().await, "corrupt in a batch");
    let (corrupt, fine) = (daily(10), Limit::per_hour(10).fixed_window().build("fine").expect("valid"));
    assert!(in_time(limiter.check(&corrupt, key)).await.expect("a decision").is_allowed());
    put(key, b"hello").await;
    let charges = [[corrupt.charge(key)], [fine.charge(key)], [corrupt.charge(key)]];
    let runs = charges.each_ref().map(|charges| Run::new(Request::new(charges), 2));
    let mut results = in_time(limiter.store().decide_batch(&runs, limiter.clock().now())).await.into_iter();
    let messages = [corrupt.name(), "format version 104", ADVICE];
    assert_error(results.next().expect("three"), CORRUPT, &messages);
    assert_eq!(results.next().expect("three").expect("verdicts").passed(), 2);
    assert_error(results.next().expect("three"), CORRUPT, &messages);
    assert_eq!(used(&limiter, &fine, key).await, 2);
}
