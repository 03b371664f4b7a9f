//! The wrappers around a running Redis.

use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::store::Store;
use tollgate::{Limit, Limiter};
use tollgate_resilience::{Coalesced, FallbackStore, Guarded, Share, Switched};
use tollgate_store_redis::RedisStore;

use crate::keys::Walk;
use crate::measure::Plan;
use crate::redis::floor;
use crate::redis::load::Lap;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::{Contestant, Failure, Place, Remote, runner};
use crate::redis::tollgate::{Check, bare, bucket, connect, is_admitted};
use crate::redis::workload::{
    ALONE, CHECKS_50, CHECKS_500, MANY_KEYS_50, MANY_KEYS_500, Workload, thousands,
};
use crate::report::Findings;
use crate::selection::Selection;

pub const BARE: &str = "tollgate";
pub const GUARDED: &str = "guarded";
pub const COALESCED: &str = "coalesced";
/// All wrappers in the intended order, around the store of a URL.
pub const COMPOSED: &str = "composed";

pub const HOT_500: &str = "hot-500";
/// Half of the keys have a bucket, half a sliding window: batches contain both.
pub const MIXED_50: &str = "mixed-50";
pub const MIXED_500: &str = "mixed-500";
pub const MIXED: &str = "mixed";
pub const MIXED_COALESCED: &str = "mixed, coalesced";

pub const WORKLOADS: [Workload; 6] = [
    MANY_KEYS_50,
    MANY_KEYS_500,
    Workload {
        name: HOT_500,
        in_flight: 500,
        keys: 1,
        checks: 25_000,
        rank: Lap::time,
        columns: &[
            ("thousands/s-hot", thousands),
            (HOT_500, Lap::time),
            ("client-cpu-hot", Lap::client),
            ("server-cpu-hot", Lap::server),
        ],
    },
    Workload {
        name: MIXED_50,
        columns: &[
            ("thousands/s-mixed-50", thousands),
            (MIXED_50, Lap::time),
            ("client-cpu-mixed-50", Lap::client),
            ("server-cpu-mixed-50", Lap::server),
        ],
        ..MANY_KEYS_50
    },
    Workload {
        name: MIXED_500,
        columns: &[
            ("thousands/s-mixed-500", thousands),
            (MIXED_500, Lap::time),
            ("client-cpu-mixed-500", Lap::client),
            ("server-cpu-mixed-500", Lap::server),
        ],
        ..MANY_KEYS_500
    },
    // Few keys: the added cost does not depend on their number.
    Workload {
        name: ALONE,
        in_flight: 1,
        keys: 2_000,
        checks: 5_000,
        rank: Lap::time,
        columns: &[(ALONE, Lap::time), ("client-cpu-alone", Lap::client), ("server-cpu-alone", Lap::server)],
    },
];

fn contestants() -> Vec<Contestant> {
    let ours = |name, build, workloads| Contestant { name, build, peer: false, workloads };
    vec![
        bare(BARE, &[CHECKS_50, CHECKS_500, HOT_500, ALONE]),
        ours(GUARDED, |place| runner(Check::through(place, guarded)), &[CHECKS_50, ALONE]),
        ours(
            COALESCED,
            |place| runner(Check::through(place, Coalesced::new)),
            &[CHECKS_50, CHECKS_500, HOT_500, ALONE],
        ),
        ours(COMPOSED, |place| runner(composed(place)), &[CHECKS_50, CHECKS_500, ALONE]),
        ours(MIXED, |place| runner(Mixed::build(place, |redis| redis)), &[MIXED_50, MIXED_500]),
        ours(MIXED_COALESCED, |place| runner(Mixed::build(place, Coalesced::new)), &[MIXED_50, MIXED_500]),
        floor::contestant(&[CHECKS_50, CHECKS_500, ALONE]),
    ]
}

async fn composed(place: Place) -> Result<Check<impl Store + 'static>, Failure> {
    let store = tollgate::connect(&place.url).await?.into_store();
    let limiter = Limiter::new(Switched::new(guarded(Coalesced::new(store))));
    Ok(Check::new(limiter, bucket().build(&place.namespace)?))
}

fn guarded<S: Store + 'static>(redis: S) -> Guarded<S> {
    // The cost of a deadline does not depend on its length. One second is met on a busy machine, too: no check falls
    // back.
    let fallback = FallbackStore::new(MemoryStore::new(), Share::one_of(10));
    Guarded::builder(redis).deadline(Duration::from_secs(1)).on_failure(fallback).build().expect("valid")
}

pub async fn measure(plan: Plan, selection: &Selection, findings: &mut Findings) -> Result<(), Failure> {
    let server = Server::open(None).await?;
    race::measure(plan, &server, &WORKLOADS, &contestants(), selection, findings).await
}

pub fn print(findings: &Findings, selection: &Selection) {
    race::print(findings, &WORKLOADS, &contestants(), selection);
}

/// Checks on buckets and on sliding windows.
struct Mixed<S> {
    limiter: Limiter<S>,
    bucket: Limit,
    window: Limit,
}

impl<S: Store> Mixed<S> {
    async fn build(place: Place, wrapped: fn(RedisStore) -> S) -> Result<Self, Failure> {
        let limiter = Limiter::new(wrapped(connect(&place).await?));
        let window = bucket().sliding_window().build("window")?;
        Ok(Self { limiter, bucket: bucket().build("bucket")?, window })
    }
}

impl<S: Store + 'static> Remote for Mixed<S> {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let key = keys.step();
        let is_even = key.bytes().last().is_some_and(|digit| digit % 2 == 0);
        let limit = if is_even { &self.bucket } else { &self.window };
        Ok(is_admitted(&self.limiter.check(limit, key).await?))
    }
}
