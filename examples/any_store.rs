//! One program on any store: the URL selects it, and nothing else changes.
//!
//! ```sh
//! cargo run --example any_store                                          # memory of this process
//! cargo run --example any_store --features redis -- redis://127.0.0.1    # shared by all processes
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

    // Several limits in one round trip: all are debited or none is.
    for request in 1..=5 {
        let verdict = limiter.check_all([api.charge("user:42"), daily.charge("user:42")]).await?;
        match verdict.retry_after() {
            None => {
                println!("request {request} allowed, {} remaining today", verdict.decisions()[1].remaining());
            }
            Some(wait) => println!("request {request} denied, retry after {wait:?}"),
        }
    }
    limiter.reset(&api, "user:42").await?;
    limiter.reset(&daily, "user:42").await?;
    Ok(())
}
