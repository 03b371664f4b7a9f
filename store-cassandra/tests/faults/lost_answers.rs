//! Questions without an answer: what became of them is found out.

use std::time::Duration;

use tollgate_core::{Effect, ErrorKind, Limit, Limiter};
use tollgate_store_cassandra::CassandraStore;

use crate::expect::{assert_error, connect, daily, in_time, limiter, node, spent, used};
use crate::proxy::{Fate, Proxy};

/// A node is given up after half of it, so this decides how long a test takes. Still longer than a busy node does.
const CALL: Duration = Duration::from_secs(4);

/// A limiter behind a proxy that minds a key, and has seen its row.
async fn behind(proxy: &Proxy, key: &str) -> Limiter<CassandraStore> {
    let limiter = Limiter::new(connect(proxy.config().call_timeout(CALL)).await);
    assert!(in_time(limiter.check(&daily(100), key)).await.expect("a decision").is_allowed());
    limiter
}

#[tokio::test]
async fn a_transaction_whose_answer_is_lost_is_found_in_the_row() {
    let key = "answer lost";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    proxy.next(&[Fate::AnswerLost]);
    let told = in_time(hurt.check(&daily(100), key)).await.expect("found");
    assert!(told.is_allowed() && proxy.is_done());
    assert_eq!((spent(&told), used(&direct, &daily(100), key).await), (2, 2));
    let counts = hurt.store().counts();
    assert_eq!((counts.transactions, counts.lost, counts.reads), (2, 1, 1));
}

#[tokio::test]
async fn several_rows_are_found_as_one() {
    let key = "answers lost";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    let (limit, window) = (daily(100), Limit::per_day(50).fixed_window().build("window").expect("valid"));
    proxy.next(&[Fate::AnswerLost]);
    let told = in_time(hurt.check_all([limit.charge(key), window.charge(key)])).await.expect("found");
    assert!(told.is_allowed() && proxy.is_done());
    assert_eq!((used(&direct, &limit, key).await, used(&direct, &window, key).await), (2, 1));
}

#[tokio::test]
async fn a_transaction_that_never_arrived_is_sent_again() {
    let key = "question lost";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    proxy.next(&[Fate::Lost]);
    let told = in_time(hurt.check(&daily(100), key)).await.expect("sent again");
    assert!(told.is_allowed() && proxy.is_done());
    assert_eq!((spent(&told), used(&direct, &daily(100), key).await), (2, 2));
    let counts = hurt.store().counts();
    assert_eq!((counts.transactions, counts.lost, counts.reads), (3, 1, 1));
}

/// It was looked for, and was not there yet; then it arrives before the one that is sent in its place.
#[tokio::test]
async fn a_transaction_that_arrives_late_counts_once() {
    let key = "question late";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    proxy.next(&[Fate::Delayed, Fate::Answered, Fate::Overtaken]);
    let told = in_time(hurt.check(&daily(100), key)).await.expect("found");
    assert!(told.is_allowed() && proxy.is_done());
    assert_eq!((spent(&told), used(&direct, &daily(100), key).await), (2, 2));
}

/// Where a row was not there before, nothing tells the writes of others apart.
#[tokio::test]
async fn a_first_transaction_that_arrives_late_counts_once() {
    let key = "first question late";
    let proxy = Proxy::to(node().await, key).await;
    let hurt = Limiter::new(connect(proxy.config().call_timeout(CALL)).await);
    proxy.next(&[Fate::Delayed, Fate::Answered, Fate::Overtaken]);
    let told = in_time(hurt.check(&daily(100), key)).await.expect("found");
    assert!(told.is_allowed() && proxy.is_done());
    assert_eq!((spent(&told), used(&limiter().await, &daily(100), key).await), (1, 1));
}

#[tokio::test]
async fn a_row_that_has_forgotten_makes_the_effect_unknown() {
    let key = "row has forgotten";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    proxy.next(&[Fate::AnswerLost]);
    let limit = daily(100);
    let others = async {
        proxy.has_lost().await;
        // One more than a row remembers.
        for _ in 0..17 {
            assert!(in_time(direct.check(&limit, key)).await.expect("a decision").is_allowed());
        }
    };
    let (told, ()) = tokio::join!(in_time(hurt.check(&limit, key)), others);
    let unknown = (ErrorKind::Timeout, Effect::Unknown);
    assert_error(told, unknown, &["did not answer in time", "may have taken effect"]);
    // Told are the first and those of others; the one in doubt has counted.
    assert_eq!(used(&direct, &limit, key).await, 1 + 17 + 1);
    // The next is fine.
    assert_eq!(spent(&in_time(hurt.check(&limit, key)).await.expect("a decision")), 20);
}

#[tokio::test]
async fn silence_costs_no_more_than_the_call_has_time_for() {
    let key = "silence";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    proxy.next(&[Fate::AnswerLost, Fate::AnswerLost, Fate::AnswerLost]);
    let told = in_time(hurt.check(&daily(100), key)).await;
    assert_error(told, (ErrorKind::Timeout, Effect::Unknown), &["may have taken effect"]);
    assert_eq!(used(&direct, &daily(100), key).await, 2, "it has");
}

#[tokio::test]
async fn a_connection_that_ends_instead_of_an_answer_is_made_again_to_find_out() {
    let key = "hung up";
    let proxy = Proxy::to(node().await, key).await;
    let (hurt, direct) = (behind(&proxy, key).await, limiter().await);
    for round in 2..=4 {
        proxy.next(&[Fate::HungUpOn]);
        let told = in_time(hurt.check(&daily(100), key)).await.expect("found");
        assert!(told.is_allowed() && proxy.is_done());
        assert_eq!((spent(&told), used(&direct, &daily(100), key).await), (round, round));
    }
}
