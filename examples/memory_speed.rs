//! A fleet at memory speed: three nodes decide by themselves and exchange with a central store every 50 ms.
//!
//! ```sh
//! cargo run --release --example memory_speed --features sync                              # around this process's memory
//! cargo run --release --example memory_speed --features sync,redis -- redis://127.0.0.1   # around a Redis
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::sync::Synced;
use tollgate::{AnyStore, Limit, Limiter, Timer};

type Node = Limiter<Synced<Arc<AnyStore>>>;

/// Asks as often as said, and says how many passed.
async fn ask(node: &Node, limit: &Limit, times: u32) -> Result<u32, Box<dyn Error>> {
    let mut passed = 0;
    for _ in 0..times {
        passed += u32::from(node.check(limit, "everybody").await?.is_allowed());
    }
    Ok(passed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    // In a fleet every process has a connection of its own; here three nodes share one.
    let centre = Arc::new(tollgate::connect(&url).await?.into_store());
    let central = Limiter::new(Arc::clone(&centre));
    let every = Duration::from_millis(50);
    let nodes: [Node; 3] =
        std::array::from_fn(|_| Limiter::new(Synced::new(Arc::clone(&centre)).every(every)));

    let api = Limit::per_hour(300).build("memory-speed")?;
    central.reset(&api, "everybody").await?;

    // Nobody asks the store for these.
    for (number, node) in nodes.iter().enumerate() {
        println!("node {number}: {} of 60 passed", ask(node, &api, 60).await?);
    }
    println!(
        "the centre has {} left: it has not heard of them yet",
        central.peek(&api, "everybody").await?.remaining()
    );

    // The nodes exchange by themselves; to wait for them is only for the example.
    while nodes.iter().any(|node| node.store().insight().exchanges < 3) {
        central.clock().sleep(every).await;
    }
    println!("the centre has {} left", central.peek(&api, "everybody").await?.remaining());
    for (number, node) in nodes.iter().enumerate() {
        println!("node {number} knows of {} left", node.peek(&api, "everybody").await?.remaining());
    }

    // Everybody wants more than there is, and each takes its share of it.
    for round in 1..=4 {
        let mut passed = [0; 3];
        for (node, passed) in nodes.iter().zip(&mut passed) {
            *passed = ask(node, &api, 100).await?;
        }
        println!("round {round}: {passed:?} of 100 each passed");
        central.clock().sleep(3 * every).await;
    }

    // Nothing that was granted is forgotten.
    for node in &nodes {
        node.store().close(Duration::from_secs(5)).await?;
    }
    let left = central.peek(&api, "everybody").await?;
    println!("in the end {} are left, {} too many had passed", left.remaining(), left.debt());
    assert!(left.remaining() < 60, "nearly all of it was used");
    assert!(left.debt() < 60, "and hardly more");
    central.reset(&api, "everybody").await?;
    Ok(())
}
