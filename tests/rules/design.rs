//! The example of the design, in all formats: each rule admits what it says.

use std::time::Duration;

use tollgate::Outcome;

use crate::Bench;

const FILES: [(&str, &str); 3] = [
    ("design.yaml", include_str!("design.yaml")),
    ("design.toml", include_str!("design.toml")),
    ("design.json", include_str!("design.json")),
];
const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn benches() -> impl Iterator<Item = Bench> {
    FILES.into_iter().map(|(file, text)| Bench::new(file, text))
}

type Request<'a> = [(&'a str, &'a str); 4];

/// A request of a user on the largest plan.
fn request<'a>(method: &'a str, path: &'a str, user: &'a str) -> Request<'a> {
    [("method", method), ("path", path), ("user", user), ("plan", "pro")]
}

#[tokio::test]
async fn the_api_is_limited_per_second_and_per_day() {
    for bench in benches() {
        let alice = request("GET", "/api/items", "alice");
        let mut admitted = bench.count(1000, &alice).await;
        assert_eq!(admitted, 100, "the burst");
        let elsewhere = request("GET", "/", "alice");
        assert_eq!(bench.count(2000, &elsewhere).await, 900, "a denied request is not charged to the plan");
        // Half of the requests are denied by the limit per second: they are not charged to the day.
        for second in 1..=300 {
            bench.clock.advance(SECOND);
            admitted += bench.count(100, &alice).await;
            let (per_second, per_day) = (100 + 50 * second, 10_000 + second * 10_000 / 86_400);
            assert_eq!(admitted, per_second.min(per_day), "after {second} s");
        }
        assert_eq!(bench.count(1000, &request("POST", "/api", "bob")).await, 100, "another user");
        assert_eq!(
            bench.count(1100, &request("DELETE", "/api/items", "carol")).await,
            1000,
            "the plan alone"
        );
        assert_eq!(bench.count(1100, &request("GET", "/apis", "dan")).await, 1000, "the plan alone");
        let nobody = [("method", "GET"), ("path", "/api/items")];
        assert_eq!(bench.count(2000, &nobody).await, 2000, "no rule counts it");
    }
}

#[tokio::test]
async fn logins_are_blocked_for_a_quarter_of_an_hour() {
    for bench in benches() {
        let login = |ip| [("method", "POST"), ("path", "/login"), ("ip", ip)];
        assert_eq!(bench.count(5, &login("192.0.2.1")).await, 5);
        let denied = bench.admit(&login("192.0.2.1")).await;
        assert!(denied.is_denied());
        let block = 900 * SECOND;
        assert_eq!(denied.verdict().decisions()[0].retry_after(), Some(block));
        assert_eq!(bench.count(50, &login("192.0.2.1")).await, 0);
        assert_eq!(bench.count(50, &login("192.0.2.2")).await, 5, "another address");
        let page = [("method", "GET"), ("path", "/login"), ("ip", "192.0.2.1")];
        assert_eq!(bench.count(50, &page).await, 50, "the form itself");
        bench.clock.advance(block.saturating_sub(NANO));
        assert_eq!(bench.count(50, &login("192.0.2.1")).await, 0);
        bench.clock.advance(NANO);
        assert_eq!(bench.count(50, &login("192.0.2.1")).await, 5);
    }
}

#[tokio::test]
async fn each_plan_has_its_rate() {
    for bench in benches() {
        let on = |user, plan| [("path", "/"), ("user", user), ("plan", plan)];
        for (user, plan, rate) in
            [("ann", "free", 50), ("ben", "standard", 500), ("cleo", "pro", 1000), ("dave", "gold", 50)]
        {
            assert_eq!(bench.count(2000, &on(user, plan)).await, rate, "{plan}");
            bench.clock.advance(SECOND / 10);
            assert_eq!(bench.count(2000, &on(user, plan)).await, rate / 10, "{plan}, refilled");
        }
        assert_eq!(bench.count(2000, &[("user", "eve")]).await, 50, "the default plan");
    }
}

#[tokio::test]
async fn a_user_who_changes_plan_keeps_what_was_consumed() {
    for bench in benches() {
        let on = |plan| [("path", "/"), ("user", "alice"), ("plan", plan)];
        assert_eq!(bench.count(25, &on("free")).await, 25, "half of the plan");
        assert_eq!(bench.count(2000, &on("pro")).await, 500, "the other half of the larger one");
        assert_eq!(bench.count(2000, &on("free")).await, 0, "no fresh counter on the way back");
        bench.clock.advance(SECOND / 10);
        assert_eq!(bench.count(2000, &on("standard")).await, 50, "refilled at the rate of the plan");
    }
}

#[tokio::test]
async fn three_exports_run_at_once() {
    for bench in benches() {
        let export = request("GET", "/export/all", "alice");
        let mut running = Vec::new();
        for _ in 0..3 {
            running.push(bench.admit(&export).await);
        }
        assert!(running.iter().all(|admission| admission.is_allowed() && admission.permits().len() == 1));
        let denied = bench.admit(&export).await;
        assert_eq!(denied.verdict().most_restrictive_limit(), Some("shop/exports/concurrent"));
        drop(denied);
        assert_eq!(bench.count(10, &export).await, 0, "what is denied releases nothing");
        assert!(bench.admit(&request("GET", "/export/all", "bob")).await.is_allowed(), "another user");

        running.pop();
        let next = bench.admit(&export).await;
        assert!(next.is_allowed());
        assert_eq!(bench.count(10, &export).await, 0, "one slot for one that ended");

        // A process that dies releases nothing: its leases expire.
        drop(next);
        for permit in running.into_iter().flat_map(tollgate::Admission::into_permits) {
            permit.forget();
        }
        let held = bench.admit(&export).await;
        assert_eq!(bench.count(10, &export).await, 0);
        bench.clock.advance(60 * SECOND);
        drop(held);
        let again = [bench.admit(&export).await, bench.admit(&export).await, bench.admit(&export).await];
        assert!(again.iter().all(tollgate::Admission::is_allowed));
        assert_eq!(bench.admit(&export).await.verdict().decisions()[1].outcome(), Outcome::Denied);
    }
}

#[tokio::test]
async fn a_chat_costs_its_tokens() {
    for bench in benches() {
        let chat = |key, model, tokens| {
            [("path", "/v1/chat/completions"), ("api_key", key), ("model", model), ("tokens", tokens)]
        };
        assert_eq!(bench.count(10, &chat("k1", "large", "40000")).await, 2);
        assert_eq!(bench.count(10, &chat("k1", "large", "20001")).await, 0);
        assert_eq!(bench.count(10, &chat("k1", "large", "20000")).await, 1, "all that is left");
        assert_eq!(bench.count(10, &chat("k1", "small", "40000")).await, 2, "another model");
        assert_eq!(bench.count(10, &chat("k2", "large", "40000")).await, 2, "another key");
        bench.clock.advance(6 * SECOND);
        assert_eq!(bench.count(10, &chat("k1", "large", "5000")).await, 2, "a tenth is refilled");
        assert_eq!(bench.count(10, &chat("k3", "large", "100001")).await, 0, "more than there ever is");
        let anonymous = [("path", "/v1/chat/completions"), ("model", "large"), ("tokens", "100001")];
        assert_eq!(bench.count(10, &anonymous).await, 10, "no silent shared counter");
        let unknown = [("path", "/v1/chat/completions"), ("api_key", "k4"), ("model", "large")];
        assert_eq!(bench.count(10, &unknown).await, 10, "costs 1 each");
        assert_eq!(bench.count(1, &chat("k4", "large", "99991")).await, 0);
        assert_eq!(bench.count(1, &chat("k4", "large", "99990")).await, 1);
    }
}
