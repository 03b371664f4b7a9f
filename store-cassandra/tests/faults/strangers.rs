//! Rows that hold what no limiter has written.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, Effect, ErrorKind, Limit, Limiter, Request, Time};
use tollgate_store_cassandra::CassandraStore;

use crate::expect::{assert_error, daily, every_algorithm, in_time, limiter, put, rows, stored, used};

const CORRUPT: (ErrorKind, Effect) = (ErrorKind::Corrupt, Effect::None);
/// What helps.
const ADVICE: &str = "delete that row, or give the store a table of its own";

/// All that touches a state says that it is not one, and leaves it alone.
async fn assert_all_refuse(limiter: &Limiter<CassandraStore>, limit: &Limit, key: &str, says: &str) {
    let strange = stored(key).await;
    let says = [limit.name(), says, ADVICE];
    assert_error(in_time(limiter.check(limit, key)).await, CORRUPT, &says);
    assert_error(in_time(limiter.peek(limit, key)).await, CORRUPT, &says);
    assert_error(in_time(limiter.take_up_to(limit, key, 2)).await, CORRUPT, &says);
    let export = limiter.store().export(limit, key.into(), Time::EPOCH);
    assert_error(in_time(export).await, CORRUPT, &says);
    assert_eq!(stored(key).await, strange, "{}", limit.name());
}

#[tokio::test]
async fn a_row_that_makes_no_sense_is_left_alone() {
    let limiter = &limiter().await;
    let limits = every_algorithm().into_iter().step_by(4);
    let each = limits.map(|limit| async move {
        let key = &format!("strange {}", limit.name());
        assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").granted() <= 1);
        let good = stored(key).await;
        let with = |index: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[index] = byte;
            bytes
        };
        let kind = good[1];
        for (bytes, says) in [
            (b"hello".to_vec(), "of version 104, and this program knows 1"),
            (Vec::new(), "that is empty"),
            (with(0, 2), "of version 2"),
            (with(1, 99), "of an unknown algorithm"),
            (with(1, kind % 9 + 1), "that makes no sense"),
            (good[..good.len() - 1].to_vec(), "that is cut short"),
            ([&good[..], b"!"].concat(), "that is cut short"),
        ] {
            put(key, &bytes).await;
            assert_all_refuse(limiter, &limit, key, says).await;
        }
        // Put right by somebody, it is a row again.
        put(key, &good).await;
        let told = in_time(limiter.check(&limit, key)).await;
        assert!(told.expect("a decision").granted() <= 1, "{}", limit.name());
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn whoever_shares_a_request_with_a_strange_row_is_not_charged() {
    let (limiter, key) = (limiter().await, "strange and shared");
    let (limit, beside) = (daily(10), Limit::per_day(10).fixed_window().build("beside").expect("valid"));
    assert!(in_time(limiter.check(&limit, key)).await.is_ok());
    put(key, b"hello").await;
    let both = [beside.charge(key), limit.charge(key)];
    let (alone, elsewhere) = ([beside.charge(key)], [beside.charge("beside a stranger")]);
    assert_error(in_time(limiter.check_all(both)).await, CORRUPT, &["`daily`", ADVICE]);
    assert_eq!(rows(key, "state").await.len(), 1, "nothing was written");

    // In a batch, other entities are not concerned.
    let runs = [&both[..], &elsewhere].map(|charges| Run::new(Request::new(charges), 1));
    let told = in_time(limiter.store().decide_batch(&runs, Time::EPOCH)).await;
    let [strange, elsewhere] = told.try_into().expect("an answer per run");
    assert_error(strange, CORRUPT, &["`daily`", ADVICE]);
    assert_eq!(elsewhere.expect("a decision").passed(), 1);
    assert!(in_time(limiter.check_all(alone)).await.expect("a decision").is_allowed());
    assert_eq!(used(&limiter, &beside, key).await, 1);
}

/// Nor is whoever shares a batch with it, of the same entity.
#[tokio::test]
async fn a_strange_row_fails_nobody_else_of_a_batch() {
    let (limiter, key) = (limiter().await, "strange beside others");
    let (strange, fine) = (daily(10), Limit::per_hour(10).fixed_window().build("fine").expect("valid"));
    assert!(in_time(limiter.check(&strange, key)).await.expect("a decision").is_allowed());
    put(key, b"hello").await;
    let charges = [[strange.charge(key)], [fine.charge(key)], [strange.charge(key)]];
    let runs = charges.each_ref().map(|charges| Run::new(Request::new(charges), 2));
    let mut told = in_time(limiter.store().decide_batch(&runs, limiter.clock().now())).await.into_iter();
    let says = [strange.name(), "of version 104", ADVICE];
    assert_error(told.next().expect("three"), CORRUPT, &says);
    assert_eq!(told.next().expect("three").expect("verdicts").passed(), 2);
    assert_error(told.next().expect("three"), CORRUPT, &says);
    assert_eq!(used(&limiter, &fine, key).await, 2);
}
