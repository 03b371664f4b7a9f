//! What goes wrong between a store and a real Redis, and what callers are told then: a right decision or an error that
//! says what is wrong and whether the call may have taken effect. Nothing hangs, nothing panics, nothing counts twice.
//!
//! - `strangers`, `keys`: what is stored under a key, and what keys may be
//! - `configuration`, `login`, `encryption`: what the store is told about the server
//! - `refusals`: servers that are full, replicas or loading
//! - `outages`, `silence`: servers that are gone, or there and silent
//! - `lost_answers`: connections that end between question and answer
//! - `load`: many callers at once
//! - `expect`, `proxy`: what the tests are made of

mod configuration;
mod encryption;
mod expect;
mod keys;
mod load;
mod login;
mod lost_answers;
mod outages;
mod proxy;
mod refusals;
mod silence;
mod strangers;
