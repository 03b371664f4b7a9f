//! Faults between a store and a real Cassandra. Callers get a correct decision, or an error that names the problem
//! and says whether the call may have taken effect. Nothing hangs, nothing panics, nothing is counted twice.
//!
//! - `schema`, `credentials`: missing or incompatible tables, rejected users
//! - `corrupt_rows`, `keys`, `bounds`: the content, the names and the size of rows
//! - `expiry`, `clocks`: the time-to-live of rows, and clients with differing clocks
//! - `request_counts`: how many requests are sent
//! - `outages`, `lost_responses`: unreachable nodes, and requests without a response
//! - `documents`, `lost_changes`: the same for documents
//! - `runtimes`: runtimes that end
//! - `fixture`, `proxy`: the node, assertions, and a proxy that injects faults

mod bounds;
mod clocks;
mod corrupt_rows;
mod credentials;
mod documents;
mod expiry;
mod fixture;
mod keys;
mod lost_changes;
mod lost_responses;
mod outages;
mod request_counts;
mod runtimes;
mod schema;
