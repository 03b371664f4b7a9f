//! The conformance suite on one real Redis, with each wrapper and with all of them.

mod redis_subject;
mod wrapped;

use std::process::ExitCode;

fn main() -> ExitCode {
    wrapped::run(wrapped::wrappers(redis_subject::Redis::default))
}
