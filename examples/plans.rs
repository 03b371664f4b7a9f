//! Users on plans: free 50/s, standard 500/s, pro 1000/s.
//!
//! `cargo run --release --example plans --features rules`

use std::error::Error;

use tollgate::rules::Plans;
use tollgate::{Limit, Limiter, ManualClock};

fn main() -> Result<(), Box<dyn Error>> {
    let plans = Plans::builder("api")
        .plan("free", Limit::per_second(50))
        .plan("standard", Limit::per_second(500))
        .plan("pro", Limit::per_second(1000))
        .build()?;
    // A manual clock, so that every run prints the same numbers.
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(tollgate::memory::MemoryStore::new(), clock.clone());
    let count_allowed = |user: &str| -> Result<usize, Box<dyn Error>> {
        let limit = plans.limit_of(user)?;
        Ok((0..2000).filter(|_| limiter.check_now(&limit, user).is_allowed()).count())
    };

    for (user, plan) in [("alice", "free"), ("bob", "standard"), ("carol", "pro")] {
        plans.register(user, plan)?;
        println!("{user} on {plan}: {} of 2000 requests are allowed at once", count_allowed(user)?);
    }

    plans.change("alice", "pro")?;
    println!(
        "alice changes to pro: {} are allowed at once, since consumed quota stays consumed",
        count_allowed("alice")?
    );
    clock.advance(std::time::Duration::from_millis(100));
    println!("100 ms later {} more are allowed, at the new rate", count_allowed("alice")?);

    if let Err(error) = plans.register("bob", "free") {
        println!("registering bob again: {error}");
    }
    plans.remove("bob")?;
    if let Err(error) = count_allowed("bob") {
        println!("bob after his removal: {error}");
    }
    Ok(())
}
