//! The conformance suite on one real Redis, through each wrapper and through all of them.

mod on_redis;
mod through;

use std::process::ExitCode;

fn main() -> ExitCode {
    through::run(through::wrappers(on_redis::Redis::default))
}
