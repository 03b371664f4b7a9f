//! Users on plans: free 50/s, standard 500/s, pro 1000/s.
//!
//! `cargo run --release --example plans --features rules`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::memory::{MemoryDocuments, MemoryStore};
use tollgate::rules::{PlanError, Plans};
use tollgate::{Limit, Limiter, ManualClock};

/// What each plan allows per second. In a service, this is in the rules: `plan: { by: plan, free: 50/s, … }`.
const RATES: [(&str, u32); 3] = [("free", 50), ("standard", 500), ("pro", 1000)];

struct Api {
    plans: Plans<ManualClock>,
    limiter: Limiter<MemoryStore, ManualClock>,
}

impl Api {
    /// Counts how many of 2000 requests of a user are allowed at once. All plans are one limit, `api`, with different
    /// rates: so a user who changes plan keeps the state.
    async fn count_allowed(&self, user: &str) -> Result<usize, Box<dyn Error>> {
        let plan = self.plans.plan_of(user).await?;
        let rate = RATES.iter().find(|(name, _)| *name == plan.name()).expect("every plan has a rate").1;
        let limit = Limit::per_second(rate).build("api")?;
        Ok((0..2000).filter(|_| self.limiter.check_now(&limit, user).is_allowed()).count())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A manual clock, so that every run prints the same numbers.
    let clock = ManualClock::default();
    // Assignments are documents. A fleet keeps them in files, on Redis or on Cassandra, and sees the same ones.
    let documents = Arc::new(MemoryDocuments::new());
    let plans = Plans::builder(documents.clone())
        .plans(RATES.map(|(name, _)| name))
        .author("billing")
        .clock(clock.clone())
        .build()?;
    let api = Api { plans, limiter: Limiter::with_clock(MemoryStore::new(), clock.clone()) };
    let plans = &api.plans;

    for (user, plan) in [("alice", "free"), ("bob", "standard"), ("carol", "pro")] {
        plans.register(user, plan).await?;
        println!("{user} on {plan}: {} of 2000 requests are allowed at once", api.count_allowed(user).await?);
    }

    let changed = plans.change("alice", "pro").await?;
    let allowed = api.count_allowed("alice").await?;
    println!(
        "alice changes to {}: {allowed} are allowed at once, since consumed quota stays consumed",
        changed.plan
    );
    clock.advance(Duration::from_millis(100));
    println!("100 ms later {} more are allowed, at the new rate", api.count_allowed("alice").await?);

    print_error("registering bob again", plans.register("bob", "free").await);
    print_error("moving bob to plan gold", plans.change("bob", "gold").await);

    // A colleague in support has read alice's assignment before the change above.
    let support =
        Plans::builder(documents.clone()).plans(["free", "standard", "pro"]).author("support").build()?;
    print_error("support changes alice, too", support.change_version("alice", "standard", 1).await);
    print_error("nobody registered dan", plans.plan_of("dan").await);

    plans.remove("bob").await?;
    print_error("bob after his removal", plans.plan_of("bob").await);
    let with_default =
        Plans::builder(documents).plans(["free", "standard", "pro"]).default_plan("free").build()?;
    println!("bob with a default plan: {}", with_default.plan_of("bob").await?);
    Ok(())
}

fn print_error<T>(what: &str, result: Result<T, PlanError>) {
    if let Err(error) = result {
        println!("{what}: {error}");
    }
}
