//! Local decisions at memory speed: three nodes decide locally and synchronize with a central store every 50 ms.
//!
//! ```sh
//! cargo run --release --example memory_speed --features sync                              # central store in memory
//! cargo run --release --example memory_speed --features sync,redis -- redis://127.0.0.1   # central store on Redis
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::sync::Synced;
use tollgate::{AnyStore, ConfigError, Limit, Limiter, Timer};

const INTERVAL: Duration = Duration::from_millis(50);
const KEY: &str = "all-users";

type Node = Limiter<Synced<Arc<AnyStore>>>;

fn node(central_store: &Arc<AnyStore>) -> Result<Node, ConfigError> {
    Ok(Limiter::new(Synced::builder(Arc::clone(central_store)).interval(INTERVAL).build()?))
}

/// Returns how many sync rounds a node has completed.
fn sync_rounds(node: &Node) -> u64 {
    node.store().stats().sync_rounds
}

/// Makes `times` checks, and returns how many were allowed.
async fn check(node: &Node, limit: &Limit, times: u32) -> Result<u32, Box<dyn Error>> {
    let mut allowed = 0;
    for _ in 0..times {
        allowed += u32::from(node.check(limit, KEY).await?.is_allowed());
    }
    Ok(allowed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    // In production every process has its own connection; in this example three nodes share one.
    let central_store = Arc::new(tollgate::connect(&url).await?.into_store());
    let central = Limiter::new(Arc::clone(&central_store));
    let nodes = [node(&central_store)?, node(&central_store)?, node(&central_store)?];

    let api = Limit::per_hour(300).build("memory-speed")?;
    central.reset(&api, KEY).await?;

    // These checks do not call the central store.
    for (index, node) in nodes.iter().enumerate() {
        println!("node {index}: {} of 60 allowed", check(node, &api, 60).await?);
    }
    println!("central store before the first sync: {} remaining", central.peek(&api, KEY).await?.remaining());

    // The nodes synchronize in the background; the example waits for them.
    while nodes.iter().any(|node| sync_rounds(node) < 3) {
        central.clock().sleep(INTERVAL).await;
    }
    println!("central store after sync: {} remaining", central.peek(&api, KEY).await?.remaining());
    for (index, node) in nodes.iter().enumerate() {
        println!("node {index} after sync: {} remaining", node.peek(&api, KEY).await?.remaining());
    }

    // The demand exceeds the limit, and each node spends its share.
    for round in 1..=4 {
        let mut allowed = [0; 3];
        for (node, allowed) in nodes.iter().zip(&mut allowed) {
            *allowed = check(node, &api, 100).await?;
        }
        println!("round {round}: {allowed:?} of 100 each allowed");
        central.clock().sleep(3 * INTERVAL).await;
    }

    // At shutdown: pending deltas are sent to the central store.
    for node in &nodes {
        node.store().close(Duration::from_secs(5)).await?;
    }
    let end = central.peek(&api, KEY).await?;
    println!("in the end: {} remaining, {} allowed beyond the limit", end.remaining(), end.debt());
    assert!(end.remaining() < 60, "nearly all of the limit is used");
    assert!(end.debt() < 60, "little more than the limit is allowed");
    central.reset(&api, KEY).await?;
    Ok(())
}
