//! A burst is admitted, denied, and admitted again, with a small live picture.
//!
//! `cargo run --release --example quickstart`

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Duration;

use tollgate::{BlockingTimer, Limit};

/// Requests that come `apart` from each other, the first of them `after` a pause.
struct Wave {
    what: &'static str,
    after: Duration,
    requests: u32,
    apart: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let api = Limit::per_second(5).burst(10).build("api")?;
    let limiter = tollgate::in_memory();
    let wave = |what, after, requests, apart| Wave {
        what,
        after: Duration::from_millis(after),
        requests,
        apart: Duration::from_millis(apart),
    };

    println!("5 per second, at most 10 at once. Each sign is a request: # passed, . was denied.\n");
    for Wave { what, after, requests, apart } in [
        wave("a burst of 15", 0, 15, 0),
        wave("a second later", 1_000, 8, 0),
        wave("10 a second", 0, 20, 100),
        wave("5 a second", 0, 10, 200),
    ] {
        print!("{what:>15}  ");
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
            None => println!("  {} left", now.remaining()),
        }
    }
    Ok(())
}
