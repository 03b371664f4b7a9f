//! Distributed rate limiting with local decisions: token buckets, leaky buckets, GCRA and windows, decided in memory
//! and periodically synchronized with a central store such as Redis or Cassandra.
//!
//! [`Synced`] is a store around a central store. A check is a lookup in memory; the central store receives one call for
//! hundreds of keys per sync interval. How much may pass beyond the limit is bounded, and repaid.
//!
//! ```no_run
//! use std::time::Duration;
//! use tollgate::redis::RedisStore;
//! use tollgate::sync::{Synced, WhenStale};
//! use tollgate::{Limit, Limiter};
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = RedisStore::connect("redis://127.0.0.1").await?;
//! let synced = Synced::builder(redis)
//!     .interval(Duration::from_millis(100))
//!     .when_stale(WhenStale::share_of(10))
//!     .build()?;
//! let limiter = Limiter::new(synced);
//!
//! let api = Limit::per_second(1_000).burst(100).build("api")?;
//! if limiter.check(&api, "user:42").await?.is_denied() {
//!     // too many requests
//! }
//!
//! // At shutdown: sends the pending deltas to Redis.
//! limiter.store().close(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Modes
//!
//! | | [`Mode::Deltas`] (default) | [`Mode::Lease`] |
//! |---|---|---|
//! | decides on | a replica of the central state | tokens leased from the central store in advance |
//! | beyond the limit | by a bounded amount, which is repaid | never, in total |
//! | without the central store | continues, as [`WhenStale`] says | until the leased tokens are spent |
//! | a check waits | for tokens beyond its share, with [`ColdKeys::FetchFirst`], without a sync task | when it needs more tokens than are leased |
//! | a node crashes | may lose what it granted since the last sync round | loses its leased tokens, for all nodes |
//!
//! ## Deltas
//!
//! Every local grant becomes a delta, and the next sync round applies it centrally. The answer contains what all nodes
//! granted. Between two rounds nodes do not know of each other: of 4 per second on three nodes, 12 may pass at once;
//! the balance goes to −8, and nothing passes for the next 2 s. With *N* nodes, a bucket of capacity *C* and rate *L*,
//! and a time *D* after which all nodes know what one of them granted, at most this much passes in any time *t*:
//!
//! > *C* + *L*·*t* + (*N* − 1) · (*C* + *L*·*D*)
//!
//! *D* is one sync round of the node that granted, and one of each other node. With an interval *I*, which may be a
//! tenth longer, and rounds that take *X*, one of which may be running already, that is 2.2·*I* + 4·*X*. Where nodes
//! may be cut off from the central store, for at most *P* at a time, each of the two rounds may fail, wait for that
//! long, and then for its next interval: 4.4·*I* + 8·*X* + 2·*P*. In a window of a window algorithm, at most *N* times
//! the limit passes.
//!
//! That is the first burst of nodes that do not know of each other yet. Once a node has seen the demand of others, it
//! spends only its share of the remaining tokens between two rounds. Ten nodes under three times their limit,
//! synchronized every 100 ms, stay within 2 % of it over any 10 s.
//!
//! A check that a share does not cover is not denied while the central store has tokens, as far as is known: it waits
//! for one call ([`SyncPolicy::ask_within`]), which is made for all checks of the key that need tokens. For a limit
//! that takes ten intervals to fill or longer, nothing is denied that would leave a central bucket an eighth of its
//! capacity. A key that is known to be empty costs no call, and neither does one whose nodes were denied something
//! lately: they keep to their shares.
//!
//! ## Leases
//!
//! A node leases about as many tokens as it needs for an interval, at most a quarter of the capacity
//! ([`SyncPolicy::max_lease_share`]), and returns what it does not use. Leased tokens are debited centrally, so in
//! total never more than *C* + *L*·*t* passes; in any shorter time, tokens leased before may be spent in addition. The
//! central store never revokes a lease: the tokens of a node that crashes are lost until they are refilled, and so are
//! tokens that a caller was about to receive when it was dropped.
//!
//! # Choosing an interval
//!
//! Use the shortest interval that the central store can bear. A tenth of the time that the limit takes to fill is a
//! good one, and 100 ms suits most limits. From the simulation (`cargo run --release -p tollgate-sim`),
//! ten nodes under three times a limit of 1,000 per second:
//!
//! | interval | beyond the limit, worst 10 s | utilisation | first burst, in seconds of the limit |
//! |---|---|---|---|
//! | 10 ms | 0.07 % | 100 % | 0.01 |
//! | 100 ms | 0.09 % | 100 % | 0.2 |
//! | 250 ms | 0.89 % | 99.6 % | 0.6 |
//! | 1 s | 4.6 % | 94.9 % | 2.2 |
//! | 5 s | 28 % | 81 % | 11 |
//!
#![doc = include_str!("../docs/overshoot.svg")]
//!
//! (A point at the bottom is a fleet that did not exceed the limit: after so large a first burst, a thousand nodes had
//! not repaid it yet.)
//!
//! A fleet under overload from its first request on, in both modes, compared with checks at the central store:
//!
#![doc = include_str!("../docs/overload.svg")]
//!
//! And with three of its ten nodes cut off for six seconds:
//!
#![doc = include_str!("../docs/partition.svg")]
//!
//! # Fair shares
//!
//! While a limit has tokens for all nodes, whichever asks gets them. Once it does not, nodes exchange their demand
//! through the central store, and each gets a max-min fair part: a node with little demand gets all of it, and the
//! others share the rest equally. A node that joins, or has been idle, has its part about a second (ten intervals)
//! later. Two nodes, one after the other, and the same with checks at the central store:
//!
#![doc = include_str!("../docs/joining.svg")]
//!
//! A node whose share is used up does not deny what the central store has tokens for: it asks, once for all callers that
//! wait, and at most for [`SyncPolicy::ask_within`]. So a burst on a quiet node passes at once. A key that is known to be
//! empty, or that several nodes want more of than there is, costs no such call. Ten nodes share 10 per second and a burst
//! of 100:
//!
#![doc = include_str!("../docs/quiet-node.svg")]
//!
//! Choose an interval of at most a tenth of the time that the limit takes to fill: where all of the burst is refilled
//! within an interval, nodes cannot know what is left of it, and some of a burst may be denied.
//!
//! # Outages
//!
//! During an outage, nodes go on by their shares: about the limit in total, if all of them are cut off. When the
//! central store is back, what was refilled meanwhile pays for what was granted meanwhile, and only what exceeds it is
//! repaid. Checks at the central store would have been errors:
//!
#![doc = include_str!("../docs/outage.svg")]
//!
//! Nodes that have not known of each other before an outage cannot compare. That is so for a bucket which is full again
//! between any two sync rounds, because its limit is not nearly used. What such nodes granted during the outage counts
//! in full, and callers may be denied for some of that time.
//!
//! # What is decided locally
//!
//! Token buckets (both kinds of refill), leaky buckets as meters, GCRA, fixed windows, sliding windows and sliding
//! counters. Limits whose state cannot be merged are always decided centrally, and exactly: sliding logs, concurrency
//! limits, queues and smooth limiters, windows that start with the first hit, and limits with a block time.
//! `Capability::exact` lists the algorithms. For every limit, the central store decides reservations and resets; with
//! leases, also debits, refunds, and peeks while no token is leased. With deltas, debits and refunds are decided
//! locally and become deltas, too. A request of several charges is all or nothing, locally or centrally.
//!
//! A key whose replica is empty is denied locally until it has tokens again. If other nodes refund something or reset
//! the key in the meantime, this node learns of it as long as the key is checked: within twenty seconds, or within
//! twenty intervals if that is longer.
//!
//! # Nothing is lost
//!
//! - A batch of deltas that is not confirmed is kept and sent again, under the [idempotency
//!   key](tollgate_core::IdempotencyKey) of its first attempt. An outage, an eviction, the end of a window or a change
//!   of the limit does not lose it. [`Synced::close`] sends the rest at shutdown. A [`Synced`] that is dropped tries to
//!   for ten seconds, if its runtime lives that long.
//! - The sync task runs on the tokio runtime of the first check that has one. If it shows no sign of life for a second,
//!   because that runtime has ended or is not driven, or because the task panicked in something that it calls, the next
//!   check on a runtime replaces it by another on its own runtime, at most once per second. What the task had in flight
//!   is sent again; on a runtime that still exists, once that is driven or ends. If there are pending deltas, that check
//!   also waits for sync rounds, for at most 50 ms: so a node also synchronizes on a runtime that is driven during
//!   checks only (`block_on` for each), about once per second. Checks without a runtime start no task.
//! - A batch that is sent twice is applied once, for as long as the central store recognizes its idempotency key:
//!
//!   | central store | a repeated batch is recognized |
//!   |---|---|
//!   | memory | for a minute; no answer is ever lost there |
//!   | Redis | for ten times `Config::idempotency_retention` (ten minutes by default), if the server keeps its data |
//!   | Cassandra | among the last 16 of a row, for at least a minute; the store detects most lost answers by itself |
//!
//!   After that it may be applied twice, which over-counts and never over-admits.
//! - The central store forgets the idempotency keys of calls that were sent once and answered, hundreds at a time
//!   ([`Store::forget_idempotency_keys`](tollgate_core::store::Store::forget_idempotency_keys)). On Redis, what a node
//!   leaves there besides the states is less than 1 MB with keys of up to 200 bytes, whatever the number of keys and
//!   cluster slots. While the server does not answer, it may be 200 bytes for each slot. On Cassandra, keys are part of
//!   the rows, which have room for 16 of them.
//! - Memory is bounded: a million keys by default ([`SyncedBuilder::max_keys`]), and at most 17 pending deltas for
//!   each. Idle entries are removed. If there is still no room, an entry without pending deltas is evicted; until it
//!   would have been idle, the states of unknown keys are fetched from the central store. If every entry has pending
//!   deltas, new keys are decided centrally.
//!
//! # Staleness
//!
//! While the central store does not answer, decisions continue on the local replicas. Once it has not answered for
//! longer than [`SyncPolicy::stale_after`], the [`WhenStale`] of each limit applies: continue (each node with its last
//! share), decide against a share of the limit, or deny. Such decisions are marked ([`Source`](tollgate_core::Source))
//! and counted. Any answer ends the staleness: if one node of a cluster is down and the others answer, its keys are not
//! stale, their deltas stay pending.
//!
//! A sync round that does not take place counts as one without an answer, whatever the reason: the check that has
//! something to send expects a round within two intervals, or at once if there is no sync task. So a node whose sync
//! task was never started, has ended or is stuck does not spend the whole limit on its own, and neither does a
//! [manual](SyncedBuilder::manual) node that is not synchronized. A node that has nothing to send is not stale.
//!
//! # After an outage
//!
//! What was refilled while the central store was away pays for what nodes granted meanwhile; only what exceeds it
//! is repaid. So a fleet that stayed at its limit goes on at once, whether its nodes come back together or one
//! after the other. The account is exact to about half a second of the limit (a period of an interval bucket); it
//! does not distinguish when tokens overflowed during the outage. It needs nodes that knew of each other before:
//! the deltas of a key that only one node used, that was first used during the outage, or whose bucket was full
//! again between any two rounds, count in full. A node that was cut off for more than ten minutes while others went
//! on may repay too little. Windows count what was granted in each of them.
//!
//! [`Stats`] has the statistics, and an [`Observer`](tollgate_core::Observer) receives an event for every sync round.
//!
//! # Layout
//!
//! - [`Synced`] (`synced`): the store; `central`: decisions that need the central store.
//! - [`SyncedBuilder`], [`SyncPolicy`], [`Mode`], [`WhenStale`], [`ColdKeys`] (`config`): configuration.
//! - `local`: local entries and the decisions on them; `sync`: synchronization with the central store.
//! - `node`: what callers and the sync task share; [`Stats`] (`stats`): statistics.

mod central;
mod config;
mod local;
mod node;
mod stats;
mod sync;
mod synced;

use std::time::Duration;

pub use config::{ColdKeys, Mode, SyncPolicy, SyncedBuilder, WhenStale};
pub use stats::Stats;
pub use synced::Synced;

/// A span in nanoseconds, saturating.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
