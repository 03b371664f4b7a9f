//! Rules in a file that is edited while requests are decided: limits that did not change keep their counts, a broken
//! file changes nothing, and a switch to other rules is atomic.
//!
//! `cargo run --release --example hot_reload --features rules`

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tollgate::memory::MemoryStore;
use tollgate::rules::Retriever;
use tollgate::{Limiter, ManualClock};

const FIRST: &str = "
domain: shop
rules:
  - { name: api, when: { path: /api/** }, per: user, limit: 10/min }
";

const SECOND: &str = "
domain: shop
rules:
  - { name: api, when: { path: /api/** }, per: user, limit: 10/min }
  - { name: search, when: { path: /api/search }, per: user, limit: 2/min }
";

const BROKEN: &str = "
domain: shop
rules:
  - { name: api, when: { path: /api/** }, per: user, limit: 10/mni }
";

/// An application: rules that reload, and a limiter. A manual clock, so that every run prints the same.
struct Shop {
    rules: Retriever,
    limiter: Arc<Limiter<MemoryStore, ManualClock>>,
}

impl Shop {
    /// Sends requests of one user, and prints how many are allowed.
    async fn send(&self, requests: usize, path: &str) -> Result<(), Box<dyn Error>> {
        let mut allowed = 0;
        for _ in 0..requests {
            let rules = self.rules.rules();
            let shop = rules.domain("shop").ok_or("the file has no domain `shop`")?;
            let matched = shop.match_attributes(&[("path", path), ("user", "alice")]);
            allowed += usize::from(matched.admit(&self.limiter).await?.is_allowed());
        }
        println!("{path}: {allowed} of {requests} requests are allowed");
        Ok(())
    }

    /// Saves other rules as an editor does, and does not wait for the next poll.
    async fn save(&self, file: &Path, text: &str) -> Result<(), Box<dyn Error>> {
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, file)?;
        if let Err(error) = self.rules.refresh().await {
            println!("the new rules are not used:\n{error}");
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("rules.yaml");
    fs::write(&file, FIRST)?;
    // Looks at the file once per second.
    let rules = Retriever::files(&file).start().await?;
    let limiter = Arc::new(Limiter::with_clock(MemoryStore::new(), ManualClock::default()));
    let shop = Shop { rules, limiter };

    shop.send(4, "/api/search").await?;
    println!("-- a rule for searches is added; the requests so far still count");
    shop.save(&file, SECOND).await?;
    shop.send(4, "/api/search").await?;
    shop.send(10, "/api/items").await?;
    println!("-- a misspelt rule");
    shop.save(&file, BROKEN).await?;
    shop.send(4, "/api/search").await?;
    Ok(())
}
