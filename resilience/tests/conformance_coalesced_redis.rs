//! The conformance suite on one real Redis, with batched requests.

mod batched;
mod delayed;
mod redis_subject;

use std::process::ExitCode;

fn main() -> ExitCode {
    batched::run(redis_subject::Redis::default())
}
