//! Decisions at memory speed, a central truth, and a bound that holds.
//!
//! [`Synced`] is a store around a store: it decides here, by what it knows, and exchanges with the central one every so often. What a
//! caller waits for is a look-up in memory; what the centre handles is one call for some hundreds of keys.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate_core::{Limit, Limiter};
//! use tollgate_limiter_sync::{Synced, WhenStale};
//! use tollgate_store_redis::RedisStore;
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = RedisStore::connect("redis://127.0.0.1").await?;
//! let synced = Synced::new(redis).every(Duration::from_millis(100)).when_stale(WhenStale::one_of(10));
//! let limiter = Limiter::new(synced);
//!
//! let api = Limit::per_second(1_000).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // too many
//! }
//!
//! // When the program ends: tells the centre what it has not heard of yet.
//! limiter.store().close(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Two modes
//!
//! | | [`Mode::Deltas`], unless said | [`Mode::Lease`] |
//! |---|---|---|
//! | decides by | a copy of the centre's state | tokens that were taken from the centre ahead of need |
//! | beyond the limit | a bounded part of it, which is repaid | never, all in all |
//! | without the centre | goes on, as [`WhenStale`] says | until what is leased is spent |
//! | a caller waits for the centre | never, unless [`ColdKeys::AskFirst`] | when it needs more than is leased |
//! | a node that crashes | may lose what it granted since the last exchange | loses what it had leased, to everybody |
//!
//! ## Deltas
//!
//! Everything that is granted here is booked at the centre with the next exchange, which brings back what everybody granted. In between
//! nodes do not know of each other: of 4 a second on three nodes, 12 may pass at once, the balance goes to −8, and nothing passes for
//! the next 2 s. With *N* nodes, a bucket of capacity *C* and rate *L*, and a time *D* after which all nodes know what one has granted, what
//! passes in any time *t* is at most
//!
//! > *C* + *L*·*t* + (*N* − 1) · (*C* + *L*·*D*)
//!
//! *D* is an exchange of the one that granted and one of each other: with an interval *I*, of which a tenth may be added, and exchanges that take
//! *X*, one of which may be under way already, that is 2.2·*I* + 4·*X*. Where nodes may be cut off from the centre, for at most *P* at a time, each of the two
//! may fail, wait for that long, and then for its next turn: 4.4·*I* + 8·*X* + 2·*P*. In a window
//! of a window algorithm, at most *N* times the limit passes. That is the first burst of a fleet that knows nothing: once a
//! node has seen the demand of others, it spends only its share of what is left between exchanges, learnt from its part of what
//! everybody spent lately. Ten nodes under three times their limit, exchanging every 100 ms, stay within 2 % of it over any 10 s.
//!
//! ## Leases
//!
//! A node takes tokens ahead, about as many as it needs for an interval and at most a quarter of the capacity
//! ([`Terms::lease_at_most_one_of`]), and gives back what it does not use. What is leased is debited, so all in all never more than
//! *C* + *L*·*t* passes; in any shorter time what was leased before may come on top. The centre never takes a lease back: what a node
//! that crashes had leased is lost, until time refills it, and so is what a caller was about to get that went away while it waited for it.
//!
//! # Which interval
//!
//! The shortest that the centre can bear: a tenth of the time that the limit takes to fill is a good one, and 100 ms suits most. From the
//! simulation (`cargo run --release -p tollgate-bench -- sync-sim`), ten nodes under three times a limit of 1,000 a second:
//!
//! | every | beyond the limit, worst 10 s | used of it | first burst, in seconds of the limit |
//! |---|---|---|---|
//! | 10 ms | 0.15 % | 100 % | 0.01 |
//! | 100 ms | 0.17 % | 100 % | 0.2 |
//! | 250 ms | 0.95 % | 99.4 % | 0.6 |
//! | 1 s | 6.4 % | 95.5 % | 2.2 |
//! | 5 s | 48 % | 98 % | 10.6 |
//!
#![doc = include_str!("../docs/overshoot.svg")]
//!
//! (A point at the bottom is a fleet that was not beyond the limit: after so large a first burst, a thousand nodes had not repaid it yet.)
//!
//! A fleet under overload from its first request on, in both modes, beside plain checks at the centre:
//!
#![doc = include_str!("../docs/overload.svg")]
//!
//! And with three of its ten nodes cut off for six seconds:
//!
#![doc = include_str!("../docs/partition.svg")]
//!
//! # What is decided here
//!
//! Token buckets (both kinds of refill), leaky buckets as meters, GCRA, fixed windows, sliding windows and sliding counters. What cannot be
//! put together again is decided at the centre, each time, and exact as there: logs, work in flight, queues and smooth limiters, windows that
//! begin with the first hit, limits with a block time. `Capability::exact` says so. So are reservations and what forgets a key, for any
//! limit, and with leases debits and refunds; otherwise these are decided and booked like everything else. A request of several charges is all
//! or nothing, here or there.
//!
//! A key that is known to be empty is denied here until it can have tokens again. What others give back to it meanwhile, or make the centre
//! forget, is heard of as long as somebody asks: within twenty seconds, or twenty intervals if that is longer.
//!
//! # Nothing is lost
//!
//! - What the centre has not confirmed is kept and sent again, under the [operation id](tollgate_core::IdempotencyKey) that it had the first time.
//!   An outage, an eviction, a window that rolls over or a limit that changes does not lose it. [`Synced::close`] tells the rest when a program
//!   ends; an instance that is merely dropped does its best for ten seconds, if its runtime lives that long. The task that exchanges runs on
//!   the tokio runtime of the first call, which must go on running. If it ends, or the task by a panic of something that it calls, the centre
//!   counts as silent from then on, and a check a second later starts another on its own runtime.
//! - What was sent twice is booked once, as far back as the store recognises ids:
//!
//!   | centre | a repeated exchange is recognised |
//!   |---|---|
//!   | memory | for a minute; no answer is ever lost there |
//!   | Redis | for ten times [`Config::operation_memory`](https://docs.rs/tollgate-store-redis), ten minutes unless said; what a server forgets with its memory, it forgets with the states |
//!   | Cassandra | among the last 16 named calls of a row, for at least a minute; the store finds most lost answers by itself |
//!
//!   Beyond that it may be booked twice, on the side of the limit.
//! - Memory is bounded: a million keys at a time unless said ([`Synced::keys`]), and at most 17 entries of each that wait to be told. Idle keys
//!   leave. If there is no room still, one that the centre knows all about does, and until it would have been idle the centre is asked about
//!   keys that come, or come back; if all owe something, new keys are decided at the centre.
//!
//! # When the centre is silent
//!
//! Decisions go on by what is known. Once it has not answered for longer than [`Terms::stale_after`], [`WhenStale`] decides for each limit:
//! go on (each node with its last share), shrink to a part of the limit, or deny. Such decisions are marked
//! ([`Source`](tollgate_core::Source)) and counted. Any answer ends the silence: of a cluster whose other nodes answer, the keys of one that is
//! down are not stale, only untold.
//!
//! [`Insight`] says what has been going on, and an [`Observer`](tollgate_core::Observer) hears of every exchange.
//!
//! # Layout
//!
//! - [`Synced`] (`synced`): the store; `here`, `several`: deciding without asking anybody; `background`: the task.
//! - [`Terms`], [`Mode`], [`WhenStale`], [`ColdKeys`] (`terms`): how limits are synchronised.
//! - `table`: what is known here of each key, either a `mirror` of its state or a `pool` of tokens; `filling`: getting more of them.
//! - `share`: how much of what is left this node may spend; `owed`: what it has to tell the centre.
//! - `exchange`: telling it, and taking back what there is; `shared`: what callers and the task share.
//! - [`Insight`] (`insight`): what has been going on.

mod background;
mod exchange;
mod filling;
mod here;
mod insight;
mod mirror;
mod owed;
mod pool;
mod several;
mod share;
mod shared;
mod synced;
mod table;
mod terms;

pub use insight::Insight;
pub use synced::Synced;
pub use terms::{ColdKeys, Mode, Terms, WhenStale};
