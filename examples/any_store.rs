//! One program, any store: the URL decides, and nothing else changes.
//!
//! ```sh
//! cargo run --example any_store                                          # this process's memory
//! cargo run --example any_store --features redis -- redis://127.0.0.1    # shared by a fleet
//! cargo run --example any_store --features cassandra -- cassandra://127.0.0.1/limits
//! ```

use std::error::Error;

use tollgate::Limit;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    let limiter = tollgate::connect(&url).await?;

    let api = Limit::per_second(5).burst(3).build("api")?;
    let daily = Limit::per_day(1_000).fixed_window().build("daily")?;

    // Several limits, one round trip, all or nothing.
    for request in 1..=5 {
        let verdict = limiter.check_all([api.charge("user:42"), daily.charge("user:42")]).await?;
        match verdict.retry_after() {
            None => println!("request {request} passed, {} left today", verdict.decisions()[1].remaining()),
            Some(wait) => println!("request {request} denied, retry in {wait:?}"),
        }
    }
    limiter.reset(&api, "user:42").await?;
    limiter.reset(&daily, "user:42").await?;
    Ok(())
}
