//! What is sent, and what is not.

use tollgate_core::{Limit, Limiter};
use tollgate_store_cassandra::{CassandraStore, Counts};

use crate::expect::{daily, in_time, limiter, number, rows, stored};

/// What a call sends: transactions, those of them that are refused, and reads.
async fn sent<T>(limiter: &Limiter<CassandraStore>, call: impl Future<Output = T>) -> (T, [u64; 3]) {
    let all = |counts: Counts| [counts.transactions, counts.refused, counts.reads];
    let before = all(limiter.store().counts());
    let told = in_time(call).await;
    let after = all(limiter.store().counts());
    assert_eq!(limiter.store().counts().lost, 0);
    (told, [0, 1, 2].map(|index| after[index] - before[index]))
}

const ONE_TRANSACTION: [u64; 3] = [1, 0, 0];
const ONE_MORE_TO_SEE_THE_ROW: [u64; 3] = [2, 1, 0];
const ONE_READ: [u64; 3] = [0, 0, 1];

#[tokio::test]
async fn a_check_is_one_transaction_and_no_read() {
    let (ours, theirs, limit, key) = (limiter().await, limiter().await, daily(10), "one transaction");
    for round in 0..3 {
        let (told, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(told.expect("a decision").is_allowed());
        assert_eq!(sent, ONE_TRANSACTION, "round {round}");
    }
    // Whoever has not seen the row is shown it by a transaction that is refused.
    let (told, one_more) = sent(&theirs, theirs.check(&limit, key)).await;
    assert_eq!((told.expect("a decision").remaining(), one_more), (6, ONE_MORE_TO_SEE_THE_ROW));
    let (told, one_more) = sent(&ours, ours.check(&limit, key)).await;
    assert_eq!((told.expect("a decision").remaining(), one_more), (5, ONE_MORE_TO_SEE_THE_ROW));
    let (_, one) = sent(&ours, ours.check(&limit, key)).await;
    assert_eq!(one, ONE_TRANSACTION);
}

#[tokio::test]
async fn several_limits_of_an_entity_are_one_transaction() {
    let (ours, theirs, key) = (limiter().await, limiter().await, "one for all");
    let window = Limit::per_hour(10).fixed_window().build("hourly").expect("valid");
    let limit = daily(10);
    let both = [limit.charge(key), window.charge(key)];
    for limiter in [&ours, &ours, &theirs, &theirs] {
        let (told, sent) = sent(limiter, limiter.check_all(both)).await;
        assert!(told.expect("a decision").is_allowed());
        assert!(sent == ONE_TRANSACTION || sent == ONE_MORE_TO_SEE_THE_ROW, "{sent:?}");
    }
    assert_eq!(theirs.store().counts().transactions, 3);
    assert_eq!(ours.store().counts().transactions, 2);
}

#[tokio::test]
async fn a_denial_writes_nothing() {
    let (ours, theirs, limit, key) = (limiter().await, limiter().await, daily(2), "denied");
    let all = [limit.charge(key).with_cost(2)];
    assert!(in_time(ours.check_all(all)).await.expect("a decision").is_allowed());
    let (before, written) = (stored(key).await, number(key, "WRITETIME(state)").await);
    for _ in 0..3 {
        let (told, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(told.expect("a decision").is_denied());
        assert_eq!(sent, ONE_READ);
    }
    // The transaction that shows the row shows that there is nothing left, too.
    let (told, refused) = sent(&theirs, theirs.check(&limit, key)).await;
    assert!(told.expect("a decision").is_denied());
    assert_eq!(refused, [1, 1, 0]);
    assert_eq!((stored(key).await, number(key, "WRITETIME(state)").await), (before, written));
}

#[tokio::test]
async fn a_denial_is_of_now() {
    let (ours, theirs, limit) = (limiter().await, limiter().await, daily(2));
    for (key, gives_back) in [("refunded", true), ("forgotten", false)] {
        assert!(in_time(ours.charge(limit.charge(key).with_cost(2))).await.expect("a decision").is_allowed());
        assert!(in_time(ours.check(&limit, key)).await.expect("a decision").is_denied());
        if gives_back {
            let _ = in_time(theirs.refund(&limit, key, 1)).await.expect("a decision");
        } else {
            in_time(theirs.reset(&limit, key)).await.expect("a decision");
        }
        // What was seen last says no. It is looked at once more, and then taken.
        let (told, sent) = sent(&ours, ours.check(&limit, key)).await;
        assert!(told.expect("a decision").is_allowed(), "{key}");
        assert_eq!(sent, [1, 0, 1], "{key}");
    }
}

/// A limit that is only looked at is a condition of the transaction: its row stays as it was, and when it ends.
#[tokio::test]
async fn what_is_only_looked_at_is_not_written() {
    let (ours, theirs, key) = (limiter().await, limiter().await, "looked at");
    let (limit, seen) = (daily(10), Limit::per_hour(2).build("seen").expect("valid"));
    let written = async || {
        let mut rows = rows(key, "limit_name, state, WRITETIME(state)").await;
        rows.retain(|row| row[0].as_deref() == Some(b"seen~1"));
        rows
    };
    assert!(in_time(ours.charge(seen.charge(key).with_cost(1))).await.expect("a decision").is_allowed());
    let before = written().await;
    let look = [limit.charge(key), seen.charge(key).with_cost(0)];
    for round in 0..3 {
        let (told, sent) = sent(&ours, ours.check_all(look)).await;
        assert_eq!((told.expect("a verdict").is_allowed(), sent), (true, ONE_TRANSACTION), "round {round}");
    }
    assert_eq!((before.len(), written().await), (1, before));
    // Once nothing is left there, the look denies, and nothing is taken from the other, whatever was seen before.
    assert!(in_time(theirs.charge(seen.charge(key).with_cost(1))).await.expect("a decision").is_allowed());
    assert!(in_time(ours.check_all(look)).await.expect("a verdict").is_denied());
    assert_eq!(in_time(theirs.peek(&limit, key)).await.expect("a decision").remaining(), 7);
}
