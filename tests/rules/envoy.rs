//! A file of Envoy's reference service, decided by descriptors. Those in quota mode are in `quotas`.

use std::time::Duration;

use tollgate::{Decision, Source};

use crate::Bench;

fn bench() -> Bench {
    Bench::new("edge.yaml", include_str!("edge.yaml"))
}

fn address(address: &str) -> [[(&'static str, &str); 1]; 1] {
    [[("remote_address", address)]]
}

#[tokio::test]
async fn a_window_is_aligned_and_counts_per_value() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(25, &address("192.0.2.1")).await, 10);
    assert_eq!(bench.count_descriptors(25, &address("192.0.2.2")).await, 10);
    // The clock starts 20 s after the start of a minute.
    bench.clock.advance(Duration::from_millis(39_999));
    assert_eq!(bench.count_descriptors(25, &address("192.0.2.1")).await, 0);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.count_descriptors(25, &address("192.0.2.1")).await, 10);
}

#[tokio::test]
async fn values_are_unlimited_free_or_blocked() {
    let bench = bench();
    for (value, admitted) in [("203.0.113.7", 50), ("203.0.113.8", 50), ("203.0.113.66", 0)] {
        assert_eq!(bench.count_descriptors(50, &address(value)).await, admitted, "{value}");
    }
    let blocked = bench.admit_descriptors(&address("203.0.113.66")).await;
    assert_eq!(blocked.verdict().decisions()[0].source(), Source::Rule);
    // What a blocked value denies is not charged to anybody.
    let both = [("remote_address", "192.0.2.1"), ("remote_address", "203.0.113.66")].map(|entry| [entry]);
    assert_eq!(bench.count_descriptors(50, &both).await, 0);
    assert_eq!(bench.count_descriptors(50, &address("192.0.2.1")).await, 10);
    assert_eq!(bench.count_descriptors(50, &[[("unknown", "key")]]).await, 50);
}

#[tokio::test]
async fn the_first_wildcard_counts_and_shares_if_it_says_so() {
    let bench = bench();
    assert_eq!(bench.count_descriptors(2, &address("198.51.100.1")).await, 2);
    assert_eq!(bench.count_descriptors(2, &address("198.51.100.2")).await, 1, "one counter for all");
    assert_eq!(bench.count_descriptors(9, &address("198.51.7.1")).await, 2);
    assert_eq!(bench.count_descriptors(9, &address("198.51.7.2")).await, 2, "a counter for each");
}

#[tokio::test]
async fn rules_match_at_their_depth_only() {
    let bench = bench();
    let login = |method| [[("path", "/login"), ("method", method)]];
    assert_eq!(bench.count_descriptors(20, &login("POST")).await, 4);
    assert_eq!(bench.count_descriptors(20, &login("PUT")).await, 6, "the bare key");
    assert_eq!(bench.count_descriptors(20, &login("GET")).await, 6, "the bare key, another value");
    assert_eq!(bench.count_descriptors(20, &[[("path", "/login")]]).await, 20);
    let deeper = [[("path", "/login"), ("method", "POST"), ("user", "alice")]];
    assert_eq!(bench.count_descriptors(20, &deeper).await, 20);
    let turned = [[("method", "POST"), ("path", "/login")]];
    assert_eq!(bench.count_descriptors(20, &turned).await, 20);
}

#[tokio::test]
async fn all_descriptors_of_a_request_are_charged_or_none_is() {
    let bench = bench();
    let both = [vec![("remote_address", "192.0.2.1")], vec![("path", "/login"), ("method", "POST")]];
    assert_eq!(bench.count_descriptors(20, &both).await, 4);
    assert_eq!(bench.count_descriptors(20, &address("192.0.2.1")).await, 6);
}

#[tokio::test]
async fn shadow_mode_counts_and_never_denies() {
    let bench = bench();
    for would_be_denied in [false, false, true, true] {
        let admission = bench.admit_descriptors(&[[("beta", "x")]]).await;
        let shadowed: Vec<_> = admission.shadowed().iter().flatten().map(Decision::is_shadowed).collect();
        assert_eq!((admission.is_allowed(), shadowed), (true, vec![would_be_denied]));
    }
}

#[tokio::test]
async fn a_limit_replaces_those_that_it_names() {
    let bench = bench();
    let partner = [("remote_address", "192.0.2.1"), ("partner", "acme")].map(|entry| [entry]);
    assert_eq!(bench.count_descriptors(30, &partner).await, 15);
    assert_eq!(bench.count_descriptors(30, &address("192.0.2.1")).await, 10, "not counted before");
}

#[tokio::test]
async fn a_rule_and_a_descriptor_never_share_a_counter() {
    let bench = Bench::new(
        "edge.yaml",
        "
domain: edge
rules:
  - { name: app, per: [app, user], limit: { rate: 5/min, algorithm: fixed_window, name: user } }
descriptors:
  - key: app
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 5 }
",
    );
    assert_eq!(bench.count_descriptors(20, &[[("app", "shop"), ("user", "ann")]]).await, 5);
}
