//! Converge, diverge, reconverge: three hosts that share four a second.

use std::time::Duration;

use tollgate_core::Limit;

use crate::fleet::Fleet;

fn four_a_second() -> Limit {
    Limit::per_second(4).build("api").expect("valid")
}

#[tokio::test]
async fn after_an_exchange_everybody_knows_what_is_gone() {
    let (fleet, limit) = (Fleet::of(3, |node| node), four_a_second());
    for (host, requests) in [(0, 2), (1, 1), (2, 1)] {
        assert_eq!(fleet.passed(host, &limit, requests).await, requests);
    }
    fleet.exchange().await;
    for host in 0..3 {
        assert_eq!(fleet.take(host, &limit, 0).await.remaining(), 0, "host {host}");
        assert_eq!(fleet.passed(host, &limit, 4).await, 0, "host {host}");
    }
}

#[tokio::test]
async fn what_passed_too_much_is_repaid() {
    let (fleet, limit) = (Fleet::of(3, |node| node), four_a_second());
    for host in 0..3 {
        assert_eq!(fleet.passed(host, &limit, 6).await, 4, "nobody knows of the others yet");
    }
    fleet.exchange().await;
    assert_eq!(fleet.at_centre(&limit).await.debt(), 8);
    for host in 0..3 {
        assert_eq!(fleet.take(host, &limit, 0).await.debt(), 8, "host {host} knows");
    }
    // Nothing for two seconds, whether they exchange or not.
    let step = Duration::from_millis(50);
    for moment in 0..40 {
        for host in 0..3 {
            assert_eq!(fleet.passed(host, &limit, 2).await, 0, "host {host} after {:?}", moment * step);
        }
        fleet.advance(step);
        if moment % 4 == 0 {
            fleet.exchange().await;
        }
    }
    assert_eq!(fleet.at_centre(&limit).await.debt(), 0, "two seconds are over");
    // And then four a second again, all of them together.
    let mut passed = 0;
    for _ in 0..400 {
        fleet.advance(step);
        for host in 0..3 {
            passed += fleet.passed(host, &limit, 1).await;
        }
        fleet.exchange().await;
    }
    let debt = usize::try_from(fleet.at_centre(&limit).await.debt()).expect("small");
    assert!((76..=80 + debt).contains(&passed), "{passed} in twenty seconds, {debt} of them on credit");
}
