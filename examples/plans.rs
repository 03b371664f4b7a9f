//! Users on plans: free 50/s, standard 500/s, pro 1000/s.
//!
//! `cargo run --release --example plans`

use std::error::Error;

use tollgate::{Limit, Limiter, ManualClock};
use tollgate_rules::Plans;

fn main() -> Result<(), Box<dyn Error>> {
    let plans = Plans::builder("api")
        .plan("free", Limit::per_second(50))
        .plan("standard", Limit::per_second(500))
        .plan("pro", Limit::per_second(1000))
        .build()?;
    // A clock that stands still, so that the numbers are the same every time.
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(tollgate::memory::MemoryStore::new(), clock.clone());
    let passing = |user: &str| -> Result<usize, Box<dyn Error>> {
        let limit = plans.limit_of(user)?;
        Ok((0..2000).filter(|_| limiter.check_now(&limit, user).is_allowed()).count())
    };

    for (user, plan) in [("alice", "free"), ("bob", "standard"), ("carol", "pro")] {
        plans.register(user, plan)?;
        println!("{user} on {plan}: {} of 2000 requests pass at once", passing(user)?);
    }

    plans.change("alice", "pro")?;
    println!("alice changes to pro: {} pass at once, since what was used stays used", passing("alice")?);
    clock.advance(std::time::Duration::from_millis(100));
    println!("100 ms later {} more pass, at the new rate", passing("alice")?);

    if let Err(error) = plans.register("bob", "free") {
        println!("registering bob again: {error}");
    }
    plans.remove("bob")?;
    if let Err(error) = passing("bob") {
        println!("bob is removed: {error}");
    }
    Ok(())
}
