//! What goes wrong between a store and a real Cassandra, and what callers are told then: a right decision or an error that
//! says what is wrong and whether the call may have taken effect. Nothing hangs, nothing panics, nothing counts twice.
//!
//! - `schema`, `login`: what the store is told about the cluster, and what it finds there
//! - `strangers`, `keys`, `bounds`: what rows hold, whose they are, and how much goes into them
//! - `expiry`, `clocks`: rows that end, and clients that do not agree on the time
//! - `economy`: what is sent, and what is not
//! - `outages`, `lost_answers`: nodes that are gone, and questions without an answer
//! - `expect`, `proxy`: what the tests are made of

mod bounds;
mod clocks;
mod economy;
mod expect;
mod expiry;
mod keys;
mod login;
mod lost_answers;
mod outages;
mod proxy;
mod schema;
mod strangers;
