//! Documents read over HTTP, from a real server.
//!
//! - `server`: the server, which counts and can misbehave
//! - `reading`: documents, lists and histories; what is not sent again
//! - `failures`: servers that are down, slow, wrong or hostile
//! - `tls`: certificates

mod failures;
mod reading;
mod server;
mod tls;
