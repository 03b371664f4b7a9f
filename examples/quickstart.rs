//! A burst is admitted, denied, and admitted again, with a small live picture.
//!
//! `cargo run --release --example quickstart`

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use tollgate::{BlockingTimer, Limit};

fn main() -> Result<(), Box<dyn Error>> {
    let api = Limit::per_second(5).burst(10).build("api")?;
    let limiter = tollgate::in_memory();

    println!("5 per second, at most 10 at once. Each sign is a request: # passed, . was denied.\n");
    for (what, requests, pause) in [
        ("a burst of 15", 15, 0),
        ("a second later", 8, 1_000),
        ("ten a second", 20, 100),
        ("5 a second", 10, 200),
    ] {
        print!("{what:>15}  ");
        let mut told = None;
        limiter.clock().pause(Duration::from_millis(if pause == 1_000 { pause } else { 0 }));
        for _ in 0..requests {
            let decision = limiter.check_now(&api, "user:42");
            print!("{}", if decision.is_allowed() { '#' } else { '.' });
            if std::io::stdout().is_terminal() {
                std::io::stdout().flush()?;
            }
            told = Some(decision);
            limiter.clock().pause(Duration::from_millis(if pause < 1_000 { pause } else { 0 }));
        }
        if let Some(decision) = told {
            let wait =
                decision.retry_after().map_or_else(String::new, |wait| format!(", retry after {wait:.0?}"));
            println!("  {} left{wait}", decision.remaining());
        }
    }
    Ok(())
}
