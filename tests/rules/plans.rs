//! Users on plans, whose limits are rules.

use std::sync::Arc;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate::memory::MemoryDocuments;
use tollgate::rules::Plans;

use crate::Bench;

const USERS: [&str; 3] = ["alice", "bob", "carol"];

fn plans(documents: &Arc<MemoryDocuments>, clock: &ManualClock) -> Plans<ManualClock> {
    let builder = Plans::builder(Arc::clone(documents) as _).plans(["free", "standard", "pro"]);
    builder.default_plan("free").clock(clock.clone()).build().expect("valid")
}

/// Returns how many of 2000 requests of a user are admitted. Each claims to be on the plan `pro`.
async fn count(bench: &Bench, plans: &Plans<ManualClock>, user: &str) -> usize {
    let request = [("path", "/"), ("user", user), ("plan", "pro")];
    let request = plans.attributes(user, request).await.expect("a plan");
    bench.count(2000, &request).await
}

#[tokio::test]
async fn the_plan_of_a_user_selects_the_limit() {
    let bench = Bench::new("design.yaml", include_str!("design.yaml"));
    let plans = plans(&Arc::default(), &bench.clock);
    plans.register("bob", "standard").await.expect("new");
    plans.register("carol", "pro").await.expect("new");
    for (user, rate) in USERS.into_iter().zip([50, 500, 1000]) {
        assert_eq!(count(&bench, &plans, user).await, rate, "{user}");
    }
}

#[tokio::test]
async fn a_change_at_run_time_applies_at_once_and_elsewhere_a_little_later() {
    let bench = Bench::new("design.yaml", include_str!("design.yaml"));
    let documents = Arc::new(MemoryDocuments::new());
    let (here, elsewhere) = (plans(&documents, &bench.clock), plans(&documents, &bench.clock));
    let refill = Duration::from_secs(1);
    here.register("alice", "free").await.expect("new");
    assert_eq!(count(&bench, &here, "alice").await, 50);
    here.change("alice", "pro").await.expect("registered");
    assert_eq!(count(&bench, &here, "alice").await, 0, "what was consumed stays consumed");
    bench.clock.advance(refill);
    assert_eq!(count(&bench, &here, "alice").await, 1000, "refilled at the rate of the new plan");

    bench.clock.advance(refill);
    assert_eq!(count(&bench, &elsewhere, "alice").await, 1000);
    here.remove("alice").await.expect("registered");
    bench.clock.advance(refill);
    assert_eq!(count(&bench, &elsewhere, "alice").await, 1000, "from memory");
    bench.clock.advance(5 * refill);
    assert_eq!(count(&bench, &elsewhere, "alice").await, 50, "the default plan");
}
