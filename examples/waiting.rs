//! Outgoing calls at a steady rate: a leaky bucket as a queue assigns each call a start time, and `until_ready` waits
//! for it.
//!
//! `cargo run --release --example waiting --features tokio`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, Limit};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let calls = Limit::per_second(20).queue(8).build("calls")?;
    let limiter = Arc::new(tollgate::in_memory());
    let start = limiter.clock().now();

    let mut tasks = Vec::new();
    for task in 0..12 {
        let (limiter, calls) = (Arc::clone(&limiter), calls.clone());
        tasks.push(tokio::spawn(async move {
            let decision = limiter.until_ready(&calls, "partner", Duration::from_secs(1)).await?;
            Ok::<_, tollgate::StoreError>((task, decision, limiter.clock().now().since(start)))
        }));
    }
    for task in tasks {
        let (task, decision, at) = task.await??;
        if decision.is_allowed() {
            println!("call {task:>2} started after {at:.0?}");
        } else {
            println!(
                "call {task:>2} denied, the queue is full: retry after {:.0?}",
                decision.retry_after().unwrap_or_default()
            );
        }
    }
    Ok(())
}
