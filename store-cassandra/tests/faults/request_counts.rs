//! How many requests a call sends.

use tollgate_core::{Limit, Limiter};
use tollgate_store_cassandra::{CassandraStore, Stats};

use crate::fixture::{daily, in_time, limiter, number, rows, stored};

/// Returns what a call sends: transactions, those that were not applied, and reads.
async fn sent<T>(limiter: &Limiter<CassandraStore>, call: impl Future<Output = T>) -> (T, [u64; 3]) {
    let all = |stats: Stats| [stats.transactions, stats.not_applied, stats.reads];
    let before = all(limiter.store().stats());
    let result = in_time(call).await;
    let after = all(limiter.store().stats());
    assert_eq!(limiter.store().stats().lost_responses, 0);
    (result, [0, 1, 2].map(|index| after[index] - before[index]))
}

const ONE_TRANSACTION: [u64; 3] = [1, 0, 0];
const TWO_WITHOUT_CACHE: [u64; 3] = [2, 1, 0];
const ONE_READ: [u64; 3] = [0, 0, 1];

#[tokio::test]
async fn a_check_is_one_transaction_and_no_read() {
    let (ours, theirs, limit, key) = (limiter().await, limiter().await, daily(10), "one transaction");
    for round in 0..3 {
        let (result, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(result.expect("a decision").is_allowed());
        assert_eq!(sent, ONE_TRANSACTION, "round {round}");
    }
    // Without the row in its cache, the first transaction is not applied, and its response contains the row.
    let (result, sent_now) = sent(&theirs, theirs.check(&limit, key)).await;
    assert_eq!((result.expect("a decision").remaining(), sent_now), (6, TWO_WITHOUT_CACHE));
    let (result, sent_now) = sent(&ours, ours.check(&limit, key)).await;
    assert_eq!((result.expect("a decision").remaining(), sent_now), (5, TWO_WITHOUT_CACHE));
    let (_, one) = sent(&ours, ours.check(&limit, key)).await;
    assert_eq!(one, ONE_TRANSACTION);
}

#[tokio::test]
async fn several_limits_of_a_key_are_one_transaction() {
    let (ours, theirs, key) = (limiter().await, limiter().await, "several limits");
    let window = Limit::per_hour(10).fixed_window().build("hourly").expect("valid");
    let limit = daily(10);
    let both = [limit.charge(key), window.charge(key)];
    for limiter in [&ours, &ours, &theirs, &theirs] {
        let (result, sent) = sent(limiter, limiter.check_all(both)).await;
        assert!(result.expect("a decision").is_allowed());
        assert!(sent == ONE_TRANSACTION || sent == TWO_WITHOUT_CACHE, "{sent:?}");
    }
    assert_eq!(theirs.store().stats().transactions, 3);
    assert_eq!(ours.store().stats().transactions, 2);
}

#[tokio::test]
async fn a_denial_writes_nothing() {
    let (ours, theirs, limit, key) = (limiter().await, limiter().await, daily(2), "denied");
    let all = [limit.charge(key).with_cost(2)];
    assert!(in_time(ours.check_all(all)).await.expect("a decision").is_allowed());
    let (before, written) = (stored(key).await, number(key, "WRITETIME(state)").await);
    for _ in 0..3 {
        let (result, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(result.expect("a decision").is_denied());
        assert_eq!(sent, ONE_READ);
    }
    // The response of the transaction that is not applied shows that nothing is left.
    let (result, sent) = sent(&theirs, theirs.check(&limit, key)).await;
    assert!(result.expect("a decision").is_denied());
    assert_eq!(sent, [1, 1, 0]);
    assert_eq!((stored(key).await, number(key, "WRITETIME(state)").await), (before, written));
}

#[tokio::test]
async fn a_denial_is_current() {
    let (ours, theirs, limit) = (limiter().await, limiter().await, daily(2));
    for (key, refund) in [("refunded", true), ("reset", false)] {
        assert!(in_time(ours.charge(limit.charge(key).with_cost(2))).await.expect("a decision").is_allowed());
        assert!(in_time(ours.check(&limit, key)).await.expect("a decision").is_denied());
        if refund {
            let _ = in_time(theirs.refund(&limit, key, 1)).await.expect("a decision");
        } else {
            in_time(theirs.reset(&limit, key)).await.expect("a decision");
        }
        // The cached row denies. It is read again, and then the unit is taken.
        let (result, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(result.expect("a decision").is_allowed(), "{key}");
        assert_eq!(sent, [1, 0, 1], "{key}");
    }
}

/// The row of a peek is a condition of the transaction: its value and its expiry do not change.
#[tokio::test]
async fn a_peek_in_a_request_writes_nothing() {
    let (ours, theirs, key) = (limiter().await, limiter().await, "peeked");
    let (limit, peeked) = (daily(10), Limit::per_hour(2).build("peeked").expect("valid"));
    let written = async || {
        let mut rows = rows(key, "limit_name, state, WRITETIME(state)").await;
        rows.retain(|row| row[0].as_deref() == Some(b"peeked~1"));
        rows
    };
    assert!(in_time(ours.charge(peeked.charge(key).with_cost(1))).await.expect("a decision").is_allowed());
    let before = written().await;
    let charges = [limit.charge(key), peeked.charge(key).with_cost(0)];
    for round in 0..3 {
        let (result, sent) = sent(&ours, ours.check_all(charges)).await;
        assert_eq!((result.expect("a verdict").is_allowed(), sent), (true, ONE_TRANSACTION), "round {round}");
    }
    assert_eq!((before.len(), written().await), (1, before));
    // Once nothing is left, the peek denies the request, although the cached row would allow it.
    assert!(in_time(theirs.charge(peeked.charge(key).with_cost(1))).await.expect("a decision").is_allowed());
    assert!(in_time(ours.check_all(charges)).await.expect("a verdict").is_denied());
    assert_eq!(in_time(theirs.peek(&limit, key)).await.expect("a decision").remaining(), 7);
}
