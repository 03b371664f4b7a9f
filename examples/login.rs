//! Logins: five a minute for each account and for each address, and nothing for 15 minutes after too many.
//!
//! `cargo run --release --example login --features rules`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::rules::{RuleSet, Source, check};
use tollgate::{Limiter, ManualClock};

const RULES: &str = "
domain: shop
rules:
  # Whoever guesses the password of one account, from many addresses.
  - name: login-account
    when: { path: /login, method: POST }
    per: user
    limit: { rate: 5/min, algorithm: sliding_window, block_for: 15m }
    on_store_error: deny

  # Whoever tries one password on many accounts.
  - name: login-address
    when: { path: /login, method: POST }
    per: ip
    limit: { rate: 5/min, algorithm: sliding_window, block_for: 15m }
    on_store_error: deny
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", check([Source::new("shop.yaml", RULES)])?);
    let rules = RuleSet::from_sources([Source::new("shop.yaml", RULES)])?;
    let shop = rules.domain("shop").ok_or("no such domain")?;
    // A manual clock, so that every run prints the same and nobody waits for 15 minutes.
    let clock = ManualClock::default();
    let limiter = Arc::new(Limiter::with_clock(MemoryStore::new(), clock.clone()));
    let login = async |user: &str, ip: &str| -> Result<(), Box<dyn Error>> {
        let request = [("path", "/login"), ("method", "POST"), ("user", user), ("ip", ip)];
        let admission = shop.match_attributes(&request).admit(&limiter).await?;
        match admission.verdict().retry_after() {
            Some(wait) => {
                let limit = admission.verdict().most_restrictive_limit().unwrap_or_default();
                println!("{user} from {ip}: denied by {limit}, retry in {} s", wait.as_secs());
            }
            None => println!("{user} from {ip}: allowed"),
        }
        Ok(())
    };

    for attempt in 1..=6 {
        login("alice", &format!("192.0.2.{attempt}")).await?;
    }
    println!("-- the address that was denied last may log in to another account");
    login("bob", "192.0.2.6").await?;
    println!("-- one network of IPv6 addresses, six accounts");
    for (attempt, user) in ["carol", "dave", "erin", "frank", "grace", "heidi"].into_iter().enumerate() {
        login(user, &format!("2001:db8:1:2::{attempt:x}")).await?;
    }
    println!("-- five minutes later");
    clock.advance(Duration::from_secs(5 * 60));
    login("alice", "192.0.2.7").await?;
    println!("-- and ten minutes after that");
    clock.advance(Duration::from_secs(10 * 60));
    login("alice", "192.0.2.7").await?;
    Ok(())
}
