//! Tests of identifiers.

mod address;
mod builder;
mod client_ip;
mod forwarded;
mod http;
mod key;
mod path;
