//! The conformance suite on gathered checks of one real Redis.

mod company;
mod on_redis;
mod yielding;

use std::process::ExitCode;

fn main() -> ExitCode {
    company::run(on_redis::Redis::default())
}
