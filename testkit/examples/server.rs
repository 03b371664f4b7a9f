//! Starts a real server, prints its URL, and ends it when the standard input ends.
//!
//! ```sh
//! cargo run -p tollgate-testkit --example server -- cassandra
//! ```

use std::io::{self, Read, Write};

use tollgate_testkit::{Cassandra, Redis};

#[tokio::main]
async fn main() -> io::Result<()> {
    // Runs until the end of the input.
    let (url, _server): (String, Box<dyn std::any::Any>) = match std::env::args().nth(1).as_deref() {
        Some("redis") => {
            let redis = Redis::start(&[]).await;
            (redis.url(), Box::new(redis))
        }
        Some("cassandra") => {
            let cassandra = Cassandra::start().await;
            (cassandra.url(), Box::new(cassandra))
        }
        _ => {
            eprintln!("usage: server redis|cassandra");
            std::process::exit(2);
        }
    };
    println!("{url}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
