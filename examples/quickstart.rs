//! A burst is allowed, denied, and allowed again, as a small live picture.
//!
//! `cargo run --release --example quickstart`

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use tollgate::{BlockingTimer, Limit};

/// Requests at a distance of `apart`, the first of them `after` a pause.
struct Wave {
    name: &'static str,
    after: Duration,
    requests: u32,
    apart: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let api = Limit::per_second(5).burst(10).build("api")?;
    let limiter = tollgate::in_memory();
    let wave = |name, after, requests, apart| Wave {
        name,
        after: Duration::from_millis(after),
        requests,
        apart: Duration::from_millis(apart),
    };

    println!("5 per second, burst of 10. Each sign is a request: # is allowed, . is denied.\n");
    for Wave { name, after, requests, apart } in [
        wave("a burst of 15", 0, 15, 0),
        wave("a second later", 1_000, 8, 0),
        wave("10 a second", 0, 20, 100),
        wave("5 a second", 0, 10, 200),
    ] {
        print!("{name:>15}  ");
        stdout().flush()?;
        limiter.clock().pause(after);
        for _ in 0..requests {
            let decision = limiter.check_now(&api, "user:42");
            print!("{}", if decision.is_allowed() { '#' } else { '.' });
            stdout().flush()?;
            limiter.clock().pause(apart);
        }
        let now = limiter.peek_now(&api, "user:42");
        match now.retry_after() {
            Some(wait) => println!("  retry after {} ms", wait.as_millis()),
            None => println!("  {} remaining", now.remaining()),
        }
    }
    Ok(())
}
